"""The NumPy binding: each operation compared with NumPy's own arithmetic, and the errors of unsupported arrays."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List

import farandole.numpy as hvd
import numpy
import pytest
from farandole.common.arguments import type_of_counts
from farandole.common.parameters import broadcast_named

INTEGERS = ["uint8", "int8", "uint16", "int16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]
REDUCIBLE = [*INTEGERS, *FLOATS]
ALL_TYPES = [*REDUCIBLE, "bool"]

EXACT: Dict[str, Callable[[Any, Any], Any]] = {
    "Sum": numpy.add,
    "Min": numpy.minimum,
    "Max": numpy.maximum,
    "Product": numpy.multiply,
}


def sample(rank: int, dtype: str, shape: Any = (5, 7)) -> Any:
    """Small numbers, so that sums and products of a few ranks are exact in every type."""
    low = 0 if dtype.startswith("u") or dtype == "bool" else -2
    return numpy.random.default_rng(1000 + rank).integers(low, 3, shape).astype(dtype)


def reduced(op: str, size: int, dtype: str, shape: Any = (5, 7)) -> Any:
    arrays = [sample(rank, dtype, shape) for rank in range(size)]
    return functools.reduce(EXACT[op], arrays).astype(dtype)


@pytest.fixture(scope="module", autouse=True)
def job() -> None:
    hvd.init()


@pytest.mark.parametrize("dtype", REDUCIBLE)
@pytest.mark.parametrize("op", list(EXACT))
def test_allreduce_equals_the_reduction_of_numpy(op: str, dtype: str, name: str, rank: int, size: int) -> None:
    array = sample(rank, dtype)
    result = hvd.allreduce(array, name=name, op=getattr(hvd, op))
    assert type(result) is numpy.ndarray and result.dtype == array.dtype and result.flags.writeable
    numpy.testing.assert_array_equal(result, reduced(op, size, dtype))
    numpy.testing.assert_array_equal(array, sample(rank, dtype))


def test_allreduce_averages_by_default_and_applies_the_scales(name: str, rank: int, size: int) -> None:
    result = hvd.allreduce(numpy.full(3, rank, "float64"), name=name, prescale_factor=2.0, postscale_factor=0.25)
    numpy.testing.assert_allclose(result, numpy.full(3, (size - 1) / 4))


def test_an_in_place_allreduce_returns_the_same_array(name: str, rank: int, size: int) -> None:
    array = sample(rank, "float32")
    assert hvd.allreduce_(array, name=name, op=hvd.Sum) is array
    numpy.testing.assert_array_equal(array, reduced("Sum", size, "float32"))
    other = sample(rank, "int32")
    handle = hvd.allreduce_async_(other, name=name, op=hvd.Max)
    assert hvd.synchronize(handle) is other
    numpy.testing.assert_array_equal(other, reduced("Max", size, "int32"))


def test_allreduce_accepts_lists_numbers_and_strided_arrays(name: str, rank: int, size: int) -> None:
    numpy.testing.assert_array_equal(
        hvd.allreduce([rank, 1.0], name=name, op=hvd.Sum), [size * (size - 1) / 2, float(size)]
    )
    result = hvd.allreduce(float(rank), name=f"{name}.number", op=hvd.Max)
    assert result.shape == () and result == size - 1
    columns = sample(rank, "float32", (4, 6))[:, ::2]
    result = hvd.allreduce(columns, name=f"{name}.columns", op=hvd.Sum)
    numpy.testing.assert_array_equal(result, reduced("Sum", size, "float32", (4, 6))[:, ::2])


def test_grouped_allreduce_reduces_each_array_of_the_group(name: str, rank: int, size: int) -> None:
    arrays = [sample(rank, "float32"), sample(rank, "int64", (3,)), sample(rank, "float16", (0, 2))]
    results = hvd.grouped_allreduce(arrays, name=name, op=hvd.Sum)
    assert isinstance(results, list)
    for array, result in zip(arrays, results):
        numpy.testing.assert_array_equal(result, reduced("Sum", size, array.dtype.name, array.shape))
    handle = hvd.grouped_allreduce_async_(arrays, name=name, op=hvd.Sum)
    assert all(result is array for result, array in zip(hvd.synchronize(handle), arrays))
    again = [sample(rank, "float32"), sample(rank, "int64", (3,))]
    assert hvd.grouped_allreduce_(again, name=f"{name}.again", op=hvd.Sum)[1] is again[1]
    numpy.testing.assert_array_equal(again[1], arrays[1])
    assert hvd.grouped_allreduce([]) == []


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_allgather_concatenates_arrays_of_unequal_lengths(dtype: str, name: str, rank: int, size: int) -> None:
    gathered = hvd.allgather(sample(rank, dtype, (rank + 1, 3)), name=name)
    expected = numpy.concatenate([sample(source, dtype, (source + 1, 3)) for source in range(size)])
    assert gathered.dtype == expected.dtype and gathered.flags.writeable
    numpy.testing.assert_array_equal(gathered, expected)
    gathered[...] = 0  # the caller owns the result


def test_a_view_of_a_gathered_array_outlives_its_operation(name: str, rank: int, size: int) -> None:
    views: List[Any] = [hvd.allgather(numpy.full((1000,), rank, "int64"), name=name)[::2] for _ in range(20)]
    for view in views:
        numpy.testing.assert_array_equal(view, numpy.repeat(numpy.arange(size), 500))


def test_grouped_allgather_gathers_each_array_of_the_group(name: str, rank: int, size: int) -> None:
    first, second = hvd.grouped_allgather([sample(rank, "int32", (rank,)), sample(rank, "float64", (2, 2))], name=name)
    numpy.testing.assert_array_equal(first, numpy.concatenate([sample(r, "int32", (r,)) for r in range(size)]))
    numpy.testing.assert_array_equal(second, numpy.concatenate([sample(r, "float64", (2, 2)) for r in range(size)]))
    handle = hvd.grouped_allgather_async([sample(rank, "int8", (1,))], name=name)
    (third,) = hvd.synchronize(handle)
    assert len(third) == size


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_broadcast_copies_the_array_of_the_root(dtype: str, name: str, rank: int, size: int) -> None:
    array = sample(rank, dtype)
    result = hvd.broadcast(array, size - 1, name=name)
    numpy.testing.assert_array_equal(result, sample(size - 1, dtype))
    numpy.testing.assert_array_equal(array, sample(rank, dtype))
    assert hvd.broadcast_(array, 0, name=f"{name}.here") is array
    numpy.testing.assert_array_equal(array, sample(0, dtype))


def test_counts_of_rows_are_int32_unless_one_of_them_needs_int64(name: str, rank: int, size: int) -> None:
    assert [type_of_counts(each) for each in ([], [0, 2**31 - 1], [2**31, 0])] == ["int32", "int32", "int64"]
    # Rows without elements take no memory.
    splits = [2**31 + rank] + [1] * (size - 1)
    received, counts = hvd.alltoall(numpy.empty((sum(splits), 0)), splits, name=name)
    wanted = [1 if rank else 2**31 + source for source in range(size)]
    assert counts.tolist() == wanted and counts.dtype == ("int32" if rank else "int64")
    assert received.shape == (sum(wanted), 0)


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_alltoall_sends_rows_by_splits_or_evenly(dtype: str, name: str, rank: int, size: int) -> None:
    def rows(source: int, target: int) -> int:
        return (source + 2 * target) % 4

    array = sample(rank, dtype, (sum(rows(rank, target) for target in range(size)), 2))
    splits = [rows(rank, target) for target in range(size)]
    received, counts = hvd.alltoall(array, numpy.array(splits), name=name)
    assert counts.dtype == numpy.int32 and counts.tolist() == [rows(source, rank) for source in range(size)]
    expected = []
    for source in range(size):
        ends = numpy.cumsum([rows(source, target) for target in range(size)])
        expected.append(numpy.split(sample(source, dtype, (int(ends[-1]), 2)), ends[:-1])[rank])
    numpy.testing.assert_array_equal(received, numpy.concatenate(expected))
    even = hvd.alltoall(numpy.full((size, 2), rank, dtype), name=f"{name}.even")
    numpy.testing.assert_array_equal(even[:, 0], numpy.arange(size).astype(dtype))


@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_reducescatter_divides_uneven_rows_like_array_split(dtype: str, name: str, rank: int, size: int) -> None:
    shape = (2 * size + 1, 3)
    share = hvd.reducescatter(sample(rank, dtype, shape), name=name, op=hvd.Sum)
    numpy.testing.assert_array_equal(share, numpy.array_split(reduced("Sum", size, dtype, shape), size)[rank])
    both = hvd.grouped_reducescatter([sample(rank, dtype, shape)] * 2, name=name, op=hvd.Sum)
    numpy.testing.assert_array_equal(both[1], share)


def test_joined_ranks_take_part_in_an_allreduce_of_rank_0(name: str, rank: int, size: int) -> None:
    hvd.barrier()
    if rank == 0:
        numpy.testing.assert_array_equal(hvd.allreduce(numpy.ones(2), name=name, op=hvd.Sum), [1.0, 1.0])
    assert 0 <= hvd.join() < size


def test_bfloat16_arrays_keep_their_dtype(name: str, rank: int, size: int) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    result = hvd.allreduce(numpy.full(4, rank, bfloat16), name=name, op=hvd.Sum)
    assert result.dtype == bfloat16 and result.astype("float32").tolist() == [size * (size - 1) / 2] * 4
    assert hvd.allgather(numpy.full(1, rank, bfloat16), name=f"{name}.gathered").dtype == bfloat16


class Boxes:
    """A framework whose variables are boxes with an array in each."""

    def to_numpy(self, box: List[Any]) -> Any:
        return box[0]

    def assign(self, box: List[Any], array: Any) -> None:
        assert array.dtype == box[0].dtype and array.shape == box[0].shape
        box[0] = array


def test_named_variables_are_broadcast(name: str, rank: int, size: int) -> None:
    root = size - 1
    # uint32 is the type of random seeds.
    kinds = [("float32", (3, 2)), ("uint32", (2,)), ("bool", ()), ("int64", (0, 4)), ("float64", (70_000,))]
    kinds += [("complex64", (2, 2)), ("complex128", ()), ("uint64", (3,))]

    def box(of: int, dtype: str, shape: Any) -> List[Any]:
        return [numpy.asarray(sample(of, dtype, shape))]

    variables = [(f"{name}.{i}", box(rank, dtype, shape)) for i, (dtype, shape) in enumerate(kinds)]
    broadcast_named(Boxes(), variables, root)
    for (_, held), (dtype, shape) in zip(variables, kinds):
        numpy.testing.assert_array_equal(held[0], box(root, dtype, shape)[0])


def test_unsupported_arrays_are_refused_at_the_call(name: str, size: int) -> None:
    for unsupported in (
        numpy.zeros(2, "complex64"),
        numpy.array(["text"]),
        numpy.zeros(2, ">f4"),
        numpy.zeros(2, "uint32"),
    ):
        with pytest.raises(ValueError, match="allreduce takes"):
            hvd.allreduce(unsupported, name=name)
    with pytest.raises(ValueError, match="bool"):
        hvd.allreduce(numpy.zeros(2, "bool"), name=name)
    with pytest.raises(ValueError, match="contiguous"):
        hvd.allreduce_(numpy.zeros((4, 4))[:, 1], name=name)
    with pytest.raises(TypeError, match="list"):
        hvd.allreduce_([1.0, 2.0], name=name)
    frozen = numpy.zeros(2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        hvd.broadcast_(frozen, 0, name=name)
    with pytest.raises(ValueError, match="splits"):
        hvd.alltoall(numpy.zeros(size), [0.5] * size, name=name)
    assert hvd.allreduce(1.0, name=name, op=hvd.Sum) == size


def test_arrays_of_any_type_but_objects_are_moved(name: str, rank: int, size: int) -> None:
    record = numpy.dtype([("id", "int32"), ("weight", "float64")])
    for kind, dtype in {"record": record, "text": "<U3", "bytes": "S2", "time": "datetime64[s]"}.items():
        own = numpy.array([rank, rank + 1]).astype(dtype)
        gathered = hvd.allgather(own, name=f"{name}.{kind}")
        assert gathered.dtype == own.dtype
        numpy.testing.assert_array_equal(gathered[2 * rank : 2 * rank + 2], own)
        numpy.testing.assert_array_equal(hvd.broadcast(own, 0, name=f"{name}.{kind}"), gathered[:2])
    columns = numpy.ones((3, 4), "complex64").T
    with pytest.raises(ValueError, match="not contiguous"):
        hvd.broadcast_(columns, 0, name=name)
    for wrong in (numpy.array("text"), numpy.array([None]), numpy.zeros(2, ">c8")):
        with pytest.raises((TypeError, ValueError), match="broadcast takes|broadcast.*: broadcast takes"):
            hvd.broadcast(wrong, 0, name=name)


def test_a_shape_mismatch_fails_and_later_operations_work(name: str, rank: int, size: int) -> None:
    if size == 1:
        pytest.skip("needs two ranks")
    with pytest.raises(hvd.HorovodInternalError, match=name):
        hvd.allreduce(numpy.zeros(2 + rank), name=name)
    assert hvd.allreduce(1.0, name=f"{name}.after", op=hvd.Sum) == size
