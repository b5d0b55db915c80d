"""The results of each operation on arrays in GPU memory, compared with NumPy."""

from __future__ import annotations

from typing import Any, List

import numpy
import pytest
from device_arrays import BFLOAT16, DeviceArray, Stream
from farandole import _native
from farandole.common import operations
from submitting import allreduce, submit, total

REDUCIBLE = [
    *["uint8", "int8", "uint16", "int16", "int32", "int64"],
    *["float16", BFLOAT16, "float32", "float64"],
]
MOVABLE = [*REDUCIBLE, "bool"]
COLUMNS = 7
LARGE_BYTES = 256 << 20
MANY = 10_000


def sample(rank: int, dtype: str, rows: int) -> numpy.ndarray:
    """Small whole numbers, so that sums of a few ranks are exact in every type."""
    low = 0 if dtype.startswith("u") or dtype == "bool" else -2
    values = numpy.random.default_rng(1000 + rank).integers(low, 3, (rows, COLUMNS))
    return values.astype("float32" if dtype == BFLOAT16 else dtype)


def encoded(values: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """As the elements lie in memory. The upper half of a small whole float32 is the same number in bfloat16."""
    return (values.view("uint32") >> 16).astype("uint16") if dtype == BFLOAT16 else values


def on_device(values: numpy.ndarray, dtype: str) -> DeviceArray:
    return DeviceArray(encoded(values, dtype), dtype=dtype)


def empty(rows: int, dtype: str) -> DeviceArray:
    return on_device(numpy.full_like(sample(0, dtype, rows), 1), dtype)


def expect(array: DeviceArray, wanted: numpy.ndarray, dtype: str) -> None:
    numpy.testing.assert_array_equal(array.read(), encoded(wanted, dtype))


def gathered(handle: Any, dtype: str) -> numpy.ndarray:
    """The rows that an operation put into host memory."""
    handle.wait()
    plain = "uint16" if dtype == BFLOAT16 else dtype
    return numpy.asarray(handle.array()).view(plain).reshape(-1, COLUMNS)


def added(size: int, dtype: str, rows: int) -> numpy.ndarray:
    result = sample(0, dtype, rows)
    for rank in range(1, size):
        result = result + sample(rank, dtype, rows)
    return result


@pytest.mark.parametrize("dtype", REDUCIBLE)
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "apart"])
def test_allreduce_adds(in_place: bool, dtype: str, name: str, rank: int, size: int, stream: Stream) -> None:
    array = on_device(sample(rank, dtype, 5), dtype)
    output = array if in_place else empty(5, dtype)
    allreduce(name, array, output).wait()
    expect(output, added(size, dtype, 5), dtype)
    if not in_place:
        expect(array, sample(rank, dtype, 5), dtype)


@pytest.mark.parametrize("dtype", MOVABLE)
def test_broadcast_sends_the_root_s_values(dtype: str, name: str, rank: int, stream: Stream) -> None:
    array, output = on_device(sample(rank, dtype, 5), dtype), empty(5, dtype)
    submit(operations.BROADCAST, name, array, output).wait()
    expect(output, sample(0, dtype, 5), dtype)


@pytest.mark.parametrize("dtype", MOVABLE)
def test_allgather_joins_the_rows_of_all_ranks(dtype: str, name: str, rank: int, size: int, stream: Stream) -> None:
    rows = gathered(submit(operations.ALLGATHER, name, on_device(sample(rank, dtype, rank + 1), dtype)), dtype)
    wanted = numpy.concatenate([sample(each, dtype, each + 1) for each in range(size)])
    numpy.testing.assert_array_equal(rows, encoded(wanted, dtype))


@pytest.mark.parametrize("dtype", MOVABLE)
def test_alltoall_exchanges_rows(dtype: str, name: str, rank: int, size: int, stream: Stream) -> None:
    splits = [target + 1 for target in range(size)]
    ends = numpy.cumsum(splits)
    array = on_device(sample(rank, dtype, sum(splits)), dtype)
    rows = gathered(submit(operations.ALLTOALL, name, array, None, splits), dtype)
    parts = [sample(source, dtype, sum(splits))[ends[rank] - splits[rank] : ends[rank]] for source in range(size)]
    numpy.testing.assert_array_equal(rows, encoded(numpy.concatenate(parts), dtype))


@pytest.mark.parametrize("dtype", REDUCIBLE)
def test_reducescatter_adds_a_segment(dtype: str, name: str, rank: int, size: int, stream: Stream) -> None:
    rows = 2 * size + 1  # the first rank has one row more
    wanted = numpy.array_split(added(size, dtype, rows), size)[rank]
    output = empty(len(wanted), dtype)
    submit(operations.REDUCESCATTER, name, on_device(sample(rank, dtype, rows), dtype), output).wait()
    expect(output, wanted, dtype)


def test_a_large_tensor_is_right_in_every_element(name: str, rank: int, size: int, stream: Stream) -> None:
    # Numbers that differ from chunk to chunk, and stay exact in float32.
    numbers = numpy.resize(numpy.arange(1_000_003, dtype="float32"), LARGE_BYTES // 4)
    array = DeviceArray(numbers + rank)
    allreduce(name, array).wait()
    result = array.read()
    numbers *= size
    numbers += sum(range(size))
    assert numpy.array_equal(result, numbers)


def test_many_small_tensors_at_once_are_right(name: str, rank: int, size: int, stream: Stream) -> None:
    columns = 64  # 256 bytes, so that each begins at an address as the driver would choose it
    whole = DeviceArray(numpy.repeat(numpy.arange(MANY, dtype="float32"), columns).reshape(MANY, columns) + rank)
    handles: List[Any] = [allreduce(f"{name}.{index}", whole.row(index)) for index in range(MANY)]
    _native.wait_all(handles)
    wanted = numpy.arange(MANY, dtype="float32") * size + sum(range(size))
    assert numpy.array_equal(whole.read(), numpy.repeat(wanted, columns).reshape(MANY, columns))


def test_a_tensor_is_reduced_again_and_again(name: str, rank: int, size: int, stream: Stream) -> None:
    array = DeviceArray(numpy.full(1000, rank + 1.0, "float64"))
    steps = 20
    for _ in range(steps):
        allreduce(name, array).wait()
    assert (array.read() == total(size) * float(size) ** (steps - 1)).all()
