"""Groups of processes that communicate among themselves. The global set holds all of them."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Sequence, Union

from farandole.common import job

NOT_OFFERED = "process sets other than the global one are not offered yet"


class ProcessSet:
    """A group of processes, given by their global ranks."""

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Union[Sequence[int], Any]) -> None:
        try:
            ranks = list(ranks_or_comm)
        except TypeError:
            raise ValueError(
                f"a ProcessSet is made from a list of ranks, not from {type(ranks_or_comm).__name__}; "
                "communicators need MPI, which this build of Farandole does not have"
            ) from None
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"the ranks of a ProcessSet are integers: {ranks}")
        self.ranks = sorted(ranks)

    def _require_known(self) -> None:
        if self.process_set_id != 0:
            raise ValueError(f"no process set has the number {self.process_set_id}")

    def size(self) -> Optional[int]:
        """Members; None while the set is not registered."""
        if self.process_set_id is None:
            return None
        self._require_known()
        return job.where().size

    def rank(self) -> Optional[int]:
        """This process's number inside the set; None while the set is not registered."""
        if self.process_set_id is None:
            return None
        self._require_known()
        return job.where().rank

    def included(self) -> Optional[bool]:
        """Whether this process is a member."""
        if self.ranks is None:
            return None
        return job.where().rank in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0


def _check_ranks(ranks: Sequence[int], size: int) -> None:
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"a process set names a rank twice: {list(ranks)}")
    foreign = [rank for rank in ranks if not 0 <= rank < size]
    if foreign or not ranks:
        raise ValueError(f"a process set of ranks {list(ranks)} does not fit a job of {size} processes")
    if len(ranks) == size:
        raise ValueError(f"a process set of ranks {list(ranks)} is the global process set")


def register(place: job.Place, static_sets: Sequence[ProcessSet]) -> None:
    """Fills the global set after ``init()`` and refuses others: they are not offered yet."""
    global_process_set.ranks = list(range(place.size))
    for each in static_sets:
        _check_ranks(each.ranks or [], place.size)
        raise NotImplementedError(NOT_OFFERED)


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a set on all ranks at once; process sets other than the global one are not offered yet."""
    place = job.where()
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if os.environ.get("HOROVOD_DYNAMIC_PROCESS_SETS", "0").lower() in ("", "0", "false", "no", "off"):
        raise ValueError("set HOROVOD_DYNAMIC_PROCESS_SETS=1 or call init(process_sets='dynamic') to add process sets")
    _check_ranks(process_set.ranks or [], place.size)
    raise NotImplementedError(NOT_OFFERED)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set on all ranks at once. False for a set that is not registered and for the global one."""
    job.where()
    return False
