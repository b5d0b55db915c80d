"""What a bundle holds besides libraries: the installed wheel, packages that it needs, tests, and files for users."""

from __future__ import annotations

import json
import shutil
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any, Dict, Sequence

from bundling import ROOT
from bundling.commands import run
from bundling.interpreter import OWN

FILES = Path(__file__).with_name("files")
PACKAGES = ("cloudpickle",)
"""Those of `dependencies` in pyproject.toml. They are written in Python alone, so .venv's serve each interpreter."""
OF_TESTS = ("pytest", "iniconfig", "packaging", "pluggy", "pygments")
PYTEST_SETTINGS = """\
[pytest]
addopts = -p no:cacheprovider
pythonpath = parallel
faulthandler_timeout = 150
faulthandler_exit_on_timeout = true
"""
"""Those of pyproject.toml that concern the tests of a bundle."""


def install(wheel: Path, bundle: Path) -> None:
    """Makes bin, lib and share, as pip installs them, and python, which is the folder site-packages."""
    prefix = bundle / "prefix"
    options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--no-index", "--no-compile"]
    run(OWN, "-m", "pip", "install", *options, "--ignore-installed", "--prefix", prefix, wheel)
    (package,) = prefix.glob("lib/python3*/site-packages/farandole/__init__.py")
    package.parents[1].rename(bundle / "python")
    shutil.rmtree(package.parents[2])
    for name in ("bin", "lib", "share"):
        (prefix / name).rename(bundle / name)
    prefix.rmdir()
    for record in bundle.glob("python/*.dist-info/direct_url.json"):
        record.unlink()  # names a path of this machine
    add_distributions(PACKAGES, bundle / "python")


def add_distributions(names: Sequence[str], folder: Path) -> None:
    """Copies packages of .venv, with their metadata."""
    site = Path(run(OWN, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in names:
        (found,) = Distribution.discover(name=name, path=[str(site)])
        for file in found.files or []:
            if ".." not in file.parts and file.suffix != ".pyc":
                place = folder / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(site / file, place)


def add_tests(bundle: Path) -> None:
    """The tests that run as ranks, and those of GPUs with the package that runs them, and the benchmark of GPUs. Of the
    other tests, those that launch jobs themselves need the source tree beside them."""
    tests = bundle / "tests"
    left_out = shutil.ignore_patterns("__pycache__", "test_launch*", "runner_interface.tsv", "README.md")
    for folder in ("parallel", "frameworks"):
        shutil.copytree(ROOT / "tests" / folder, tests / folder, ignore=left_out)
    for name in ("tests/gpu", "tools/gpu_tests", "tools/benchmarks", "tools/namespaces"):
        left_out = shutil.ignore_patterns("__pycache__", "README.md", "clusters", "launch")
        shutil.copytree(ROOT / name, tests / Path(name).name, ignore=left_out)
    (tests / "install").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tests)
    shutil.copy(ROOT / "tests" / "install" / "train.py", tests / "install")
    shutil.copy(FILES / "run_tests", tests)
    (tests / "pytest.ini").write_text(PYTEST_SETTINGS)
    add_distributions(OF_TESTS, tests / "packages")


def add_files(bundle: Path, manifest: Dict[str, Any]) -> None:
    for name in ("activate", "check.py"):
        shutil.copy(FILES / name, bundle)
    shutil.copy(ROOT / "LICENSE", bundle)
    (bundle / "bundle.json").write_text(json.dumps(manifest, indent=2) + "\n")
    text = (FILES / "README.txt").read_text()
    (bundle / "README.txt").write_text(text.format(version=manifest["farandole"], requirements=in_words(manifest)))


def in_words(manifest: Dict[str, Any]) -> str:
    """What the bundle requires of a machine, in the words that check.py uses."""
    oldest, newest = manifest["python"]["oldest"], manifest["python"]["newest"]
    symbols = ", ".join(f"{name} {version}" for name, version in sorted(manifest["symbols"].items()))
    return f"CPython {oldest[0]}.{oldest[1]}{'' if newest else ' or newer'}, {symbols}"


def tree_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
