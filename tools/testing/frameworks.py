"""The parts that test frameworks: each in its own environment, on several versions, and with recipes of training."""

from __future__ import annotations

import secrets
from typing import Dict, List, Sequence, Tuple

from testing.part import ROOT, TWO_AT_A_TIME, Part

# Where each framework is installed, on the version that the standard suite tests. Keras 3 runs on TensorFlow there.
FRAMEWORKS = {
    "numpy": ".venv",
    "torch": ".venv",
    "lightning": ".venv",
    "tensorflow": ".setup/venvs/tensorflow",
    "jax": ".setup/venvs/tensorflow",
    "mxnet": ".setup/venvs/mxnet",
    "keras": ".setup/venvs/tensorflow",
}
# As many fresh recipes of training are played by `recipes`; the standard suite plays some with fixed seeds.
FRESH_RECIPES = {"torch": 3000, "keras": 300, "tensorflow": 300, "jax": 300, "mxnet": 600}
# The other backends of Keras and Keras 2 (tf-keras): where each is installed, and the settings that choose it.
OTHER_KERAS: Sequence[Tuple[str, Dict[str, str]]] = (
    (".venv", {"KERAS_BACKEND": "torch"}),
    (".setup/venvs/tensorflow", {"KERAS_BACKEND": "jax"}),
    (".setup/venvs/tensorflow", {"TF_USE_LEGACY_KERAS": "1", "FARANDOLE_TEST_KERAS": "tensorflow.keras"}),
)
# The tests of their reductions that take the least time.
A_FEW_OF_KERAS = ("-k", "(several_backward or computed) and not legacy")
FRESH_RECIPES_OF_OTHER_KERAS = 150
# For so many recipes of a framework one is played in an elastic job of its own, which takes as long as many others.
ELASTIC_SHARE = {"torch": 30, "jax": 10, "keras": 10, "tensorflow": 10}
ELASTIC_RECIPES_OF_LIGHTNING = 30


def frameworks(part: Part) -> None:
    """each framework in its own environment, on one version: one suite for all on 2 ranks, and tests of each"""
    for name, where in FRAMEWORKS.items():
        ranks_of_framework(part, name, where)
    for where, environment in OTHER_KERAS:
        ranks_of_framework(part, "keras", where, A_FEW_OF_KERAS, **environment)


def framework_jobs(part: Part) -> None:
    """the tests of frameworks that start jobs, recipes of training with fixed seeds among them"""
    part.pytest("tests/frameworks/arithmetic")
    fixed_recipes(part)
    for name, where in FRAMEWORKS.items():
        launched_of_framework(part, name, where)


def versions(part: Part) -> None:
    """the frameworks' tests on other versions and backends"""
    part.selection = ""  # the slow ones too
    ranks_of_framework(part, "tensorflow", ".setup/venvs/tensorflow-2.15")
    ranks_of_framework(part, "keras", ".setup/venvs/tensorflow-2.15")
    for where, environment in OTHER_KERAS:
        ranks_of_framework(part, "keras", where, **environment)
    ranks_of_framework(part, "torch", ".setup/venvs/torch-2.2")
    ranks_of_framework(part, "lightning", ".setup/venvs/torch-2.2")
    ranks_of_framework(part, "jax", ".setup/venvs/jax-0.8")


def recipes(part: Part) -> None:
    """fresh recipes of training, in one process and on ranks; `--seeds N` of each framework, or one of `--seed S`"""
    for name, number in FRESH_RECIPES.items():
        count = part.options.get("seeds", number)
        play_recipes(part, name, count, FRAMEWORKS[name])
        if name in ELASTIC_SHARE:
            play_recipes(part, name, -(-count // ELASTIC_SHARE[name]), FRAMEWORKS[name], "--elastic")
    count = part.options.get("seeds", ELASTIC_RECIPES_OF_LIGHTNING)
    play_recipes(part, "lightning", count, FRAMEWORKS["lightning"], "--elastic")
    for where, environment in OTHER_KERAS:
        count = part.options.get("seeds", FRESH_RECIPES_OF_OTHER_KERAS)
        play_recipes(part, "keras", count, where, **environment)


def play_recipes(part: Part, name: str, count: int, where: str, *options: str, **environment: str) -> None:
    """Half of the fresh recipes on 2 ranks, the other half on 3; a recipe that is asked for on both."""
    for np in (2, 3):
        play = ("tests/recipes/play.py", "--framework", name, *options, "--np", str(np))
        chosen: Tuple[str, ...] = ("--base", str(secrets.randbits(32)), "--seeds", str(-(-count // 2)))
        if "seed" in part.options:
            chosen = ("--seed", str(part.options["seed"]))
        part.command(python_in(where), *play, *chosen, **environment)


def ranks_of_framework(part: Part, name: str, where: str, options: Sequence[str] = (), **environment: str) -> None:
    """The suite for all frameworks and the tests of this one on 2 ranks."""
    settings = {"FARANDOLE_TEST_FRAMEWORK": name, **environment}
    launcher = (f"{where}/bin/horovodrun",)
    part.ranks(2, *folders_of_framework(name), launcher=launcher, python=python_in(where), options=options, **settings)


def fixed_recipes(part: Part) -> None:
    """The recipes of training with fixed seeds, and the tests of their player."""
    part.pytest("tests/recipes", FARANDOLE_TEST_FRAMEWORK="torch")
    drawn = "tests/recipes/test_drawn_recipes.py"
    for name in FRESH_RECIPES:
        if name != "torch":
            part.pytest(drawn, python=python_in(FRAMEWORKS[name]), FARANDOLE_TEST_FRAMEWORK=name)


def elastic_recipes(part: Part) -> None:
    """The tests of elastic jobs with recipes of other frameworks than PyTorch. All have the mark `slow`."""
    for name in (*ELASTIC_SHARE, "lightning"):
        if name != "torch":
            elastic = "tests/recipes/test_elastic_recipes.py"
            part.pytest(elastic, python=python_in(FRAMEWORKS[name]), FARANDOLE_TEST_FRAMEWORK=name)


def python_in(where: str) -> str:
    """The interpreter of an environment, which lies in this folder of the checkout."""
    return str(ROOT / where / "bin" / "python")


def launched_of_framework(part: Part, name: str, where: str) -> None:
    """The tests of a framework that launch jobs."""
    folders = folders_of_framework(name)
    files = sorted(str(path.relative_to(ROOT)) for each in folders for path in (ROOT / each).glob("test_launch*.py"))
    if files:
        part.pytest(*files, python=python_in(where), options=TWO_AT_A_TIME, FARANDOLE_TEST_FRAMEWORK=name)


def folders_of_framework(name: str) -> List[str]:
    tests = ROOT / "tests" / "frameworks"
    folders = [f"tests/frameworks/{name}"] if (tests / name).exists() else []
    return ["tests/frameworks/suite", *folders] if (tests / "drivers" / f"{name}.py").exists() else folders
