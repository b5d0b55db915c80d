"""Kernels of frameworks: small shared objects that submit to the job without the interpreter.

Each is built without its framework's headers and libraries, finds what it needs in the process when it is loaded, and
is handed the native module's table of functions (``bindings/c/kernel_door.h``) before its first use.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from farandole import _native


def path_of(framework: str) -> str:
    """Where a framework's kernels lie; ``ImportError`` where this installation has none."""
    path = Path(str(_native.__file__)).parent / "kernels" / f"libfarandole_{framework}.so"
    if not path.exists():
        raise ImportError(f"this installation of Farandole has no kernels for {framework}: {path} is missing")
    return str(path)


def connect(framework: str) -> ctypes.CDLL:
    """Loads a framework's kernels, or takes those that it has loaded already, and hands them the table."""
    library = ctypes.CDLL(path_of(framework))
    library.farandole_connect.argtypes = [ctypes.c_void_p]
    library.farandole_connect.restype = ctypes.c_int
    if not library.farandole_connect(_native.kernel_door()):
        raise ImportError(
            f"Farandole's kernels for {framework} are of another version than its native module; install it anew"
        )
    return library
