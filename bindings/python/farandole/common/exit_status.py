"""Tells which ``SystemExit`` ends the script, and so with which code, while the other workers can still be told.

The interpreter calls no hook for ``SystemExit``, and ``atexit`` handlers do not learn the exit code. But before it
calls them, it reads the attribute ``code`` of the exception, when no Python code runs any more. So this module puts a
descriptor in front of that attribute, which reads, writes and deletes the same value, and detects a read that no
frame of Python code makes.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from typing import Any, Callable, NoReturn, Optional

Listener = Callable[[SystemExit], None]


class _WatchedCode:
    def __init__(self, member: Any, listener: Listener) -> None:
        self._member = member
        self._listener = listener

    def __get__(self, instance: Optional[SystemExit], owner: Optional[type] = None) -> Any:
        if instance is None:
            return self._member
        if sys._getframe().f_back is None:
            self._listener(instance)
        return self._member.__get__(instance, owner)

    def __set__(self, instance: SystemExit, value: Any) -> None:
        self._member.__set__(instance, value)

    def __delete__(self, instance: SystemExit) -> None:
        self._member.__delete__(instance)


def watch(listener: Listener) -> None:
    """Calls ``listener`` with the ``SystemExit`` that ends the script, before ``atexit`` handlers run.

    Does nothing where the attribute cannot be watched; the cause of the end is then unknown. To be called once.
    """
    if sys.implementation.name != "cpython":
        return
    found = gc.get_referents(SystemExit.__dict__)  # behind the read-only view
    if len(found) != 1 or not isinstance(found[0], dict) or "code" not in found[0]:
        return
    found[0]["code"] = _WatchedCode(found[0]["code"], listener)
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(SystemExit))
    # Before Python 3.12, sys.exit raises no exception object, but a value that may become one.
    if sys.version_info < (3, 12) and type(sys.exit) is type(sys.getrefcount):
        sys.exit = _exit


def status(exit: SystemExit) -> int:
    """The exit code of the process."""
    if exit.code is None:
        return 0
    return exit.code & 0xFF if isinstance(exit.code, int) else 1


def reason(exit: SystemExit) -> str:
    """The value given in place of an exit code, as text, which the interpreter prints; else empty."""
    return "" if exit.code is None or isinstance(exit.code, int) else str(exit.code)


def _exit(status: Any = None, /) -> NoReturn:
    """Exit the interpreter by raising SystemExit(status), as sys.exit() of Python does."""
    if isinstance(status, SystemExit):
        raise status
    raise SystemExit(*status) if isinstance(status, tuple) else SystemExit(status)
