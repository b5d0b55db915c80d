"""Arrays whose stream is busy, is destroyed or is captured, and arrays that are dropped after the submission."""

from __future__ import annotations

import ctypes
from typing import Any, Iterator

import farandole.numpy as hvd
import numpy
import pytest
from device_arrays import DeviceArray, Stream, call, driver
from submitting import allreduce, float32, total

NOT_READY = 600
"""CUDA's error of an event that the GPU has not reached."""
COUNT = 100_000
"""Elements of an array that the last link of a chain writes."""
LINK_BYTES = 64 << 20
MOST_LINKS = 768
"""A driver that has this much work in a stream takes more without waiting."""
CAPTURE_ACTIVE, RELAXED = 1, 2


class Chain:
    """Work that keeps the GPU busy: links that fill memory, one behind the other, and copies between two buffers."""

    def __init__(self) -> None:
        self._buffers = [ctypes.c_void_p() for _ in range(2)]
        for buffer in self._buffers:
            call("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(LINK_BYTES))
        self._end = ctypes.c_void_p()
        call("cuEventCreate", ctypes.byref(self._end), 2)  # without times

    def append_to(self, stream: Stream, links: int) -> None:
        size = ctypes.c_size_t(LINK_BYTES)
        source, target = self._buffers
        for link in range(links):
            if link % 2 == 0:
                call("cuMemsetD8Async", source, link % 256, size, stream.handle)
            else:
                call("cuMemcpyAsync", target, source, size, stream.handle)

    def mark_end(self, stream: Stream) -> None:
        call("cuEventRecord", self._end, stream.handle)

    def is_at_end(self) -> bool:
        result = driver.cuEventQuery(self._end)
        assert result in (0, NOT_READY), f"cuEventQuery failed with CUDA's error {result}"
        return result == 0

    def free(self) -> None:
        call("cuEventDestroy_v2", self._end)
        for buffer in self._buffers:
            call("cuMemFree_v2", buffer)


@pytest.fixture
def chain(stream: Stream) -> Iterator[Chain]:
    made = Chain()
    yield made
    stream.synchronize()
    made.free()


def on_all_ranks(name: str, value: bool) -> bool:
    return bool(hvd.allreduce(numpy.array([value], "int32"), name=name, op=hvd.Min)[0])


def test_a_submission_returns_while_its_stream_is_busy(
    name: str, rank: int, size: int, stream: Stream, chain: Chain
) -> None:
    links = 16
    returned_early = False
    while not returned_early and links <= MOST_LINKS:
        array = DeviceArray(float32(COUNT, -1.0))
        values = DeviceArray(float32(COUNT, rank + 1.0))
        chain.append_to(stream, links)
        copied = ctypes.c_size_t(4 * COUNT)
        call("cuMemcpyAsync", ctypes.c_void_p(array.address), ctypes.c_void_p(values.address), copied, stream.handle)
        chain.mark_end(stream)
        handle = allreduce(f"{name}.{links}", array)
        was_busy = not chain.is_at_end()
        handle.wait()
        assert (array.read() == total(size)).all()
        returned_early = on_all_ranks(f"{name}.busy.{links}", was_busy)
        links *= 2  # the GPU may have been faster than the submission
    assert returned_early, f"the chain of {links // 2} links had always ended when the submission returned"


def test_an_array_may_be_dropped_right_after_its_submission(
    name: str, rank: int, size: int, stream: Stream, chain: Chain
) -> None:
    output = DeviceArray(float32(COUNT, -1.0))
    array = DeviceArray(float32(COUNT, rank + 1.0))
    chain.append_to(stream, 8)
    handle = allreduce(name, array, output)
    del array
    # If the memory were free already, this array could get it, and its values would be those that are added.
    other = DeviceArray(float32(COUNT, 1000.0))
    handle.wait()
    assert (output.read() == total(size)).all()
    assert (other.read() == 1000.0).all()


def test_an_array_and_its_handle_may_both_be_dropped(
    name: str, rank: int, size: int, stream: Stream, chain: Chain
) -> None:
    for index in range(20):
        chain.append_to(stream, 1)
        allreduce(f"{name}.{index}", DeviceArray(float32(COUNT, 1.0)))
    array = DeviceArray(float32(COUNT, rank + 1.0))
    allreduce(name, array).wait()
    assert (array.read() == total(size)).all()


def test_a_stream_may_be_destroyed_right_after_the_submission(
    name: str, rank: int, size: int, stream: Stream, chain: Chain
) -> None:
    short_lived = Stream()
    with short_lived:
        array = DeviceArray(float32(COUNT, -1.0))
        chain.append_to(short_lived, 8)
        array.write(float32(COUNT, rank + 1.0))
        handle = allreduce(name, array)
    short_lived.destroy()
    handle.wait()
    assert (array.read() == total(size)).all()


def capture_status(stream: Stream) -> int:
    status = ctypes.c_int()
    call("cuStreamIsCapturing", stream.handle, ctypes.byref(status))
    return status.value


def destroy_graph(graph: Any) -> None:
    """The stand-in driver keeps no graphs."""
    if graph.value is not None:
        call("cuGraphDestroy", graph)


@pytest.mark.parametrize("mode", [0, 1, RELAXED], ids=["global", "thread-local", "relaxed"])
def test_a_submission_during_a_capture_is_refused_and_the_capture_stays_valid(
    mode: int, name: str, rank: int, size: int, stream: Stream
) -> None:
    array = DeviceArray(float32(10, rank + 1.0))
    allreduce(f"{name}.before", array).wait()
    stream.synchronize()
    call("cuStreamBeginCapture_v2", stream.handle, mode)
    graph = ctypes.c_void_p()
    try:
        with pytest.raises(NotImplementedError, match="captured"):
            allreduce(name, array)
        assert capture_status(stream) == CAPTURE_ACTIVE
    finally:
        result = driver.cuStreamEndCapture(stream.handle, ctypes.byref(graph))
    assert result == 0, f"the capture has become invalid: CUDA's error {result}"
    destroy_graph(graph)
    allreduce(name, array).wait()
    assert (array.read() == total(size) * size).all()
