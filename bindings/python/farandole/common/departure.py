"""Records how this process ends: the exception or exit code of the script, and whether another worker caused it.

The interpreter calls ``sys.excepthook`` with the exception that ends the script, before ``atexit`` handlers run. The
hook of this module stores the exception, so that the other workers can be told; ``exit_status`` reports a
``SystemExit``. If another worker's end caused the exception, the process prints one line that says so instead of the
traceback, which would hide the traceback of the worker at fault. The launcher finds that line in the output of the
process (root_cause.cpp).
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import FrameType, TracebackType
from typing import Any, Callable, Iterator, NamedTuple, Optional, Type

from farandole.common import exit_status
from farandole.common.exceptions import HorovodInternalError

_FULL_AT_LEVELS = ("trace", "debug", "info")
"""At these log levels the traceback is printed all the same."""

_uncaught: Optional[BaseException] = None
_exit: Optional[SystemExit] = None
_watches_exits = False
_next_hook: Optional[Callable[..., Any]] = None  # whose place the hook of this module took


class Ending(NamedTuple):
    """How the script has ended: well if both say nothing."""

    exception: str
    """Type and message of the exception that ended it, or the reason that it gave for its exit code."""
    code: int
    """The exit code that it asked for; 0 after an exception."""


def watch() -> None:
    """Remembers the exception that ends the script, from now on. Repeated calls change nothing."""
    global _next_hook, _watches_exits
    if not _watches_exits:
        _watches_exits = True
        exit_status.watch(_exits)
    if sys.excepthook is not _hook:
        _next_hook = sys.excepthook
        sys.excepthook = _hook


def ending() -> Ending:
    """How the script has ended; for ``atexit`` handlers."""
    if _exit is not None:
        code = exit_status.status(_exit)
        return Ending(exit_status.reason(_exit) if code else "", code)
    return Ending(_exception_text(), 0)


def has_failed(caller: Optional[FrameType] = None) -> bool:
    """Whether the script ends by an exception or an exit code other than 0, or ``caller`` handles an exception of its
    own. A handler further out may be that of a script which goes on, as one that trains from the start where there is
    no checkpoint."""
    handled = sys.exc_info()[1]
    if handled is not None and any(frame is caller for frame, _ in traceback.walk_tb(handled.__traceback__)):
        return not isinstance(handled, SystemExit) or exit_status.status(handled) != 0
    # Before the hook and exit handlers run, what ending() knows may be of an exception that the script has survived.
    has_ended = caller is None or not threading.main_thread().is_alive()
    in_hook = any(frame.f_code is _hook.__code__ for frame, _ in traceback.walk_stack(caller))
    return (has_ended or in_hook) and any(ending())


def _exception_text() -> str:
    """Type and message of the exception that ended the script; empty if none did."""
    # The interpreter keeps it too, in case the script has a hook of its own that does not call this module's.
    problem = _uncaught if _uncaught is not None else getattr(sys, "last_value", None)
    if problem is None or hasattr(sys, "ps1"):  # a person at a prompt goes on after an exception
        return ""
    try:
        message = str(problem)
    except Exception:  # the script's own class may be at fault, and the job must be left all the same
        message = ""
    return f"{type(problem).__name__}: {message}" if message else type(problem).__name__


def behind(problem: Optional[BaseException]) -> Optional[HorovodInternalError]:
    """The error of a lost or departed worker that an exception is, or was raised from or while handling, if any."""
    for each in chain(problem):
        if isinstance(each, HorovodInternalError) and each.consequence:
            return each
    return None


def chain(problem: Optional[BaseException]) -> Iterator[BaseException]:
    """An exception, then those that it was raised from or while handling, as a traceback shows them."""
    seen = set()
    while problem is not None and id(problem) not in seen:
        yield problem
        seen.add(id(problem))
        suppressed = problem.__cause__ is not None or problem.__suppress_context__
        problem = problem.__cause__ if suppressed else problem.__context__


def _hook(kind: Type[BaseException], problem: BaseException, trace: Optional[TracebackType]) -> None:
    global _uncaught
    _uncaught = problem
    hook = _next_hook or sys.__excepthook__
    reason = behind(problem)
    full = os.environ.get("HOROVOD_LOG_LEVEL", "").lower() in _FULL_AT_LEVELS
    if reason is None or full or hook is not sys.__excepthook__:
        hook(kind, problem, trace)
    _tell(reason)


def _exits(problem: SystemExit) -> None:
    global _exit
    _exit = problem
    if exit_status.status(problem):
        _tell(behind(problem))


def _tell(reason: Optional[HorovodInternalError]) -> None:
    if reason is not None:
        print(f"farandole: this worker ends because another one did: {reason}", file=sys.stderr, flush=True)
