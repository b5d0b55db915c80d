"""A process set that failed alone: its members go back to the last commit, and nobody else does.

Members of the set may be told at different operations, and one of them perhaps not before its next commit. So whoever
was told waits for all others where they agree on changes anyway, at their next commit or ``check_host_updates``. There
everybody learns which sets failed. Their members go back, told or not; the others stay where they are, and meet again
until those have come as far:

    member that was told    ──fails──▶ meets ─▶ last commit ─▶ … the same steps … ─▶ meets ─▶ saves, goes on
    member that was not     ─────────▶ meets ─▶ last commit ─▶ … the same steps … ─▶ meets ─▶ saves, goes on
    all others              ─────────▶ meet ──────────── meet again, and wait ─────▶ meet ──▶ save, go on

This is right only if nobody else took part in what is done again. A member that has communicated in any other set, the
global one included, since the commit before the last one leaves the generation instead, and all come together anew.
"""

from __future__ import annotations

import logging
from typing import Dict, List, Optional

from farandole.common import job, membership
from farandole.common.exceptions import HorovodInternalError
from farandole.common.membership import NO_CHANGE, Change

_log = logging.getLogger("farandole.elastic")


class GoBack(HorovodInternalError):
    """A process set failed, and all members have met over it."""


class _Log:
    """Where this member is in the generation, and in which sets it has communicated."""

    def __init__(self) -> None:
        self.place = 0
        """How often it has met the others and gone on."""
        self.committed = 0
        """The same at the last commit."""
        self.counts: Dict[int, int] = {}
        """Operations in each set up to the last commit."""
        self.meetings = 0
        """Operations in the global set since, for meetings."""
        self.used: Optional[List[int]] = None
        """Sets that were used between the last two commits; None: there were not two."""

    def sets_in_use(self) -> List[int]:
        now = dict(job.runtime.submitted())
        now[0] = now.get(0, 0) - self.meetings
        return [number for number, count in now.items() if count != self.counts.get(number, 0)]

    def commit(self) -> None:
        used = self.sets_in_use()
        self.used = used if self.counts else None
        self.committed = self.place
        self.counts = dict(job.runtime.submitted())
        self.meetings = 0

    def is_alone_in(self, number: int) -> bool:
        return self.used is not None and not {*self.used, *self.sets_in_use()} - {number}


_mine = _Log()


def regrouped() -> None:
    """Another generation has begun."""
    global _mine
    _mine = _Log()


def may_happen() -> bool:
    """Whether there are sets that could fail alone, so that a state is saved only when all members have met."""
    return membership.is_elastic() and job.is_started() and len(job.runtime.process_sets()) > 1


def committed() -> None:
    """All members have come as far, and this one has saved its state."""
    if membership.is_elastic() and job.is_started():
        _mine.commit()


def agreed(told: Change) -> Change:
    """What any member knows of changes. Collective in an elastic job; in any other it is what was handed in.

    Raises ``GoBack`` on the members of a set that failed, and returns on the others when those have come back here.
    """
    if not membership.is_elastic() or not job.is_started():
        return told
    _mine.place += 1
    while True:
        _mine.meetings += 1
        met = membership.meet(told, _mine.place)
        if met.failed:
            _go_back_if_in(_exchange({}))
        elif met.least == met.most:
            return met.change
        elif _mine.place == met.least:
            return NO_CHANGE  # the others are ahead, and wait


def settled(problem: HorovodInternalError, patience_s: float) -> bool:
    """After a failure of one set: whether its members go back alone. If not, all come together anew."""
    number = problem.process_set
    if not number or not membership.is_elastic():
        return bool(number)
    if isinstance(problem, GoBack):
        return True
    if not _mine.is_alone_in(number):
        _log.warning("process set %d failed, and others took part in what was done since the last commit", number)
        return False
    try:
        membership.meet(NO_CHANGE, 0, failed=True, patience_s=patience_s)
        _exchange({number: job.runtime.process_set_epoch(number)})
    except HorovodInternalError as why:
        _log.warning("process set %d failed, and the members could not agree to go on: %s", number, why)
        return False
    _mine.meetings += 2
    return True


def went_back() -> None:
    """The state is that of the last commit again."""
    _mine.place = _mine.committed


def _exchange(own: Dict[int, int]) -> List[int]:
    """Which sets have failed of those that this member is in: all learn of all, and so often as any was told."""
    ranks = job.runtime.process_sets()
    numbers = sorted(number for number in ranks if number)
    epochs = membership.greatest([own.get(number, 0) for number in numbers])
    failed = []
    for number, epoch in zip(numbers, epochs):
        if epoch and job.where().rank in ranks[number]:
            job.runtime.acknowledge_restart(number, epoch)
            failed.append(number)
    return failed


def _go_back_if_in(failed: List[int]) -> None:
    _mine.meetings += 1
    if not failed:
        return
    if len(failed) == 1 and _mine.is_alone_in(failed[0]):
        problem = GoBack(f"process set {failed[0]} failed on another rank: its members go back to their last commit")
        problem.process_set = failed[0]
    else:
        problem = GoBack(f"process sets {failed} failed, and others took part in what was done since the last commit")
    problem.kind = "disconnected"
    raise problem
