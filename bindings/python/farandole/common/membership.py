"""Changes of the job's members. This is the only module that queries the native runtime about them.

There are no changes in a job that is not elastic, or if the runtime does not report any.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Iterator, List, NamedTuple, Optional, Sequence

from farandole.common import forked_children, job
from farandole.common.switches import is_on

CHANGES = "elastic.changes"
"""Prefix of the operation by which members agree on changes. Names of the interface's operations never begin so."""

_INT64 = 5  # the native module's number
_MAX = 4


class Change(NamedTuple):
    """The number of changes announced in this generation, and whether all of them only removed members."""

    changes: int
    removals_only: bool

    def and_then(self, later: Change) -> Change:
        """Combines this change with a later one."""
        if not self.changes or not later.changes:
            return self if self.changes else later
        return Change(self.changes + later.changes, self.removals_only and later.removals_only)


NO_CHANGE = Change(0, False)


def is_elastic() -> bool:
    """Whether members may join and leave while the job runs."""
    return is_on("HOROVOD_ELASTIC")


def max_size(size: int) -> int:
    """The most members that a job of now ``size`` may come to have."""
    text = os.environ.get("FARANDOLE_MAX_NP", "").strip()
    return max(int(text), size) if text.isdigit() else size


def reset_limit() -> Optional[int]:
    """How often members may change before the job ends; None: any number of times."""
    text = os.environ.get("FARANDOLE_RESET_LIMIT", "").strip()
    return int(text) if text.isdigit() else None


def change() -> Change:
    """The changes that this member has been told of since it joined the generation.

    A process that received SIGTERM first withdraws from the job, and waits briefly until its withdrawal is one of the
    announced changes.
    """
    told = getattr(job.runtime, "membership_change", None)
    if told is None or not is_elastic():
        return NO_CHANGE
    _withdraw_if_told_to_end()
    return Change(*told())


class Agreement(NamedTuple):
    """What the members have agreed on: equal on all of them."""

    change: Change
    failed: bool
    """Whether a process set failed alone, and a member was told."""
    least: int
    most: int
    """The least and the most agreements that any member has reached."""


def agree(own: Change, reached: int, failed: bool = False, patience_s: Optional[float] = None) -> Agreement:
    """Exchanges the changes that members were told of, and how many agreements each has reached. Collective in an
    elastic job."""
    numbers = [own.changes, own.changes > 0 and not own.removals_only, failed, reached, -reached]
    changes, additions, failures, most, least = greatest(numbers, patience_s)
    return Agreement(Change(changes, changes > 0 and not additions), failures > 0, -least, most)


def greatest(own: Sequence[int], patience_s: Optional[float] = None) -> List[int]:
    """The greatest value of any member, number by number. Collective."""
    from farandole import _native
    from farandole.common import operations

    numbers = (ctypes.c_int64 * len(own))(*own)
    described = (ctypes.addressof(numbers), _INT64, (len(own),), numbers)
    request = _native.Request(operations.ALLREDUCE, CHANGES, _MAX)
    asked = job.runtime.submit(request, "agreed", described, described, 0)
    if patience_s is None:
        asked.wait()
    else:
        asked.wait_for(patience_s)
    return list(numbers)


def must_sync() -> Optional[bool]:
    """Whether members of this generation must be brought to the same state, as the rendezvous decided for all; None
    where no rendezvous decides."""
    return getattr(job.runtime, "must_sync", None) if is_elastic() else None


# ---- told to end ----

_withdrawn_from: object = None


@contextlib.contextmanager
def sigterm_is_a_wish() -> Iterator[None]:
    """Inside, SIGTERM makes this process leave at its next commit; its forked children ignore the signal until then.
    A handler that the script has installed stays in place.

    A SIGTERM of the launcher, which means the end of the job, kills the process as usual, and so does a second one.
    """
    if not is_elastic():
        yield
        return
    from farandole import _native

    caught = _native.catch_termination(_launcher())
    try:
        yield
    finally:
        if caught:
            _native.release_termination()


def _launcher() -> int:
    text = os.environ.get("FARANDOLE_LAUNCHER_PROCESS", "")
    return int(text) if text.isdigit() else 0


def _withdraw_if_told_to_end() -> None:
    """Withdraws after SIGTERM, only once in each generation: the rendezvous may be unreachable."""
    global _withdrawn_from
    from farandole import _native

    if _native.termination_came() and _withdrawn_from is not job.runtime:
        _withdrawn_from = job.runtime
        job.runtime.withdraw()


# ---- where the training stands ----

progress = 0
"""Progress since the generation began: 2 for each commit, and 1 more after a return to a commit. Members with equal
numbers are in the same state, provided that no member was lost and none is new."""


state_generation = 0
"""The generation in which this process last received the training state of the others, or trained from its own; 0 if
it holds none. A generation that lost members begins only if one of its members has the newest state."""


def begins_to_train() -> None:
    """The training function is about to be called: the state is that of the others."""
    global state_generation
    if is_elastic():
        state_generation = job.runtime.generation


def committed() -> None:
    """The state was saved, as on all members that reach this commit."""
    global progress
    progress += 2


def rolled_back() -> None:
    """The state is that of the last commit again."""
    global progress
    progress |= 1


def regrouped() -> None:
    """Another generation has begun."""
    global progress
    progress = 0


# ---- before the elastic loop ----

_in_loop = False


def joined() -> None:
    """This process has joined a generation. Until its elastic loop begins, see ``await_loop`` of the runtime."""
    if is_elastic():
        forked_children.guard(_launcher())
        if not _in_loop:
            job.runtime.await_loop(job.runtime.joined_late)


def enter_loop() -> None:
    """The elastic loop begins; from now on operations are allowed."""
    global _in_loop
    if not _in_loop and is_elastic() and job.is_started():
        job.runtime.enter_loop()
    _in_loop = True
