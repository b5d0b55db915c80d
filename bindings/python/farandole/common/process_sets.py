"""Groups of processes that communicate among themselves. The global set holds all of them.

The native runtime keeps the table of sets, the same on all ranks; this module ties ``ProcessSet`` objects to it. Sets
are equal when their ranks are; objects are told apart by identity. In an elastic job sets go on when members change
(``set_generations``), and are then told apart by where they come from.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from farandole.common import job, mpi
from farandole.common.exceptions import HorovodInternalError


class Member(NamedTuple):
    """A process of the job: the facts that a rule may use, equal on all members."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    host: str


Rule = Callable[[Member], bool]


def asking(rule: Rule) -> Callable[..., bool]:
    """Adapts a rule to the native runtime, which passes the fields of ``Member`` one by one."""
    return lambda *facts: rule(Member(*facts))


class _Gone(int):
    """Replaces the number of a set that no longer exists; its use raises an error with the reason."""

    why: str
    includes: bool


class ProcessSet:
    """A group of processes, given by their global ranks or by a communicator of mpi4py; or by a rule.

    It stays valid when the members of an elastic job change: ``ranks`` are then the new ranks of the members that are
    left. ``gone`` says why it cannot be used any more, once it has none left; None as long as it can.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm: Any = None
    rule: Optional[Rule] = None

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

    @classmethod
    def by_rule(cls, rule: Rule) -> ProcessSet:
        """The processes for which ``rule`` says so, for ``init(process_sets=[…])``.

        In each generation of an elastic job every member asks it about every member, those that are new included:

            hvd.ProcessSet.by_rule(lambda member: member.local_rank == 0)

        It must give the same answer on all of them, so it may look at nothing but the ``Member`` that it is given.
        """
        if not callable(rule):
            raise ValueError(f"a rule is a function of a member, not {rule!r}")
        made = cls([])
        made.ranks, made.rule = None, rule
        return made

    @property
    def gone(self) -> Optional[str]:
        """Why the set cannot be used any more; None if it can, or was never registered."""
        number = self.process_set_id
        return number.why if isinstance(number, _Gone) else None

    def lose(self, why: str, includes: bool = False) -> None:
        """Marks the set as nonexistent in this generation; a later use raises an error with ``why``. ``includes``:
        whether this process is a member, so that it must not go on as one that is not."""
        self.ranks = []
        self.process_set_id = number = _Gone(-1)
        number.why, number.includes = why, includes

    def _members(self) -> List[int]:
        job.where()
        if self.gone is not None:
            raise ValueError(self.gone)
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
        number = self.process_set_id
        if isinstance(number, _Gone):
            return number.includes
        if self.ranks is None:
            return None
        return job.where().rank in self.ranks

    def __deepcopy__(self, memo: Any) -> ProcessSet:
        """The same object: a copy, as of an optimizer's process set, would keep the present ranks forever."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self is global_process_set:
            return "global_process_set"
        if any(self is each for each in objects_of(self.process_set_id or 0)):
            return with_ranks, (self.ranks,)
        return super().__reduce_ex__(protocol)

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    __repr__ = __str__


global_process_set = ProcessSet([])
global_process_set.process_set_id = 0

NOT_REGISTERED = "the process set is not registered: pass it to init(), or add it with add_process_set()"


def require_registered(process_set: ProcessSet) -> None:
    """``ValueError`` for a set that neither ``init()`` nor ``add_process_set()`` has made, or that was removed."""
    # A process outside of a communicator knows neither the ranks nor the number of its set.
    if process_set.process_set_id is None and (process_set.mpi_comm is None or process_set.ranks is not None):
        raise ValueError(NOT_REGISTERED)


_registered: Dict[int, List[ProcessSet]] = {}
"""The objects that stand for each set, by its number; without the global one."""


def objects_of(number: int) -> List[ProcessSet]:
    """Those that stand for this set."""
    return list(_registered.get(number, []))


def with_ranks(ranks: List[int]) -> ProcessSet:
    """The set that has these ranks now, for one that was pickled; ``ValueError`` if there is none."""
    numbers = [number for number, members in get_process_set_ids_and_ranks().items() if number and members == ranks]
    if not numbers:
        raise ValueError(f"an object was saved with a process set of ranks {ranks}, and there is none: add it first")
    known = [each for number in numbers for each in objects_of(number)]
    if not known:  # this process has joined an elastic job in which the set was added before
        known = [ProcessSet(ranks)]
        stand_for(known[0], numbers[0])
    return known[0]


def forget() -> None:
    """After ``shutdown()``: no object stands for a set any more."""
    for objects in _registered.values():
        for each in objects:
            each.process_set_id = None
    _registered.clear()
    global_process_set.mpi_comm = None


def wanted_ranks(static_sets: Sequence[ProcessSet], comm: Any) -> List[List[int]]:
    """Global ranks of the sets that are to exist. Sets made from communicators learn theirs; ``comm`` is the job's."""
    wanted = [each.ranks or [] for each in static_sets if each.mpi_comm is None and each.rule is None]
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


def register(topology: job.Topology, static_sets: Sequence[ProcessSet]) -> None:
    """After ``init()``: fills the global set and finds the numbers of the others, which exist already.

    ``ValueError`` for one that equals an earlier one or the global set, and, where the job ran already, for one that
    does not exist. Farandole stays initialized.
    """
    global_process_set.ranks = list(range(topology.size))
    numbers = {tuple(ranks): number for number, ranks in get_process_set_ids_and_ranks().items()}
    problem = None
    seen = {tuple(global_process_set.ranks)}
    for each in static_sets:
        if each.mpi_comm is not None and each.ranks is None:
            continue  # made from a communicator that this process is not in
        if each.gone is not None or any(each is held for held in objects_of(each.process_set_id or 0)):
            continue  # identified in another way than by its ranks
        if each.rule is not None:
            problem = problem or "a process set by rule exists only if the first init() was given it"
            continue
        ranks = tuple(each.ranks or ())
        if ranks in seen:
            problem = problem or f"init() was given a process set of ranks {list(ranks)} that exists already"
        elif ranks not in numbers:
            problem = problem or f"a process set of ranks {list(ranks)} does not exist: add it with add_process_set()"
        else:
            seen.add(ranks)
            stand_for(each, numbers[ranks])
    if problem is not None:
        raise ValueError(problem)


def stand_for(process_set: ProcessSet, number: int) -> None:
    """From now on this object is the set of this number."""
    process_set.process_set_id = number
    objects = _registered.setdefault(number, [])
    if not any(process_set is each for each in objects):
        objects.append(process_set)


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Adds a set of ranks: all ranks call this, members or not, and it returns when the set can be used.

    ``ValueError`` on all ranks for a set that exists already, for ranks that do not fit the job and for ranks that do
    not agree; nothing changes then and the job goes on. In an elastic job sets go on when members change, so one that
    was added before may have just these ranks now: then it exists already, and the error says its number, the
    lowest if several have shrunk to them.

    :param process_set: a new set, or the list of its global ranks
    :returns: the set, which has its number now
    """
    job.where()
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    if process_set.rule is not None:
        raise NotImplementedError("a process set by rule can be given only to init()")
    if process_set.mpi_comm is not None:
        raise NotImplementedError("a process set can be made from a communicator only in init()")
    try:
        number = job.runtime.add_process_set(process_set.ranks)
    except HorovodInternalError as problem:
        raise _in_shutdown(problem) from problem
    stand_for(process_set, number)
    return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set: all ranks call this, members or not. Operations pending in the set fail, no others do.

    :param process_set: a set that is registered; it is not any more afterwards
    :returns: False for a set that is not registered, and for the global one
    """
    job.where()
    number = process_set.process_set_id
    if not number or process_set.gone is not None:
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
    # A caller that lost a member must get this error, so that it can roll back.
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
