"""Finds the version, the platform and the headers of the interpreter for which a bundle is made."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional

from bundling import ROOT, Refused

OLDEST = (3, 10)
"""The oldest Python that the nanobind of .venv supports. The wheel for Python 3.9 is compiled with an older one."""
STABLE_ABI = (3, 12)
"""From this version on, a module serves all later versions."""
OWN = ROOT / ".venv" / "bin" / "python"
"""The interpreter for which tools/setup makes its wheel."""

_QUESTIONS = """\
import json, os, sys, sysconfig
print(json.dumps({
  "implementation": sys.implementation.name, "version": list(sys.version_info[:3]),
  "platform": sysconfig.get_platform(), "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
  "header": os.path.join(sysconfig.get_paths()["include"], "Python.h"),
}))
"""


class Interpreter(NamedTuple):
    path: Path
    implementation: str
    version: List[int]
    platform: str
    """The operating system and the architecture, as in "linux-x86_64"."""
    suffix: str
    """How the names of native modules end. Interpreters with the same suffix take the same modules."""
    header: str

    @property
    def name(self) -> str:
        return f"CPython {'.'.join(map(str, self.version))} ({self.path})"

    @property
    def has_headers(self) -> bool:
        return Path(self.header).exists()

    def served(self) -> Dict[str, Optional[List[int]]]:
        """The versions that a module for this interpreter serves; without `newest`, these are all later ones."""
        minor = self.version[:2]
        if tuple(minor) >= STABLE_ABI:
            return {"oldest": list(STABLE_ABI), "newest": None}
        return {"oldest": minor, "newest": minor}


def examine_own() -> Interpreter:
    """The interpreter of .venv."""
    try:
        return examine(OWN, "the interpreter of .venv")
    except Refused as reason:
        raise Refused(f"{reason}; tools/setup makes .venv with the python3 of this machine") from None


def examine_given(path: Path) -> Interpreter:
    """The interpreter that the user has given."""
    return examine(path, "--python")


def examine(path: Path, name: str) -> Interpreter:
    """The interpreter at a path, which must be one that a bundle can be made for.

    :param name: for messages, which put the path after it
    """
    shown = f"{name} {path}"
    try:
        ran = subprocess.run([path, "-c", _QUESTIONS], check=False, capture_output=True, text=True, timeout=60)
        found = Interpreter(path, **json.loads(ran.stdout))
    except (OSError, ValueError, TypeError, subprocess.TimeoutExpired) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it does not answer as a Python interpreter does"
        raise Refused(f"{shown} is not a Python interpreter that runs on this machine: {reason}") from None
    if found.implementation != "cpython":
        raise Refused(f"{shown} is {found.implementation}; Farandole's native module needs CPython")
    if tuple(found.version[:2]) < OLDEST:
        raise Refused(
            f"{shown} is Python {found.version[0]}.{found.version[1]}; a bundle needs 3.10 or newer "
            "(for 3.9, tools/wheel makes a wheel)"
        )
    if found.platform != sysconfig.get_platform():
        raise Refused(
            f"{shown} is built for {found.platform}, this machine's programs for {sysconfig.get_platform()}; "
            f"run tools/bundle on a machine of that architecture"
        )
    return found
