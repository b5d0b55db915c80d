"""Tensors in GPU memory: order with the caller's streams, release, and what is refused. With the stand-in GPUs,
or with real ones (see device_arrays.py).

Other files test that operations have the right results, with the plugin `on_devices`.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from typing import Any, List

import farandole.numpy as hvd
import numpy
import pytest
from device_arrays import COUNT, OWN, DeviceArray, Stream, call, driver, needs_stand_in, needs_two_devices, use
from farandole import _native
from farandole.common import job
from farandole.common.exceptions import HorovodInternalError

SUM = 1
ALLREDUCE, ALLGATHER, BROADCAST, REDUCESCATTER = 0, 1, 2, 6
OTHER = (OWN + 1) % max(1, COUNT)
"""A GPU that is not this rank's, if there is one."""
LARGE = 3_000_001
"""Elements of a tensor that moves in several chunks."""
SYNCHRONIZING = ("cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize", "cuStreamQuery", "cuEventQuery")

_reduce = _native.Request(ALLREDUCE, "allreduce", SUM)
_host_function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def allreduce(name: str, array: Any, output: Any = None) -> Any:
    return job.runtime.submit(_reduce, name, array, array if output is None else output, 0)


def float32(count: int, value: float) -> numpy.ndarray:
    return numpy.full(count, value, "float32")


class Gate:
    """Work of a stream that ends when the test opens the gate."""

    def __init__(self, stream: Stream) -> None:
        self._opened = threading.Event()
        # ctypes must keep the function as long as the stream may call it.
        self._function = _host_function(lambda _: self._opened.wait(60) and None)
        call("cuLaunchHostFunc", stream.handle, self._function, None)

    def open(self) -> None:
        self._opened.set()


def total(size: int) -> float:
    """The sum over all ranks, each of which adds its number, counted from 1."""
    return size * (size + 1) / 2


@pytest.mark.parametrize("count", [1, 1000, LARGE])
@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "apart"])
def test_the_result_is_in_the_output_when_the_stream_comes_to_it(
    count: int, in_place: bool, name: str, rank: int, size: int, stream: Stream
) -> None:
    array = DeviceArray(float32(count, rank + 1.0))
    output = array if in_place else DeviceArray(float32(count, -1.0))
    allreduce(name, array, output).wait()
    assert (output.read() == total(size)).all()
    assert (array.read() == (total(size) if in_place else rank + 1.0)).all()


def test_an_operation_waits_for_the_work_that_its_stream_was_given_before(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    array = DeviceArray(float32(1000, -1.0))
    gate = Gate(stream)
    array.write(float32(1000, rank + 1.0))
    handle = allreduce(name, array)
    gate.open()
    handle.wait()
    assert (array.read() == total(size)).all()


def test_many_tensors_of_one_stream_are_right(name: str, rank: int, size: int, stream: Stream) -> None:
    arrays = [DeviceArray(float32(1 + index % 7, rank + 1.0)) for index in range(200)]
    for _ in range(3):
        handles = [allreduce(f"{name}.{index}", each) for index, each in enumerate(arrays)]
        _native.wait_all(handles)
    expected = total(size) * size**2
    assert all((each.read() == expected).all() for each in arrays)


def test_arrays_are_kept_until_the_device_has_finished_with_them(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    array = DeviceArray(float32(1000, 1.0))
    kept = weakref.ref(array)
    gate = Gate(stream)
    handle = allreduce(name, array)
    del array, handle
    assert kept() is not None
    gate.open()
    allreduce(f"{name}.behind", DeviceArray(float32(1, 1.0))).wait()
    call("cuCtxSynchronize")
    # Each operation lets go of the arrays that were released before it.
    for turn in itertools.count():
        is_gone = DeviceArray(float32(1, float(kept() is None)))
        allreduce(f"{name}.next.{turn}", is_gone).wait()
        if is_gone.read()[0] == size:
            break


def test_a_stream_may_be_destroyed_right_after_the_submission(name: str, rank: int, size: int) -> None:
    stream = Stream()
    with stream:
        array = DeviceArray(float32(1000, rank + 1.0))
        handle = allreduce(name, array)
    stream.destroy()
    handle.wait()
    assert (array.read() == total(size)).all()


@needs_stand_in
def test_a_step_makes_no_call_that_waits_for_the_device(name: str, rank: int, size: int, stream: Stream) -> None:
    arrays = [DeviceArray(float32(1000, 1.0)) for _ in range(8)]

    def step() -> None:
        _native.wait_all([allreduce(f"{name}.{index}", each) for index, each in enumerate(arrays)])

    def waiting_calls() -> List[int]:
        return [driver.fakeCalls(function.encode()) for function in SYNCHRONIZING]

    step()
    before = waiting_calls()
    for _ in range(5):
        step()
    assert waiting_calls() == before


@needs_stand_in
def test_a_tensor_that_is_its_own_result_needs_nothing_of_the_device(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    hvd.shutdown()
    sets = [hvd.ProcessSet([member]) for member in range(size)]
    hvd.init(process_sets=sets)
    own = sets[rank].process_set_id
    array = DeviceArray(float32(1000, rank + 1.0))

    def of_set(scale: float = 1.0) -> Any:
        request = _native.Request(ALLREDUCE, "allreduce", SUM, prescale=scale)
        return job.runtime.submit(request, name, array, array, own)

    of_set().wait()
    work = ("cuStreamWriteValue32", "cuMemcpyAsync", "cuLaunchKernel", "cuStreamWaitEvent")
    before = [driver.fakeCalls(function.encode()) for function in work]
    for _ in range(3):
        handle = of_set()
        assert handle.settled()
        handle.wait()
    assert [driver.fakeCalls(function.encode()) for function in work] == before
    assert (array.read() == rank + 1.0).all()
    # Another stream waits for the tensor.
    gate = Gate(stream)
    array.write(float32(1000, rank + 1.0))
    handle = of_set()
    with Stream() as other:
        handle.wait()
        gate.open()
        assert (array.read() == rank + 1.0).all()
    assert driver.fakeCalls(b"cuStreamWaitEvent") == before[-1] + 1
    other.destroy()
    of_set(2.0).wait()
    of_set().wait()
    assert (array.read() == 2 * (rank + 1.0)).all()
    with pytest.raises(ValueError, match="is not in memory of GPU"):
        values = float32(10, 1.0)
        job.runtime.submit(_reduce, name, (values.ctypes.data, 8, values.shape, values, OWN, 0), None, own)


def test_managed_memory_is_taken(name: str, rank: int, size: int, stream: Stream) -> None:
    array = DeviceArray(float32(1000, rank + 1.0), is_managed=True)
    allreduce(name, array).wait()
    assert (array.read() == total(size)).all()


@needs_two_devices
def test_ranks_may_use_different_devices(name: str, rank: int, size: int) -> None:
    device = rank % COUNT
    with Stream(device) as stream:
        array = DeviceArray(float32(1000, rank + 1.0), device)
        allreduce(name, array).wait()
        assert (array.read() == total(size)).all()
    stream.destroy()


@needs_two_devices
def test_tensors_of_two_devices_of_a_rank_are_right(name: str, rank: int, size: int) -> None:
    streams = [Stream(device) for device in range(2)]
    arrays, handles = [], []
    for index in range(20):
        device = index % 2 if rank == 0 else 0
        use(device)
        with streams[device]:
            arrays.append((device, DeviceArray(float32(100, rank + 1.0), device)))
            handles.append(allreduce(f"{name}.{index}", arrays[-1][1]))
    for (device, array), handle in zip(arrays, handles):
        use(device)
        with streams[device]:
            handle.wait()
            assert (array.read() == total(size)).all()


@needs_two_devices
def test_a_name_may_move_between_host_and_device_and_between_devices(name: str, rank: int, size: int) -> None:
    for device in (0, -1, 1, 1, 0):
        if device < 0:
            values = float32(10, rank + 1.0)
            allreduce(name, (values.ctypes.data, 8, values.shape, values)).wait()
            assert (values == total(size)).all()
            continue
        use(device)
        with Stream(device) as stream:
            array = DeviceArray(float32(10, rank + 1.0), device)
            allreduce(name, array).wait()
            assert (array.read() == total(size)).all()
        stream.destroy()


def test_rows_are_gathered_from_devices_into_host_memory(name: str, rank: int, size: int, stream: Stream) -> None:
    array = DeviceArray(numpy.full((rank + 1, 3), rank, "int64"))
    handle = job.runtime.submit(_native.Request(ALLGATHER, "allgather"), name, array, None, 0)
    handle.wait()
    expected = [row for each in range(size) for row in [[each] * 3] * (each + 1)]
    assert handle.array().view("int64").reshape(-1, 3).tolist() == expected


def test_a_segment_is_scattered_into_device_memory(name: str, rank: int, size: int, stream: Stream) -> None:
    array = DeviceArray(numpy.arange(2 * size, dtype="float64").reshape(size, 2) + rank)
    output = DeviceArray(numpy.zeros((1, 2)))
    job.runtime.submit(_native.Request(REDUCESCATTER, "reducescatter"), name, array, output, 0).wait()
    ranks = sum(range(size))
    assert output.read().tolist() == [[size * 2.0 * rank + ranks, size * (2.0 * rank + 1) + ranks]]


@pytest.mark.parametrize("in_place", [True, False], ids=["in place", "apart"])
def test_a_root_sends_its_tensor_to_all_devices(
    in_place: bool, name: str, rank: int, size: int, stream: Stream
) -> None:
    root = size - 1
    array = DeviceArray(float32(LARGE, rank))
    output = array if in_place else DeviceArray(float32(LARGE, -1.0))
    request = _native.Request(BROADCAST, "broadcast", SUM, root)
    job.runtime.submit(request, name, array, output, 0).wait()
    assert (output.read() == root).all()


# ---- what is refused ----


def test_memory_of_the_host_on_one_rank_and_of_a_gpu_on_another_is_a_mismatch(
    name: str, rank: int, size: int, stream: Stream
) -> None:
    if size == 1:
        pytest.skip("needs two ranks")
    values = float32(10, 1.0)
    on_host = (values.ctypes.data, 8, values.shape, values)
    with pytest.raises(HorovodInternalError, match="kinds of memory differ: rank 0 has host memory, rank 1 has GPU"):
        allreduce(name, on_host if rank == 0 else DeviceArray(values)).wait()
    # The name is free again, and the job goes on.
    array = DeviceArray(float32(10, rank + 1.0))
    allreduce(name, array).wait()
    assert (array.read() == total(size)).all()


def test_memory_that_is_not_the_device_s_is_refused_where_it_is_submitted(name: str, rank: int, stream: Stream) -> None:
    values = float32(10, 1.0)
    claimed = (values.ctypes.data, 8, values.shape, values, OWN, 0)
    with pytest.raises(ValueError, match=rf"{name}: .*GPU {OWN}"):
        allreduce(name, claimed)
    array = DeviceArray(values)
    nowhere = array.at(COUNT)
    with pytest.raises(ValueError, match=f"there is no GPU {COUNT}"):
        allreduce(name, nowhere)
    with pytest.raises(ValueError, match=rf"{name}: the output: .*GPU {OWN}"):
        allreduce(name, array, claimed)
    allreduce(name, array).wait()


@needs_two_devices
def test_memory_of_another_device_is_refused_where_it_is_submitted(name: str, rank: int, stream: Stream) -> None:
    on_other = DeviceArray(float32(10, 1.0), OTHER)
    with pytest.raises(ValueError, match=rf"{name}: .*GPU {OTHER}"):
        allreduce(name, on_other.at(OWN))


@needs_two_devices
def test_a_group_is_on_one_device(name: str, rank: int, stream: Stream) -> None:
    arrays = [DeviceArray(float32(10, 1.0), device) for device in (OWN, OTHER)]
    with pytest.raises(ValueError, match="all tensors of a group must be on the same device"):
        job.runtime.submit_group(_reduce, name, arrays, arrays, 0)
    arrays[1] = DeviceArray(float32(20, 1.0))
    for handle in job.runtime.submit_group(_reduce, name, arrays, arrays, 0):
        handle.wait()


def test_a_stream_that_is_captured_takes_no_operation(name: str, rank: int, size: int, stream: Stream) -> None:
    array = DeviceArray(float32(10, rank + 1.0))
    stream.synchronize()
    call("cuStreamBeginCapture_v2", stream.handle, 2)  # does not restrict other calls
    try:
        with pytest.raises(NotImplementedError, match=f"{name}: .*captured"):
            allreduce(name, array)
    finally:
        graph = ctypes.c_void_p()
        call("cuStreamEndCapture", stream.handle, ctypes.byref(graph))
    allreduce(name, array).wait()
    assert (array.read() == total(size)).all()
