"""Kernels of frameworks: small shared objects that submit to the job without the interpreter.

Each is built without its framework's headers and libraries, and resolves the framework's symbols in the process when
it is loaded. Before its first use it receives the native module's table of functions
(``bindings/include/farandole/kernel_api.h``).
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Optional

from farandole import _native
from farandole.common.exceptions import HorovodInternalError, is_fault_of_the_call, make_error

_FAILURE = re.compile(r"\b(?:Horovod[A-Z]\w+|farandole_collective) \(([a-z ]+)\): ")
"""How the text of a kernel's error begins, somewhere in the text that the framework makes of it."""


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
    if not library.farandole_connect(_native.kernel_api()):
        raise ImportError(
            f"Farandole's kernels for {framework} are of another version than its native module; install it anew"
        )
    return library


def kind_in(text: str) -> Optional[str]:
    """The kind of a kernel's error, from the text of the exception that a framework has made of it; None for others."""
    found = _FAILURE.search(text)
    return found.group(1) if found else None


def error_in(text: str) -> Optional[HorovodInternalError]:
    """The exception for a kernel's error. None for any other error, and for wrong arguments, of which the framework's
    own exception says as much."""
    kind = kind_in(text)
    if kind is None:
        return None
    problem = make_error(kind, text)
    return None if type(problem) is HorovodInternalError and is_fault_of_the_call(problem) else problem
