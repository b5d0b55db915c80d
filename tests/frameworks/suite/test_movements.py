"""allgather, broadcast and alltoall: operations that move rows unchanged."""

from __future__ import annotations

from types import ModuleType
from typing import Any, List

import drivers
import numpy
import pytest
from expected_values import sample

DRIVER = drivers.current()
MOVABLE = [*DRIVER.movable, *DRIVER.as_bytes]
DYNAMIC = [mode for mode in DRIVER.modes if DRIVER.has_dynamic_shapes(mode)]


def same(result: Any, wanted: Any, dtype: str) -> None:
    assert DRIVER.is_tensor(result) and DRIVER.dtype_of(result) == dtype
    numpy.testing.assert_array_equal(DRIVER.to_numpy(result), wanted)


# ---- allgather


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("dtype", MOVABLE)
def test_allgather_concatenates_unequal_numbers_of_rows(
    hvd: ModuleType, dtype: str, mode: str, name: str, rank: int, size: int
) -> None:
    # Rank 0 contributes no rows.
    tensor = DRIVER.make(sample(rank, dtype, (rank, 3)), dtype)
    result = DRIVER.run(mode, lambda tensor: hvd.allgather(tensor, name=name), tensor)
    same(result, numpy.concatenate([sample(each, dtype, (each, 3)) for each in range(size)]), dtype)


def test_allgather_of_empty_tensors_is_empty(hvd: ModuleType, name: str) -> None:
    same(hvd.allgather(DRIVER.make(numpy.zeros((0, 4)), "float32"), name=name), numpy.zeros((0, 4)), "float32")


@pytest.mark.parametrize("mode", DRIVER.modes)
@pytest.mark.parametrize("dtype", MOVABLE)
def test_allgather_concatenates_equal_numbers_of_rows(
    hvd: ModuleType, dtype: str, mode: str, name: str, rank: int, size: int
) -> None:
    tensor = DRIVER.make(sample(rank, dtype), dtype)
    result = DRIVER.run(mode, lambda tensor: hvd.allgather(tensor, name=name), tensor)
    same(result, numpy.concatenate([sample(each, dtype) for each in range(size)]), dtype)


@pytest.mark.parametrize("mode", DRIVER.modes)
def test_grouped_allgather_gathers_each_member_of_the_group(
    hvd: ModuleType, mode: str, name: str, rank: int, size: int
) -> None:
    kinds = [("float32", (1, 2)), ("int32", (3,)), ("float64", (0, 5)), *((dtype, (2,)) for dtype in DRIVER.as_bytes)]

    def contribution(each: int, dtype: str, shape: Any) -> Any:
        more = each + 1 if DRIVER.has_dynamic_shapes(mode) else 1
        return sample(each, dtype, (shape[0] * more, *shape[1:]))

    tensors = [DRIVER.make(contribution(rank, dtype, shape), dtype) for dtype, shape in kinds]
    results = DRIVER.run(mode, lambda *tensors: hvd.grouped_allgather(list(tensors), name=name), *tensors)
    assert len(results) == len(kinds)
    for result, (dtype, shape) in zip(results, kinds):
        same(result, numpy.concatenate([contribution(each, dtype, shape) for each in range(size)]), dtype)


# ---- broadcast


@pytest.mark.parametrize("mode", DRIVER.modes)
@pytest.mark.parametrize("dtype", MOVABLE)
def test_broadcast_from_the_last_rank_leaves_the_inputs_unchanged(
    hvd: ModuleType, dtype: str, mode: str, name: str, rank: int, size: int
) -> None:
    tensor = DRIVER.make(sample(rank, dtype), dtype)
    result = DRIVER.run(mode, lambda tensor: hvd.broadcast(tensor, size - 1, name=name), tensor)
    same(result, sample(size - 1, dtype), dtype)
    same(tensor, sample(rank, dtype), dtype)


@pytest.mark.parametrize("shape", [(), (0, 3), (70001,)], ids=str)
def test_tensors_of_every_shape_are_broadcast(hvd: ModuleType, shape: Any, name: str, rank: int) -> None:
    tensor = DRIVER.make(sample(rank, "float32", shape), "float32")
    same(hvd.broadcast(tensor, 0, name=name), sample(0, "float32", shape), "float32")


@pytest.mark.skipif(not DRIVER.offers("broadcast_"), reason="arrays are never written to")
def test_broadcast_in_place_overwrites_the_tensors(name: str, rank: int) -> None:
    kinds = [("float32", (5, 7)), ("float64", (3,)), *((dtype, (2, 3)) for dtype in DRIVER.as_bytes)]
    tensors = [DRIVER.make(sample(rank, dtype, shape), dtype) for dtype, shape in kinds]
    for result, (dtype, shape) in zip(DRIVER.broadcast_in_place(tensors, 0, name), kinds):
        numpy.testing.assert_array_equal(DRIVER.to_numpy(result), sample(0, dtype, shape))


# ---- alltoall


def rows(source: int, target: int) -> int:
    """The number of rows from source to target; zero for some pairs."""
    return (source + 2 * target) % 3


def sent(source: int, size: int, dtype: str) -> List[Any]:
    """The rows that a rank sends, by target."""
    counts = [rows(source, target) for target in range(size)]
    return numpy.split(sample(source, dtype, (sum(counts), 2)), numpy.cumsum(counts)[:-1])


@pytest.mark.parametrize("mode", DYNAMIC)
@pytest.mark.parametrize("dtype", MOVABLE)
def test_alltoall_with_splits_returns_the_rows_and_their_counts(
    hvd: ModuleType, dtype: str, mode: str, name: str, rank: int, size: int
) -> None:
    tensor = DRIVER.make(numpy.concatenate(sent(rank, size, dtype)), dtype)
    splits = DRIVER.make([rows(rank, target) for target in range(size)], "int32")
    received, counts = DRIVER.run(mode, lambda *both: hvd.alltoall(*both, name=name), tensor, splits)
    same(received, numpy.concatenate([sent(source, size, dtype)[rank] for source in range(size)]), dtype)
    same(counts, [rows(source, rank) for source in range(size)], "int32")


def test_alltoall_accepts_a_list_of_splits(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    received, counts = hvd.alltoall(DRIVER.make([rank] * size, "float32"), [1] * size, name=name)
    same(received, numpy.arange(size), "float32")
    same(counts, [1] * size, "int32")


@pytest.mark.skipif(DRIVER.name in ("tensorflow", "mxnet"), reason="its counts or its shapes are int32")
def test_alltoall_counts_more_rows_than_int32_holds_in_int64(hvd: ModuleType, name: str, rank: int, size: int) -> None:
    splits = [2**31 + rank] + [1] * (size - 1)
    tensor = DRIVER.make(numpy.empty((sum(splits), 0)), "float32")  # rows without elements take no memory
    received, counts = hvd.alltoall(tensor, splits, name=name)
    wanted = [1 if rank else 2**31 + source for source in range(size)]
    same(counts, wanted, "int32" if rank else "int64")
    same(received, numpy.empty((sum(wanted), 0)), "float32")


@pytest.mark.parametrize("mode", DRIVER.modes)
def test_alltoall_without_splits_returns_only_the_rows(
    hvd: ModuleType, mode: str, name: str, rank: int, size: int
) -> None:
    tensor = DRIVER.make(numpy.full((2 * size, 3), rank), "float32")
    result = DRIVER.run(mode, lambda tensor: hvd.alltoall(tensor, name=name), tensor)
    same(result, numpy.repeat(numpy.arange(size), 6).reshape(2 * size, 3), "float32")
