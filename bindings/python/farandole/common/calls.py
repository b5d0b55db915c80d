"""The requests that calls submit to the runtime, the same for every framework, and calls of several operations."""

from __future__ import annotations

import contextlib
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
    """Several operations behind one handle number, or one operation whose result is built after it has ended."""

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


def handles_of(call: Any) -> List[Any]:
    """The native handles of a call, which may be a handle itself."""
    handles: List[Any] = getattr(call, "handles", [call])
    return handles


def abandon(call: Any) -> None:
    """Withdraws operations that other ranks may not request, and waits until they have ended."""
    for handle in handles_of(call):
        handle.cancel()
    with contextlib.suppress(RuntimeError, ValueError):
        call.wait()


def following(name: str, request: Any, first: str, process_set: ProcessSet) -> str:
    """The name of an operation that ranks request together with another one, named ``first``, which is not in flight.

    If the ranks disagree on the first, it fails on all of them, and some may not request the other one. Those that have
    withdraw it, and its name changes, so that none of its requests is taken for one of the next call.
    """
    failures = _job.runtime.failures(request, first, process_set.process_set_id)
    return f"{name}.{failures}" if failures else name


_PLAIN = (
    HorovodBasics.Average,
    HorovodBasics.Sum,
    HorovodBasics.Min,
    HorovodBasics.Max,
    HorovodBasics.Product,
)
_REQUESTS_KEPT = 256  # scales that change at every step must not fill the memory


class Reductions(Dict[Tuple[int, float, float, bool], Any]):
    """The requests of one operation, by reduction, prescale, postscale and ``waits``. Each is made at its first use.

    ``waits`` means that the caller waits before it does anything else, and so may run the collective itself.
    """

    offered: Tuple[int, ...] = (*_PLAIN, HorovodBasics.Adasum)

    def __init__(self, operation: int, prefix: str) -> None:
        super().__init__()
        self._operation = operation
        self.prefix = prefix
        self.unscaled: Dict[int, Any] = {}
        """The requests without scales and without ``waits``, by reduction alone: a faster lookup."""

    def __missing__(self, key: Tuple[int, float, float, bool]) -> Any:
        op, prescale, postscale, waits = key
        if op not in self.offered:
            raise self.refusal(op)
        if len(self) >= _REQUESTS_KEPT:
            self.clear()
        try:
            request = _native.Request(self._operation, self.prefix, op, -1, prescale, postscale, waits)
        except TypeError:
            raise TypeError(
                f"{self.prefix} takes numbers as prescale_factor and postscale_factor, not {shown(prescale)} and "
                f"{shown(postscale)}"
            ) from None
        self[key] = request
        if prescale == 1.0 and postscale == 1.0 and not waits:
            self.unscaled[op] = request
        return request

    def of(
        self, average: Optional[bool], op: Optional[int], prescale: float, postscale: float, waits: bool = False
    ) -> Any:
        """The request of a caller that may have given ``average``, or neither that nor ``op``."""
        if op is None or average is not None:
            op = handle_average_backwards_compatibility(op, average, self.prefix)
        return self[op, prescale, postscale, waits]

    def refusal(self, op: int) -> Exception:
        """The exception for an ``op`` that is not one of the reductions offered."""
        return ValueError(
            f"{self.prefix} takes a reduction as op, and {shown(op)} is no reduction; pass Average, Sum, Adasum, Min, "
            "Max or Product"
        )


class Scatters(Reductions):
    """Requests of reducescatters. Unlike in an allreduce, an unsupported ``op`` is a failed operation, not a wrong
    argument."""

    offered = _PLAIN

    def refusal(self, op: int) -> Exception:
        return make_error(
            "unimplemented",
            f"{self.prefix} cannot reduce with {'Adasum' if op == HorovodBasics.Adasum else shown(op)}; pass Average, "
            "Sum, Min, Max or Product",
        )


class Broadcasts(Dict[Tuple[int, bool], Any]):
    """The requests of broadcasts, by the global rank of the root and by whether the caller waits."""

    def __missing__(self, key: Tuple[int, bool]) -> Any:
        root_rank, waits = key
        try:
            request = _native.Request(operations.BROADCAST, "broadcast", HorovodBasics.Sum, root_rank, waits=waits)
        except TypeError:
            raise TypeError(
                f"broadcast takes the number of a rank as root_rank, not {shown(root_rank)}; pass an int"
            ) from None
        self[key] = request
        return request


def _gathers(operation: int, prefix: str) -> Tuple[Any, Any]:
    return _native.Request(operation, prefix), _native.Request(operation, prefix, waits=True)


allreduces = Reductions(operations.ALLREDUCE, "allreduce")
grouped_allreduces = Reductions(operations.ALLREDUCE, "grouped_allreduce")
reduction = allreduces.of
grouped_reduction = grouped_allreduces.of
scatters = Scatters(operations.REDUCESCATTER, "reducescatter")
grouped_scatters = Scatters(operations.REDUCESCATTER, "grouped_reducescatter")
broadcasts = Broadcasts()
allgathers = _gathers(operations.ALLGATHER, "allgather")
"""By whether the caller waits."""
alltoalls = _gathers(operations.ALLTOALL, "alltoall")
GATHERED_REDUCTION = _native.Request(operations.ALLGATHER, "allreduce")
"""Gathers the indices of a sparse gradient, or the messages of a compressor, under the name of the dense reduction:
ranks without a gradient do not know which of them the others request."""
GROUPED_ALLGATHER = _native.Request(operations.ALLGATHER, "grouped_allgather")


class SetRank(NamedTuple):
    """This process's number in a process set, and how many members there are."""

    rank: int
    size: int


def set_rank_in(process_set: ProcessSet) -> Optional[SetRank]:
    """None before ``init()`` and in a set that is not registered; the runtime reports the error."""
    if not _job.is_started() or process_set.process_set_id is None:
        return None
    return SetRank(process_set.rank() or 0, process_set.size() or 1)


def rows_of_share(rows: int, process_set: ProcessSet) -> Optional[int]:
    """How many of ``rows`` a reducescatter leaves this rank with: the first ranks of the set take one more where they
    cannot be dealt out evenly. None where ``set_rank_in`` gives None.
    """
    set_rank = set_rank_in(process_set)
    if set_rank is None:
        return None
    each, left = divmod(rows, set_rank.size)
    return each + (set_rank.rank < left)
