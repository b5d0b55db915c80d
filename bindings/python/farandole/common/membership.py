"""What the job's members are told of each other: the one place that asks the native runtime about it.

Where the job is not elastic, or this runtime knows nothing of changes, there are none.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

from farandole.common import forked_children, job
from farandole.common.switches import is_on

CHANGES = "elastic.changes"
"""What members agree under. The operations of the interface begin with their own names, so that none is called this."""

_INT64 = 5  # the native module's number
_MAX = 4

_THE_RULE = (
    "The rule: in an elastic job, everything that communicates belongs into the function that elastic.run decorates; "
    "what must be the same on all ranks belongs into the state, which is given to all when the function begins"
)

_REFUSED_OUTSIDE = (
    "this process has joined a job that was running already, and called a collective operation before the function "
    "that elastic.run decorates: the other members are inside of theirs and would never answer. " + _THE_RULE
)

_TOLD_OUTSIDE = (
    "a collective operation was called before the function that elastic.run decorates. Those who are there from the "
    "start can do so; a worker that joins later will fail at it, since nobody would answer. " + _THE_RULE
)

_COMMUNICATES = ("submit", "submit_kept", "submit_group", "add_process_set", "remove_process_set")

_log = logging.getLogger("farandole.elastic")


class Change(NamedTuple):
    """How many changes were announced in this generation, and whether members were only taken out."""

    changes: int
    removals_only: bool

    def and_then(self, later: Change) -> Change:
        """Both."""
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
    """What this member has been told since it joined the generation.

    Who was told to end by SIGTERM says so first, and waits for a moment until that is a change that was announced.
    """
    told = getattr(job.runtime, "membership_change", None)
    if told is None or not is_elastic():
        return NO_CHANGE
    _withdraw_if_told_to_end()
    return Change(*told())


class Meeting(NamedTuple):
    """What all members know once they have met."""

    change: Change
    failed: bool
    """A process set failed alone, and some member was told."""
    least: int
    most: int
    """How far the members are: how often they have met."""


def meet(own: Change, place: int, failed: bool = False, patience_s: Optional[float] = None) -> Meeting:
    """Collective in an elastic job: each says what it has been told of, and how far it is."""
    numbers = [own.changes, own.changes > 0 and not own.removals_only, failed, place, -place]
    changes, additions, failures, most, least = greatest(numbers, patience_s)
    return Meeting(Change(changes, changes > 0 and not additions), failures > 0, -least, most)


def greatest(own: Sequence[int], patience_s: Optional[float] = None) -> List[int]:
    """The greatest that any member brings, number by number."""
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
    """Whether members of this generation must be brought to the same state, as the rendezvous decided for all alike;
    None where there is none to decide."""
    return getattr(job.runtime, "must_sync", None) if is_elastic() else None


# ---- told to end ----

_withdrawn_from: object = None


@contextlib.contextmanager
def sigterm_is_a_wish() -> Iterator[None]:
    """Who gets SIGTERM leaves at the next commit, and its forked children ignore it until then. A handler of the
    script's own is left alone.

    What comes from the launcher, which ends the job by it, kills as ever, and so does a second one.
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
    """Once for each generation: the rendezvous may be away."""
    global _withdrawn_from
    from farandole import _native

    if _native.termination_came() and _withdrawn_from is not job.runtime:
        _withdrawn_from = job.runtime
        job.runtime.withdraw()


# ---- where the training stands ----

progress = 0
"""Since the generation began: two for each commit, and one if it was gone back to. Members who have the same number are
in the same state, if nobody was lost and nobody is new."""


state_generation = 0
"""The generation in which this process was last brought to the training state of the others, or trained from its own;
0: it holds none. A generation that lost members begins only if somebody in it has the newest state."""


def begins_to_train() -> None:
    """The training function is about to be called: the state is that of the others."""
    global state_generation
    if is_elastic():
        state_generation = job.runtime.generation


def committed() -> None:
    """The state was saved, as on all members that come as far."""
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


class _OutsideLoop:
    """Stands before the runtime until this process comes to its elastic loop. Who joined late is refused, since the
    others are in theirs; who was there from the start is told once, before a late one is refused."""

    def __init__(self, runtime: Any, late: bool) -> None:
        self.runtime = runtime
        self.late = late

    def __getattr__(self, name: str) -> Any:
        if name in _COMMUNICATES:
            if self.late:
                raise job.refusal(_REFUSED_OUTSIDE)
            job.runtime = self.runtime
            if job.where().rank == 0:
                _log.warning(_TOLD_OUTSIDE)
        return getattr(self.runtime, name)


def joined() -> None:
    """This process has joined a generation: what it may do until its elastic loop begins depends on when."""
    if is_elastic():
        forked_children.guard(_launcher())
    if not _in_loop and is_elastic():
        job.runtime = _OutsideLoop(job.runtime, getattr(job.runtime, "joined_late", False))


def enter_loop() -> None:
    """The elastic loop begins; from now on this process is where the others are."""
    global _in_loop
    _in_loop = True
    if isinstance(job.runtime, _OutsideLoop):
        job.runtime = job.runtime.runtime
