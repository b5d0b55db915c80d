"""Recovers from the failure of a single process set: only its members go back to the last commit.

The members of the set may learn of the failure at different operations, and one of them perhaps not before its next
commit. So a member that was told waits for all other ranks at the point where they agree on changes anyway: their
next commit or ``check_host_updates``. There all ranks learn which sets failed. The members of those sets go back,
whether they were told before or not. The other ranks keep their state, and take part in further agreements until the
members have caught up:

    member that was told    ──fails──▶ agrees ─▶ last commit ─▶ … the same steps … ─▶ agrees ─▶ saves, goes on
    member that was not     ─────────▶ agrees ─▶ last commit ─▶ … the same steps … ─▶ agrees ─▶ saves, goes on
    all others              ─────────▶ agree ──────────── agree again, and wait ────▶ agree ──▶ save, go on

This is correct only if no other rank took part in the steps that are repeated. A member that has communicated in any
other set, the global one included, since the commit before the last one leaves the generation instead, and all ranks
form a new one.
"""

from __future__ import annotations

import logging
from typing import Dict, List, Optional

from farandole.common import job, membership
from farandole.common.exceptions import HorovodInternalError
from farandole.common.membership import NO_CHANGE, Change

_log = logging.getLogger("farandole.elastic")


class GoBack(HorovodInternalError):
    """A process set failed, and all ranks have agreed on that. Raised on the members of the set."""


class _Log:
    """The progress of this member in the generation, and the sets in which it has communicated."""

    def __init__(self) -> None:
        self.reached = 0
        """Number of agreements that this member has reached; set back when it goes back to a commit."""
        self.committed = 0
        """``reached`` at the last commit."""
        self.counts: Dict[int, int] = {}
        """Operations in each set up to the last commit."""
        self.agreement_operations = 0
        """Operations in the global set since the last commit that belong to agreements."""
        self.used: Optional[List[int]] = None
        """Sets that were used between the last two commits; None if there have not been two."""

    def sets_in_use(self) -> List[int]:
        now = dict(job.runtime.submitted())
        now[0] = now.get(0, 0) - self.agreement_operations
        return [number for number, count in now.items() if count != self.counts.get(number, 0)]

    def commit(self) -> None:
        used = self.sets_in_use()
        self.used = used if self.counts else None
        self.committed = self.reached
        self.counts = dict(job.runtime.submitted())
        self.agreement_operations = 0

    def is_alone_in(self, number: int) -> bool:
        return self.used is not None and not {*self.used, *self.sets_in_use()} - {number}


_mine = _Log()


def regrouped() -> None:
    """Another generation has begun."""
    global _mine
    _mine = _Log()


def may_happen() -> bool:
    """Whether there are sets that could fail alone, so that a state is saved only when all members have agreed."""
    return membership.is_elastic() and job.is_started() and len(job.runtime.process_sets()) > 1


def committed() -> None:
    """All members have reached this commit, and this one has saved its state."""
    if membership.is_elastic() and job.is_started():
        _mine.commit()


def agreed(told: Change) -> Change:
    """Combines the changes that any member knows of. Collective in an elastic job; in other jobs it returns ``told``.

    Raises ``GoBack`` on the members of a set that failed, and returns on the other ranks when those members have
    caught up.
    """
    if not membership.is_elastic() or not job.is_started():
        return told
    _mine.reached += 1
    while True:
        _mine.agreement_operations += 1
        agreement = membership.agree(told, _mine.reached)
        if agreement.failed:
            _go_back_if_in(_exchange({}))
        elif agreement.least == agreement.most:
            return agreement.change
        elif _mine.reached == agreement.least:
            return NO_CHANGE  # the others are ahead, and wait


def settled(problem: HorovodInternalError, patience_s: float) -> bool:
    """After a failure of one set: whether its members go back alone. If not, all ranks form a new generation; so they
    do in a job that is not elastic, whose commits agree on nothing."""
    number = problem.process_set
    if not number or not membership.is_elastic():
        return False
    if isinstance(problem, GoBack):
        return True
    if not _mine.is_alone_in(number):
        _log.warning("process set %d failed, and other ranks took part in operations since the last commit", number)
        return False
    try:
        membership.agree(NO_CHANGE, 0, failed=True, patience_s=patience_s)
        _exchange({number: job.runtime.process_set_epoch(number)})
    except HorovodInternalError as why:
        _log.warning("process set %d failed, and the members could not agree to go on: %s", number, why)
        return False
    _mine.agreement_operations += 2
    return True


def went_back() -> None:
    """The state is that of the last commit again."""
    _mine.reached = _mine.committed


def _exchange(own: Dict[int, int]) -> List[int]:
    """The failed sets that this member is in. All ranks exchange how often each set was restarted, and each takes
    the highest count."""
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
    _mine.agreement_operations += 1
    if not failed:
        return
    if len(failed) == 1 and _mine.is_alone_in(failed[0]):
        problem = GoBack(f"process set {failed[0]} failed on another rank: its members go back to their last commit")
        problem.process_set = failed[0]
    else:
        problem = GoBack(f"process sets {failed} failed, and other ranks took part in operations since the last commit")
    problem.kind = "disconnected"
    raise problem
