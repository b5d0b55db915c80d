"""Where workers look for modules: the caller's own folders, which another interpreter does not know."""

from __future__ import annotations

import functools
import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple


def folders_of_caller() -> List[str]:
    """The entries of ``sys.path`` that belong to the caller's program, and not to its interpreter."""
    return list(_folders_among(tuple(os.path.abspath(entry or os.curdir) for entry in sys.path)))


@functools.lru_cache(maxsize=8)
def _folders_among(entries: Tuple[str, ...]) -> Tuple[str, ...]:
    own = _folders_of_interpreter()
    return tuple(dict.fromkeys(entry for entry in entries if not _is_below(entry, own)))


def environment_of(executable: Optional[str], given: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """The environment of the launcher. Where this package was found in a folder that no other process knows, workers
    with the same interpreter are told."""
    environment = dict(os.environ if given is None else given)
    package = str(Path(__file__).resolve().parents[3])
    if executable in (None, sys.executable) and not _is_below(package, _folders_of_interpreter()):
        folders = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
        if package not in folders:
            environment["PYTHONPATH"] = os.pathsep.join([*folders, package])
    return environment


def _folders_of_interpreter() -> List[str]:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(getattr(site, "getsitepackages", list)())
    folders.add(site.getusersitepackages())
    stdlib = Path(sysconfig.get_path("stdlib"))
    folders.add(str(stdlib.parent / f"python{sys.version_info[0]}{sys.version_info[1]}.zip"))
    return [os.path.abspath(folder) for folder in folders if folder]


def _is_below(entry: str, folders: List[str]) -> bool:
    return any(entry == folder or entry.startswith(folder + os.sep) for folder in folders)
