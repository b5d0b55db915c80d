#!/usr/bin/env python3
"""Plays recipes of training: in one process, and on 2 and on 3 ranks, with the same result.

    tests/recipes/play.py optimizer=Adam passes=2       plays this recipe
    tests/recipes/play.py --seed 17                     plays the recipe of a seed
    tests/recipes/play.py --base 1000 --seeds 500       plays those of 500 seeds
    tests/recipes/play.py --framework keras --seeds 50  plays those of Keras, in an environment that has it
    tests/recipes/play.py --elastic events=kill.1.0.pass    plays a recipe in an elastic job

It stops at the first recipe that fails, reduces it, and prints the command that plays the reduced one.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import time
from functools import partial
from pathlib import Path
from typing import Callable, Iterable, Iterator, List, NamedTuple, Tuple

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "parallel")]  # of `launched`

from elastic.job import ElasticJob  # noqa: E402
from elastic.recipes import NAMES as ELASTIC  # noqa: E402
from elastic.recipes import of_framework  # noqa: E402
from frameworks import NAMES, framework  # noqa: E402
from jobs import RecipeJob  # noqa: E402
from recipe import Recipe, from_words, to_words  # noqa: E402
from reducing import BUDGET_S, reduced  # noqa: E402

SIZES = (2, 3)
# What chooses the version and the backend of Keras.
CHOOSING_KERAS = ("KERAS_BACKEND", "TF_USE_LEGACY_KERAS", "FARANDOLE_TEST_KERAS")
PROGRESS = 100


class Mode(NamedTuple):
    """Which recipes are played, and by which jobs."""

    option: str
    """The option of the command line."""
    job: Callable[[int], RecipeJob]
    kind: type
    """The class of the recipes."""
    draw: Callable[[int], Recipe]
    repaired: Callable[[Recipe], Recipe]
    suited: Callable[[Recipe, int], Recipe]


def of_fixed_members(name: str) -> Mode:
    """Recipes of a framework, in a job that plays one after the other."""
    used = framework(name)
    job = partial(RecipeJob, framework=name)
    return Mode(f"--framework {name}", job, used.kind, used.draw, used.repaired, used.suited)


def elastic(name: str) -> Mode:
    """Recipes of a framework, each in an elastic job of its own."""
    used = of_framework(name)
    job = partial(ElasticJob, framework=name)
    return Mode(f"--elastic --framework {name}", job, used.kind, used.draw, used.repaired, used.suited)


def played(mode: Mode, job: RecipeJob, recipes: Iterable[Recipe]) -> Iterator[Tuple[Recipe, str]]:
    """Plays recipes. Yields each with its problem."""
    for count, recipe in enumerate((mode.suited(each, job.size) for each in recipes), 1):
        yield recipe, job.play(to_words(recipe))
        if count % PROGRESS == 0:
            print(f"{count} recipes on {job.size} ranks", flush=True)


def first_failure(mode: Mode, job: RecipeJob, recipes: Iterable[Recipe], budget_s: float = BUDGET_S) -> str:
    """Plays recipes until one fails. Describes the reduced one; empty if all pass."""
    for recipe, problem in played(mode, job, recipes):
        if problem:
            return report(mode, job, recipe, problem, budget_s)
    return ""


def all_failures(mode: Mode, job: RecipeJob, recipes: Iterable[Recipe]) -> int:
    """Plays all recipes, prints the problems, and returns their number."""
    failed = 0
    for recipe, problem in played(mode, job, recipes):
        if problem:
            print(f"FAILED: {to_words(recipe)}\n{problem}", flush=True)
            failed += 1
    return failed


def report(mode: Mode, job: RecipeJob, recipe: Recipe, problem: str, budget_s: float) -> str:
    print(f"this recipe fails on {job.size} ranks: {to_words(recipe)}\n{problem}", flush=True)

    def repaired(each: Recipe) -> Recipe:
        return mode.suited(mode.repaired(each), job.size)

    smallest, problem = reduced(recipe, problem, lambda each: job.play(to_words(each)), repaired, budget_s)
    keras = "".join(f"{name}={os.environ[name]} " for name in CHOOSING_KERAS if name in os.environ)
    program = f"{keras}{os.path.relpath(sys.executable)} tests/recipes/play.py"
    command = f"{program} {mode.option} --np {job.size} {to_words(smallest)}"
    return f"a recipe fails; the smallest one that does:\n    {command}\n{problem}"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("words", nargs="*", help="features of one recipe, such as optimizer=Adam")
    made.add_argument("--framework", choices=sorted({*NAMES, *ELASTIC}), default="torch", help="PyTorch without it")
    made.add_argument(
        "--elastic", action="store_true", help=f"elastic jobs, whose workers change; of {', '.join(ELASTIC)}"
    )
    made.add_argument("--np", type=int, action="append", help="the number of ranks; 2 and 3 without it")
    made.add_argument("--seed", type=int, help="the seed of one recipe")
    made.add_argument("--base", type=int, help="the first seed; without it, a fresh one")
    made.add_argument("--seeds", type=int, default=100, help="the number of seeds")
    made.add_argument("--keep-going", action="store_true", help="play all, without reducing those that fail")
    return made


def chosen(mode: Mode, arguments: argparse.Namespace) -> Tuple[str, List[Recipe]]:
    if arguments.words:
        recipe = from_words(mode.kind, arguments.words)
        if mode.repaired(recipe) != recipe:
            sys.exit(f"these features exclude each other; without them it is: {to_words(mode.repaired(recipe))}")
        return "this recipe", [recipe]
    if arguments.seed is not None:
        return f"the recipe of seed {arguments.seed}", [mode.draw(arguments.seed)]
    base = secrets.randbits(32) if arguments.base is None else arguments.base
    return f"{arguments.seeds} recipes from base {base}", [mode.draw(base + each) for each in range(arguments.seeds)]


def main() -> int:
    arguments = parser().parse_args()
    if not arguments.elastic and arguments.framework not in NAMES:
        sys.exit(f"only elastic jobs play recipes of {arguments.framework}: add --elastic")
    if arguments.elastic and arguments.framework not in ELASTIC:
        sys.exit(f"no elastic jobs play recipes of {arguments.framework}, only those of {', '.join(ELASTIC)}")
    mode = (elastic if arguments.elastic else of_fixed_members)(arguments.framework)
    title, recipes = chosen(mode, arguments)
    failed = 0
    for size in arguments.np or SIZES:
        print(f"{title} on {size} ranks", flush=True)
        begin = time.monotonic()
        with mode.job(size) as job:
            if arguments.keep_going:
                failed += all_failures(mode, job, recipes)
            elif problem := first_failure(mode, job, recipes):
                print(f"error: {problem}")
                return 1
        print(f"{title} on {size} ranks: {failed} failed, {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
