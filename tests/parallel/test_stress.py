"""Order freedom: thousands of operations of every kind and type in flight at once, submitted by each rank in an order
of its own, some twice and some late; every result is compared with NumPy's.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

import farandole.numpy as hvd
import numpy
import pytest

REDUCIBLE = ["uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64"]
KINDS = ["allreduce", "allreduce_", "grouped_allreduce", "allgather", "broadcast", "alltoall", "reducescatter"]
REDUCTIONS = {"Sum": numpy.add, "Min": numpy.minimum, "Max": numpy.maximum, "Product": numpy.multiply}
Splits = List[List[int]]  # rows from a rank to a rank


@dataclass(frozen=True)
class Task:
    """One operation as all ranks know it; what a rank brings is made from it and the rank."""

    number: int
    name: str
    kind: str
    dtype: str
    shape: Tuple[int, ...]  # of what a rank brings; of allgather and alltoall, the first dimension is each rank's own
    op: str
    root: int

    def rows(self, size: int) -> Splits:
        generator = numpy.random.default_rng([self.number, 7])
        return generator.integers(0, 4, (size, size)).tolist()  # type: ignore[no-any-return]

    def brought(self, rank: int, size: int) -> Any:
        """Small numbers, so that every reduction is exact."""
        first = self.shape[0]
        if self.kind == "allgather":
            first = self.rows(size)[rank][0]
        elif self.kind == "alltoall":
            first = sum(self.rows(size)[rank])
        low = 0 if self.dtype.startswith("u") or self.dtype == "bool" else -2
        generator = numpy.random.default_rng([self.number, 11, rank])
        return generator.integers(low, 3, (first, *self.shape[1:])).astype(self.dtype)

    def submit(self, rank: int, size: int, ranks: Optional[Sequence[int]] = None, **where: Any) -> int:
        """In a process set, with ``ranks`` its members, ``rank`` and ``size`` count within it."""
        array, op = self.brought(rank, size), getattr(hvd, self.op)
        if self.kind == "allreduce":
            return hvd.allreduce_async(array, name=self.name, op=op, **where)
        if self.kind == "allreduce_":
            return hvd.allreduce_async_(array, name=self.name, op=op, **where)
        if self.kind == "grouped_allreduce":
            return hvd.grouped_allreduce_async([array, array[:1]], name=self.name, op=op, **where)
        if self.kind == "allgather":
            return hvd.allgather_async(array, name=self.name, **where)
        if self.kind == "broadcast":
            return hvd.broadcast_async(array, ranks[self.root] if ranks else self.root, name=self.name, **where)
        if self.kind == "alltoall":
            return hvd.alltoall_async(array, self.rows(size)[rank], name=self.name, **where)
        return hvd.reducescatter_async(array, name=self.name, op=op, **where)

    def check(self, result: Any, rank: int, size: int) -> None:
        everybody = [self.brought(each, size) for each in range(size)]
        if self.kind == "allgather":
            wanted = numpy.concatenate(everybody)
        elif self.kind == "broadcast":
            wanted = everybody[self.root]
        elif self.kind == "alltoall":
            rows = self.rows(size)
            result, counts = result
            assert counts.tolist() == [rows[source][rank] for source in range(size)], self
            dealt = [numpy.split(each, numpy.cumsum(rows[source])[:-1]) for source, each in enumerate(everybody)]
            wanted = numpy.concatenate([pieces[rank] for pieces in dealt])
        else:
            wanted = functools.reduce(REDUCTIONS[self.op], everybody).astype(self.dtype)
            if self.kind == "reducescatter":
                wanted = numpy.array_split(wanted, size)[rank]
            elif self.kind == "grouped_allreduce":
                numpy.testing.assert_array_equal(result[1], wanted[:1], err_msg=str(self))
                result = result[0]
        numpy.testing.assert_array_equal(result, wanted, err_msg=str(self))


def tasks(seed: int, count: int, size: int) -> List[Task]:
    """The same on every rank."""
    generator = numpy.random.default_rng(seed)
    made = []
    for number in range(count):
        kind = str(generator.choice(KINDS))
        reduces = kind not in ("allgather", "broadcast", "alltoall")
        dtype = str(generator.choice(REDUCIBLE if reduces else [*REDUCIBLE, "bool"]))
        long = 3000 if generator.random() < 0.02 else 12
        shape = (int(generator.integers(1, long)), int(generator.integers(1, 5)))
        op = str(generator.choice(list(REDUCTIONS)))
        made.append(Task(number, f"stress.{seed}.{number}", kind, dtype, shape, op, int(generator.integers(size))))
    return made


def submit_in_own_order(all_tasks: List[Task], own: Any, rank: int, size: int) -> Dict[int, int]:
    """Handles by the tasks' places. Some tasks come late, and one that rank 0 holds back is tried again and again."""
    late = set(own.choice(len(all_tasks), len(all_tasks) // 20, replace=False).tolist())
    order = [int(place) for place in own.permutation(len(all_tasks)) if place not in late] + sorted(late)
    held = {} if rank == 0 else {"held": hvd.allreduce_async(numpy.ones(2), name="stress.held", op=hvd.Sum)}
    handles: Dict[int, int] = {}
    for number, place in enumerate(order):
        handles[place] = all_tasks[place].submit(rank, size)
        if rank != 0 and number % 97 == 0:
            with pytest.raises(ValueError, match="stress.held: an operation of this name is already in flight"):
                hvd.allreduce_async(numpy.ones(2), name="stress.held", op=hvd.Sum)
    gate = hvd.allreduce_async(numpy.ones(1), name="stress.gate", op=hvd.Sum)
    hvd.synchronize(gate)  # the others have tried often enough
    if rank == 0:
        held["held"] = hvd.allreduce_async(numpy.ones(2), name="stress.held", op=hvd.Sum)
    assert hvd.synchronize(held["held"]).tolist() == [size, size]
    return handles


@pytest.mark.parametrize("seed", range(3))
def test_thousands_in_flight_in_any_order(seed: int, rank: int, size: int) -> None:
    all_tasks = tasks(seed, 2000, size)
    own = numpy.random.default_rng([seed, rank, 13])
    for _ in range(2):  # names are negotiated in the first round, and known in the second
        handles = submit_in_own_order(all_tasks, own, rank, size)
        for place in own.permutation(len(all_tasks)):
            all_tasks[place].check(hvd.synchronize(handles[int(place)]), rank, size)


@pytest.mark.parametrize("seed", range(2))
def test_unnamed_operations_match_by_the_order_of_calls(seed: int, rank: int, size: int) -> None:
    generator = numpy.random.default_rng(seed)
    kinds = [str(generator.choice(["sum", "gather", "from 0"])) for _ in range(500)]
    handles = []
    for number, kind in enumerate(kinds):
        array = numpy.full(3, rank * 1000 + number, "int64")
        if kind == "sum":
            handles.append(hvd.allreduce_async(array, op=hvd.Sum))
        elif kind == "gather":
            handles.append(hvd.allgather_async(array))
        else:
            handles.append(hvd.broadcast_async(array, 0))
    for number, kind in reversed(list(enumerate(kinds))):
        result = hvd.synchronize(handles[number])
        if kind == "sum":
            assert result.tolist() == [size * (size - 1) // 2 * 1000 + size * number] * 3
        elif kind == "gather":
            assert result.tolist() == [each * 1000 + number for each in range(size) for _ in range(3)]
        else:
            assert result.tolist() == [number] * 3
