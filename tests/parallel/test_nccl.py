"""Tensors in GPU memory that move by NCCL: each rank has a GPU of its own. With the stand-ins for the driver and for
NCCL, or with real ones.

Other files test that operations have the right results, with the plugin `on_devices`.
"""

from __future__ import annotations

import os
from typing import Any

import farandole.numpy as hvd
import numpy
import pytest
from device_arrays import COUNT, DeviceArray, Region, Stream, nccl, needs_stand_in
from farandole import _native
from farandole.common import job

AVERAGE, SUM, MIN, MAX, PRODUCT = 0, 1, 3, 4, 5
ALLREDUCE, BROADCAST = 0, 2
LARGE = 9_000_001
"""Elements of a float32 tensor that is reduced in several calls."""


RANKS = int(os.environ.get("HOROVOD_SIZE", "1"))
MAY_SHARE_GPUS = "FARANDOLE_TEST_OWN_HOSTS" in os.environ
"""Whether each rank is on a host of its own, as NCCL sees it (on_own_hosts)."""
pytestmark = [
    pytest.mark.skipif(
        RANKS < 2 or not (RANKS <= COUNT or MAY_SHARE_GPUS),
        reason="needs two ranks or more, and a GPU for each",
    ),
    pytest.mark.skipif(not _native.nccl_version(), reason="needs NCCL, and a build with kernels"),
]


def kernels() -> int:
    """How many kernels of NCCL this process has launched."""
    return int(nccl.fakeNcclKernelsLaunched())


def submitted(name: str, array: Any, op: int = SUM, output: Any = None, set_id: int = 0, **scales: float) -> Any:
    request = _native.Request(ALLREDUCE, "allreduce", op, **scales)
    return job.runtime.submit(request, name, array, array if output is None else output, set_id)


@needs_stand_in
def test_tensors_move_by_nccl_and_not_through_the_host(name: str, rank: int, size: int, stream: Stream) -> None:
    array = DeviceArray(numpy.full(1000, rank + 1.0, "float32"))
    submitted(name, array).wait()
    before = kernels()
    for _ in range(3):
        array.write(numpy.full(1000, rank + 1.0, "float32"))
        submitted(name, array).wait()
        assert (array.read() == size * (size + 1) / 2).all()
    assert kernels() == before + 3


@pytest.mark.parametrize("op", [AVERAGE, SUM, MIN, MAX, PRODUCT])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64", "float16", "float32", "float64"])
def test_every_reduction_of_every_type_is_right(
    name: str, rank: int, size: int, stream: Stream, op: int, dtype: str
) -> None:
    inputs = [numpy.arange(1, 38).astype(dtype) % 5 + other for other in range(size)]
    inputs = [each.astype(dtype) for each in inputs]
    array = DeviceArray(inputs[rank])
    submitted(name, array, op).wait()
    reduced = {AVERAGE: numpy.add, SUM: numpy.add, MIN: numpy.minimum, MAX: numpy.maximum, PRODUCT: numpy.multiply}
    expected = reduced[op].reduce(inputs, dtype=dtype)
    if op == AVERAGE:
        expected = (expected.astype("float64") / size).astype(dtype)
    if dtype.startswith("float"):
        assert numpy.allclose(array.read(), expected, rtol=1e-3)
    else:
        assert (array.read() == expected).all()


@pytest.mark.parametrize("count", [0, 1, 5, 300_000, LARGE])
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "apart"])
def test_tensors_of_any_size_are_scaled_before_and_after(
    name: str, rank: int, size: int, stream: Stream, count: int, in_place: bool
) -> None:
    array = DeviceArray(numpy.full(count, rank + 1.0, "float32"))
    output = array if in_place else DeviceArray(numpy.full(count, -1.0, "float32"))
    submitted(name, array, AVERAGE, output, prescale=2.0, postscale=0.5).wait()
    assert (output.read() == (size + 1) / 2).all()
    assert in_place or (array.read() == rank + 1.0).all()


def test_bundles_of_many_tensors_are_packed(name: str, rank: int, size: int, stream: Stream) -> None:
    sizes = [1 + 37 * index % 4000 for index in range(120)] + [400_000, 3]
    arrays = [DeviceArray(numpy.full(count, rank + index, "float32")) for index, count in enumerate(sizes)]
    for _ in range(2):
        _native.wait_all([submitted(f"{name}.{index}", each) for index, each in enumerate(arrays)])
    for index, each in enumerate(arrays):
        assert (each.read() == size * sum(other + index for other in range(size))).all()


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint16", "float32"])
def test_a_broadcast_of_any_type_comes_from_its_root(
    name: str, rank: int, size: int, stream: Stream, dtype: str
) -> None:
    root = size - 1
    array = DeviceArray((numpy.arange(3000) % 2 + 3 * rank).astype(dtype))
    request = _native.Request(BROADCAST, "broadcast", SUM, root)
    job.runtime.submit(request, name, array, array, 0).wait()
    assert (array.read() == (numpy.arange(3000) % 2 + 3 * root).astype(dtype)).all()


@needs_stand_in
def test_integers_of_sixteen_bits_are_reduced_by_the_host(name: str, rank: int, size: int, stream: Stream) -> None:
    before = kernels()
    array = DeviceArray(numpy.full(100, rank + 1, "int16"))
    submitted(name, array).wait()
    assert (array.read() == size * (size + 1) // 2).all()
    assert kernels() == before


def test_a_rank_that_has_joined_takes_part_with_neutral_elements(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    warm = DeviceArray(numpy.ones(10, "float32"))
    submitted(f"{name}.warm", warm).wait()
    if rank == size - 1:
        hvd.join()
        return
    small = [DeviceArray(numpy.full(10 + index, rank + 1.0, "float32")) for index in range(5)]
    large = DeviceArray(numpy.full(LARGE, rank + 1.0, "float32"))
    _native.wait_all([submitted(f"{name}.{index}", each) for index, each in enumerate([*small, large])])
    expected = (size - 1) * size / 2
    assert all((each.read() == expected).all() for each in [*small, large])
    hvd.join()


def test_a_tensor_whose_address_is_not_aligned_is_refused_and_the_next_operation_goes_on(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    whole = DeviceArray(numpy.zeros(40, "uint8"))
    askew = Region(whole.address + 1, whole.device, "float32", (4,), whole)
    with pytest.raises(ValueError, match=r"its address is not a multiple of 4 bytes"):
        submitted(f"{name}.askew", askew)
    array = DeviceArray(numpy.full(10, rank + 1.0, "float32"))
    submitted(name, array).wait()
    assert (array.read() == size * (size + 1) / 2).all()


@needs_stand_in
def test_a_rank_that_joins_early_costs_no_thread_for_each_operation(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    hvd.shutdown()
    hvd.init()
    if rank != size - 1:
        before = len(os.listdir("/proc/self/task"))
        for index in range(40):
            array = DeviceArray(numpy.full(10, rank + 1.0, "float32"))
            submitted(f"{name}.{index}", array).wait()
            assert (array.read() == (size - 1) * size / 2).all()
        assert len(os.listdir("/proc/self/task")) <= before + 8
    hvd.join()


def test_overlapping_process_sets_do_not_wait_for_each_other_in_a_circle(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    """Each rank submits the tensors of its sets in an order of its own, many at a time: messages about two sets are
    then handled in different orders on the ranks."""
    hvd.shutdown()
    pairs = sorted({tuple(sorted({each, (each + 1) % size})) for each in range(size)})
    sets = [hvd.ProcessSet(list(pair)) for pair in pairs if len(pair) < size]
    hvd.init(process_sets=sets)
    members = {0: range(size), **{each.process_set_id: each.ranks for each in sets}}
    own = [set_id for set_id, ranks in members.items() if rank in ranks]
    tensors = [(set_id, index) for set_id in own for index in range(12)]
    arrays = {key: DeviceArray(numpy.full(10, rank + 1.0, "float32")) for key in tensors}
    order = numpy.random.default_rng(rank)
    for _ in range(30):
        for array in arrays.values():
            array.write(numpy.full(10, rank + 1.0, "float32"))
        keys = [tensors[position] for position in order.permutation(len(tensors))]
        _native.wait_all([submitted(f"{name}.{key[0]}.{key[1]}", arrays[key], set_id=key[0]) for key in keys])
        for (set_id, _), array in arrays.items():
            assert (array.read() == sum(member + 1.0 for member in members[set_id])).all()
    hvd.shutdown()
