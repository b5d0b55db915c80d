"""Passes the reports of stalled tensors to a callback of the program."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any, Callable, Optional


@dataclass(frozen=True)
class StallReport:
    """Describes tensors that some ranks have submitted and others have not; the argument of ``on_stall``'s callback."""

    text: str
    """Lines for people: the tensors, how long they have waited, and the missing ranks."""

    over: bool
    """Whether the stall is over."""


_log = logging.getLogger("farandole.stalls")

_LONGEST_CALLBACK_S = 10.0
"""``shutdown()`` waits no longer for a callback that runs."""

_guard = threading.Lock()
_callback: Optional[Callable[[StallReport], object]] = None
_runtime: Any = None  # of the job that this process is in; None: it is in none
_thread: Optional[threading.Thread] = None


def on_stall(callback: Optional[Callable[[StallReport], object]]) -> None:
    """Calls ``callback`` with a ``StallReport`` when ranks have not submitted tensors for which others wait.

    The first call comes when a tensor has waited for longer than the stall warning time
    (``HOROVOD_STALL_CHECK_TIME_SECONDS``); further calls come when the report is repeated, and when the stall is over.
    Each rank may register a callback, and all of them receive the same reports; the last one registered counts, and
    ``None`` removes it. It may be registered before ``init()``, and stays for later jobs of this process.

    The callback runs on a thread of its own. An exception that it raises is logged, and the job goes on. It is not
    called any more when ``shutdown()`` has returned.
    """
    global _callback
    if callback is not None and not callable(callback):
        raise TypeError(f"on_stall() takes a function, or None, not {callback!r}")
    with _guard:
        _callback = callback
        _start_thread()


def joined(runtime: Any) -> None:
    """This process has joined the job of ``runtime``."""
    global _runtime, _thread
    with _guard:
        _runtime, _thread = runtime, None
        _start_thread()


def left() -> None:
    """This process has left its job, whose runtime has been shut down. Returns when no callback runs any more."""
    global _runtime, _thread
    with _guard:
        thread, _thread, _runtime = _thread, None, None
    if thread is None or thread is threading.current_thread():
        return
    thread.join(_LONGEST_CALLBACK_S)
    if thread.is_alive():
        _log.warning("the callback of on_stall() still runs %g s after shutdown()", _LONGEST_CALLBACK_S)


def _start_thread() -> None:
    # The lock is held.
    global _thread
    if _callback is None or _runtime is None or (_thread is not None and _thread.is_alive()):
        return
    _thread = threading.Thread(target=_pass_on, args=(_runtime,), name="farandole-stalls", daemon=True)
    _thread.start()


def _pass_on(runtime: Any) -> None:
    while True:
        report = runtime.next_stall()
        if report is None:
            return
        callback = _callback
        if callback is None:
            continue
        try:
            callback(StallReport(*report))
        except Exception:
            _log.error("the callback of on_stall() failed", exc_info=True)
