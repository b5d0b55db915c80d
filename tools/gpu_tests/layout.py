"""Where the tests, the packages and the launcher are: in this tree with its build, or in a folder of tools/bundle."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Tuple

BASE = Path(__file__).resolve().parents[2]
"""The root of the tree or of the bundle, in which this package is `tools/gpu_tests` or `tests/gpu_tests`."""


@dataclass(frozen=True)
class Layout:
    tests: Path
    """The folder with `gpu`, `parallel` and `frameworks`."""
    settings: Path
    """The configuration file of pytest."""
    launcher: Path
    packages: Tuple[Path, ...]
    """Folders for PYTHONPATH."""
    is_bundle: bool

    @property
    def program(self) -> Path:
        """The command `farandole`."""
        return self.launcher.with_name("farandole")

    def problem(self) -> str:
        """Why no test can run from here; empty if tests can."""
        for needed in (self.launcher, self.program, self.packages[0] / "farandole"):
            if not needed.exists():
                remedy = (
                    "make the folder again" if self.is_bundle else "run tools/setup, or name a bundle: --bundle DIR"
                )
                return f"{needed} does not exist; {remedy}"
        return ""

    def python_path(self) -> str:
        given = os.environ.get("PYTHONPATH")
        return os.pathsep.join([*map(str, self.packages), *([given] if given else [])])


def find(base: Path = BASE) -> Layout:
    tests = base / "tests"
    if (base / "bundle.json").exists():
        packages = (base / "python", tests / "packages", tests)
        return Layout(tests, tests / "pytest.ini", base / "bin" / "horovodrun", packages, True)
    launcher = base / "build" / "tools" / "farandole" / "horovodrun"
    return Layout(tests, base / "pyproject.toml", launcher, (base / "build" / "python", base / "tools"), False)
