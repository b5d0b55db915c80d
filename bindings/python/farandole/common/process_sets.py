"""Groups of processes that communicate among themselves. The global set holds all of them.

The native runtime keeps the table of sets, the same on all ranks; this module ties ``ProcessSet`` objects to it. Sets
are equal when their ranks are; objects are told apart by identity.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Union

from farandole.common import job, mpi
from farandole.common.exceptions import HorovodInternalError


class ProcessSet:
    """A group of processes, given by their global ranks or by a communicator of mpi4py."""

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Union[Sequence[int], Any]) -> None:
        try:
            ranks = list(ranks_or_comm)
        except TypeError:
            mpi.require_communicator(ranks_or_comm, "a ProcessSet")
            self.mpi_comm = ranks_or_comm  # its ranks are known after init()
            return
        if any(not isinstance(rank, int) for rank in ranks):
            raise ValueError(f"the ranks of a ProcessSet are integers: {ranks}")
        self.ranks = sorted(ranks)

    def _members(self) -> List[int]:
        job.where()
        if self.ranks is None or (self.process_set_id != 0 and self.process_set_id not in _registered):
            raise ValueError(f"no process set has the number {self.process_set_id}")
        return self.ranks

    def size(self) -> Optional[int]:
        """Members; None while the set is not registered."""
        return None if self.process_set_id is None else len(self._members())

    def rank(self) -> Optional[int]:
        """This process's number inside the set; None while the set is not registered, ``ValueError`` outside of it."""
        if self.process_set_id is None:
            return None
        members = self._members()
        own = job.where().rank
        if own not in members:
            raise ValueError(f"rank {own} is not in process set {self.process_set_id}, which has ranks {members}")
        return members.index(own)

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

_registered: Dict[int, List[ProcessSet]] = {}
"""The objects that stand for each set, by its number; without the global one."""


def forget() -> None:
    """After ``shutdown()``: no object stands for a set any more."""
    for objects in _registered.values():
        for each in objects:
            each.process_set_id = None
    _registered.clear()
    global_process_set.mpi_comm = None


def wanted_ranks(static_sets: Sequence[ProcessSet], comm: Any) -> List[List[int]]:
    """Global ranks of the sets that are to exist. Sets made from communicators learn theirs; ``comm`` is the job's."""
    wanted = [each.ranks or [] for each in static_sets if each.mpi_comm is None]
    parts = [each for each in static_sets if each.mpi_comm is not None]
    if not parts:
        return wanted
    gathered = mpi.gather_sets(comm, [each.mpi_comm for each in parts])
    for each, ranks in zip(parts, gathered[comm.Get_rank()]):
        each.ranks = ranks
    for position in range(len(parts)):
        of_all_ranks = [each[position] for each in gathered]
        distinct = {tuple(ranks) for ranks in of_all_ranks if ranks is not None}
        wanted += [list(ranks) for ranks in sorted(distinct)]
    return wanted


def register(place: job.Place, static_sets: Sequence[ProcessSet]) -> None:
    """After ``init()``: fills the global set and finds the numbers of the others, which exist already.

    ``ValueError`` for one that equals an earlier one or the global set, and, where the job ran already, for one that
    does not exist. Farandole stays initialized.
    """
    global_process_set.ranks = list(range(place.size))
    numbers = {tuple(ranks): number for number, ranks in get_process_set_ids_and_ranks().items()}
    problem = None
    seen = {tuple(global_process_set.ranks)}
    for each in static_sets:
        if each.mpi_comm is not None and each.ranks is None:
            continue  # made from a communicator that this process is not in
        ranks = tuple(each.ranks or ())
        if ranks in seen:
            problem = problem or f"init() was given a process set of ranks {list(ranks)} that exists already"
        elif ranks not in numbers:
            problem = problem or f"a process set of ranks {list(ranks)} does not exist: add it with add_process_set()"
        else:
            seen.add(ranks)
            _stand_for(each, numbers[ranks])
    if problem is not None:
        raise ValueError(problem)


def _stand_for(process_set: ProcessSet, number: int) -> None:
    process_set.process_set_id = number
    objects = _registered.setdefault(number, [])
    if not any(process_set is each for each in objects):
        objects.append(process_set)


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a set of ranks: all ranks call this, members or not, and it returns when the set can be used.

    ``ValueError`` on all ranks for a set that exists already, for ranks that do not fit the job and for ranks that do
    not agree; nothing changes then and the job goes on.

    :param process_set: a new set, or the list of its global ranks
    :returns: the set, which has its number now
    """
    job.where()
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.mpi_comm is not None:
        raise NotImplementedError("a process set can be made from a communicator only in init()")
    try:
        number = job.runtime.add_process_set(process_set.ranks)
    except HorovodInternalError as problem:
        raise _in_shutdown(problem) from problem
    _stand_for(process_set, number)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set: all ranks call this, members or not. What is pending in the set fails; nothing else does.

    :param process_set: a set that is registered; it is not any more afterwards
    :returns: False for a set that is not registered, and for the global one
    """
    job.where()
    number = process_set.process_set_id
    if not number:
        return False
    removed = True
    try:
        job.runtime.remove_process_set(number)
    except HorovodInternalError as problem:
        raise _in_shutdown(problem) from problem
    except ValueError:
        if number in get_process_set_ids_and_ranks():
            raise
        removed = False
    for each in [process_set, *_registered.pop(number, [])]:
        each.process_set_id = None
    return removed


def _in_shutdown(problem: HorovodInternalError) -> Exception:
    # Who lost a member must know, to roll back.
    return problem if problem.kind == "disconnected" else ValueError(str(problem))


def get_process_set_ids_and_ranks() -> Dict[int, List[int]]:
    """Numbers and global ranks of all sets, the global one included."""
    job.where()
    return dict(job.runtime.process_sets())


def process_set_included(process_set_id: int = 0) -> bool:
    """Whether this process is in the set of this number; ``ValueError`` where there is none."""
    ranks = get_process_set_ids_and_ranks().get(process_set_id)
    if ranks is None:
        raise ValueError(f"no process set has the number {process_set_id}")
    return job.where().rank in ranks
