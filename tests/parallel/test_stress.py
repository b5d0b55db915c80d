"""Thousands of operations of every kind and type in flight at once.

Each rank submits them in its own order, some twice and some late; every result is compared with NumPy's.
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
    """One operation as all ranks know it; the input of a rank is made from the task and the rank."""

    number: int
    name: str
    kind: str
    dtype: str
    shape: Tuple[int, ...]  # of a rank's input; allgather and alltoall replace the first dimension by one of the rank
    op: str
    root: int

    def rows(self, size: int) -> Splits:
        generator = numpy.random.default_rng([self.number, 7])
        return generator.integers(0, 4, (size, size)).tolist()  # type: ignore[no-any-return]

    def input_of(self, rank: int, size: int) -> Any:
        """Small numbers, so that every reduction is exact."""
        first = self.shape[0]
        if self.kind == "allgather":
            first = self.rows(size)[rank][0]
        elif self.kind == "alltoall":
            first = sum(self.rows(size)[rank])
        low = 0 if self.dtype.startswith("u") or self.dtype == "bool" else -2
        generator = numpy.random.default_rng([self.number, 11, rank])
        return generator.integers(low, 3, (first, *self.shape[1:])).astype(self.dtype)

    def submit(self, rank: int, size: int, ranks: Optional[Sequence[int]] = None, **options: Any) -> int:
        """In a process set, ``ranks`` are its members, and ``rank`` and ``size`` are those within the set."""
        array, op = self.input_of(rank, size), getattr(hvd, self.op)
        if self.kind == "allreduce":
            return hvd.allreduce_async(array, name=self.name, op=op, **options)
        if self.kind == "allreduce_":
            return hvd.allreduce_async_(array, name=self.name, op=op, **options)
        if self.kind == "grouped_allreduce":
            return hvd.grouped_allreduce_async([array, array[:1]], name=self.name, op=op, **options)
        if self.kind == "allgather":
            return hvd.allgather_async(array, name=self.name, **options)
        if self.kind == "broadcast":
            return hvd.broadcast_async(array, ranks[self.root] if ranks else self.root, name=self.name, **options)
        if self.kind == "alltoall":
            return hvd.alltoall_async(array, self.rows(size)[rank], name=self.name, **options)
        return hvd.reducescatter_async(array, name=self.name, op=op, **options)

    def check(self, result: Any, rank: int, size: int) -> None:
        inputs = [self.input_of(source, size) for source in range(size)]
        if self.kind == "allgather":
            expected = numpy.concatenate(inputs)
        elif self.kind == "broadcast":
            expected = inputs[self.root]
        elif self.kind == "alltoall":
            rows = self.rows(size)
            result, counts = result
            assert counts.tolist() == [rows[source][rank] for source in range(size)], self
            split_inputs = [numpy.split(array, numpy.cumsum(rows[source])[:-1]) for source, array in enumerate(inputs)]
            expected = numpy.concatenate([pieces[rank] for pieces in split_inputs])
        else:
            expected = functools.reduce(REDUCTIONS[self.op], inputs).astype(self.dtype)
            if self.kind == "reducescatter":
                expected = numpy.array_split(expected, size)[rank]
            elif self.kind == "grouped_allreduce":
                numpy.testing.assert_array_equal(result[1], expected[:1], err_msg=str(self))
                result = result[0]
        numpy.testing.assert_array_equal(result, expected, err_msg=str(self))


def tasks(seed: int, count: int, size: int) -> List[Task]:
    """The same tasks on every rank."""
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
    """The handles by the index of the task. Some tasks are submitted late; while rank 0 holds one name back, the
    other ranks submit it repeatedly."""
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
    hvd.synchronize(gate)  # the other ranks have made their attempts
    if rank == 0:
        held["held"] = hvd.allreduce_async(numpy.ones(2), name="stress.held", op=hvd.Sum)
    assert hvd.synchronize(held["held"]).tolist() == [size, size]
    return handles


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_thousands_of_operations_in_any_order_have_the_results_of_numpy(seed: int, rank: int, size: int) -> None:
    all_tasks = tasks(seed, 1000, size)
    own = numpy.random.default_rng([seed, rank, 13])
    for _ in range(2):  # names are negotiated in the first round and cached in the second
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
            assert result.tolist() == [source * 1000 + number for source in range(size) for _ in range(3)]
        else:
            assert result.tolist() == [number] * 3
