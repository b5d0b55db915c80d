"""Forked children of a member, such as the workers of a data loader, while the member is told to end by SIGTERM.

A scheduler sends SIGTERM to all processes of a member at once. The member finishes its step and leaves at the next
commit, and needs its children until then. So children that it forks after ``init()``, before its elastic loop or inside
of it, ignore the signal as long as the member is inside of the loop; those that have ignored one end with the member.
What a child executes is not affected.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import Set

_is_registered = False
_masks = threading.local()
"""``before``: the signal mask of a thread that is forking."""


def guard(launcher: int) -> None:
    """Guards the children that this member forks from now on, whenever it is inside of its elastic loop.

    :param launcher: the process whose SIGTERM ends the job; 0 if it is unknown
    """
    from farandole import _native

    global _is_registered
    _native.expect_children(launcher)
    if not _is_registered:
        _is_registered = True
        os.register_at_fork(before=_begin_fork, after_in_parent=_end_fork, after_in_child=_guard_this_child)


def _block_sigterm() -> Set[int]:
    """It stays pending until the mask that is returned is put back."""
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}))


def _begin_fork() -> None:
    _masks.before = _block_sigterm()


def _end_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.before)


def _guard_this_child() -> None:
    from farandole import _native

    if _native.guard_forked_child():
        _guard_data_loader_worker()
    _end_fork()


def _guard_data_loader_worker() -> None:
    """A worker of PyTorch's data loader installs handlers of its own when it begins: guards it once more after that.

    PyTorch's data loader is used with other frameworks too, so that no adapter is the right place for this.
    """
    from farandole import _native

    signal_handling = sys.modules.get("torch.utils.data._utils.signal_handling")
    install_handlers = getattr(signal_handling, "_set_worker_signal_handlers", None)
    if install_handlers is None:
        return

    def install_handlers_and_guard() -> None:
        before = _block_sigterm()
        install_handlers()
        _native.guard_forked_child()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    setattr(signal_handling, "_set_worker_signal_handlers", install_handlers_and_guard)  # noqa: B010
