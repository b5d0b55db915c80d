"""What a call asks of the runtime, the same for every framework: requests, and several operations behind one number."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from farandole import _native
from farandole.common import job as _job
from farandole.common import operations
from farandole.common.arguments import shown
from farandole.common.basics import HorovodBasics
from farandole.common.exceptions import make_error
from farandole.common.process_sets import ProcessSet
from farandole.common.util import get_average_backwards_compatibility_fun

handle_average_backwards_compatibility = get_average_backwards_compatibility_fun(HorovodBasics)


class Call:
    """Several operations behind one number, or one whose result has to be made when it has ended."""

    __slots__ = ("handles", "_make")

    def __init__(self, handles: List[Any], make: Callable[[], Any]) -> None:
        self.handles = handles
        self._make = make

    @property
    def number(self) -> int:
        """The call's number in this process."""
        return self.handles[0].number

    def settled(self) -> bool:
        """Whether all have ended."""
        return all(handle.settled() for handle in self.handles)

    def wait(self) -> None:
        """Waits for all; raises what the first that failed ended with."""
        _native.wait_all(self.handles)

    def finish(self) -> Any:
        """Waits, and makes the result."""
        self.wait()
        return self._make()


_PLAIN = (
    HorovodBasics.Average,
    HorovodBasics.Sum,
    HorovodBasics.Min,
    HorovodBasics.Max,
    HorovodBasics.Product,
)
_REQUESTS_KEPT = 256  # scales that change at every step must not fill the memory


class Reductions(Dict[Tuple[int, float, float], Any]):
    """What one operation asks for, by reduction, prescale and postscale; each is made when it is first asked for."""

    offered: Tuple[int, ...] = (*_PLAIN, HorovodBasics.Adasum)

    def __init__(self, operation: int, prefix: str, waits: bool = False) -> None:
        super().__init__()
        self._operation = operation
        self._waits = waits
        self.prefix = prefix
        self.unscaled: Dict[int, Any] = {}
        """Those without scales once more, by reduction alone: quicker to find."""

    def __missing__(self, key: Tuple[int, float, float]) -> Any:
        op, prescale, postscale = key
        if op not in self.offered:
            raise self.refusal(op)
        if len(self) >= _REQUESTS_KEPT:
            self.clear()
        try:
            request = _native.Request(self._operation, self.prefix, op, -1, prescale, postscale, self._waits)
        except TypeError:
            raise TypeError(
                f"{self.prefix} takes numbers as prescale_factor and postscale_factor, not {shown(prescale)} and "
                f"{shown(postscale)}"
            ) from None
        self[key] = request
        if prescale == 1.0 and postscale == 1.0:
            self.unscaled[op] = request
        return request

    def refusal(self, op: int) -> Exception:
        """What is raised for something that is no reduction."""
        return ValueError(
            f"{self.prefix} takes a reduction as op, and {shown(op)} is no reduction; pass Average, Sum, Adasum, Min, "
            "Max or Product"
        )


class Scatters(Reductions):
    """Unlike an allreduce, what cannot be reduced is an operation that failed, not a wrong argument."""

    offered = _PLAIN

    def refusal(self, op: int) -> Exception:
        return make_error(
            "unimplemented",
            f"{self.prefix} cannot reduce with {'Adasum' if op == HorovodBasics.Adasum else shown(op)}; pass Average, "
            "Sum, Min, Max or Product",
        )


class Broadcasts(Dict[int, Any]):
    """What a broadcast asks for, by the global rank that it comes from."""

    def __init__(self, waits: bool = False) -> None:
        super().__init__()
        self._waits = waits

    def __missing__(self, root_rank: int) -> Any:
        try:
            request = _native.Request(
                operations.BROADCAST, "broadcast", HorovodBasics.Sum, root_rank, waits=self._waits
            )
        except TypeError:
            raise TypeError(
                f"broadcast takes the number of a rank as root_rank, not {shown(root_rank)}; pass an int"
            ) from None
        self[root_rank] = request
        return request


requests = Reductions(operations.ALLREDUCE, "allreduce")
_requests_at_once = Reductions(operations.ALLREDUCE, "allreduce", waits=True)
"""Those "at once" are of callers that wait before they do anything else, and run the collective meanwhile."""
_grouped_requests = Reductions(operations.ALLREDUCE, "grouped_allreduce")
_grouped_requests_at_once = Reductions(operations.ALLREDUCE, "grouped_allreduce", waits=True)
scatters = Scatters(operations.REDUCESCATTER, "reducescatter")
scatters_at_once = Scatters(operations.REDUCESCATTER, "reducescatter", waits=True)
grouped_scatters = Scatters(operations.REDUCESCATTER, "grouped_reducescatter")
broadcasts = Broadcasts()
broadcasts_at_once = Broadcasts(waits=True)
ALLGATHER = _native.Request(operations.ALLGATHER, "allgather")
GROUPED_ALLGATHER = _native.Request(operations.ALLGATHER, "grouped_allgather")
ALLTOALL = _native.Request(operations.ALLTOALL, "alltoall")
ALLGATHER_AT_ONCE = _native.Request(operations.ALLGATHER, "allgather", waits=True)
ALLTOALL_AT_ONCE = _native.Request(operations.ALLTOALL, "alltoall", waits=True)


def reduction(average: Optional[bool], op: Optional[int], prescale: float, postscale: float) -> Any:
    """What an allreduce asks for."""
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    return requests[op, prescale, postscale]


def reduction_at_once(average: Optional[bool], op: Optional[int], prescale: float, postscale: float) -> Any:
    """What an allreduce asks for whose caller waits at once."""
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    return _requests_at_once[op, prescale, postscale]


def grouped_reduction(average: Optional[bool], op: Optional[int], prescale: float, postscale: float) -> Any:
    """What a grouped allreduce asks for."""
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average, "grouped_allreduce")
    return _grouped_requests[op, prescale, postscale]


def grouped_reduction_at_once(average: Optional[bool], op: Optional[int], prescale: float, postscale: float) -> Any:
    """What a grouped allreduce asks for whose caller waits at once."""
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average, "grouped_allreduce")
    return _grouped_requests_at_once[op, prescale, postscale]


class Seat(NamedTuple):
    """This process's number in a process set, and how many members there are."""

    rank: int
    size: int


def seat_in(process_set: ProcessSet) -> Optional[Seat]:
    """None where there is none: before ``init()``, or in a set that is not registered. The runtime says so."""
    if not _job.is_started() or process_set.process_set_id is None:
        return None
    return Seat(process_set.rank() or 0, process_set.size() or 1)


def rows_of_share(rows: int, process_set: ProcessSet) -> Optional[int]:
    """How many of ``rows`` a reducescatter leaves this rank with: the first ranks of the set take one more where they
    cannot be dealt out evenly. None where there is no seat.
    """
    seat = seat_in(process_set)
    if seat is None:
        return None
    each, left = divmod(rows, seat.size)
    return each + (seat.rank < left)
