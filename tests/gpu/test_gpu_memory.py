"""Kinds of memory that a submission takes or refuses."""

from __future__ import annotations

import ctypes
import re

import pytest
from device_arrays import OWN, DeviceArray, Stream, call
from submitting import allreduce, float32, total

FLOAT32 = 8
"""The runtime's number of the type."""


@pytest.mark.parametrize("count", [1, 1000, 3_000_001])
def test_managed_memory_is_taken(count: int, name: str, rank: int, size: int, stream: Stream) -> None:
    array = DeviceArray(float32(count, rank + 1.0), is_managed=True)
    allreduce(name, array).wait()
    assert (array.read() == total(size)).all()


def test_host_memory_that_is_called_a_gpu_s_is_refused(name: str, rank: int, size: int, stream: Stream) -> None:
    values = float32(10, 1.0)
    claimed = (values.ctypes.data, FLOAT32, values.shape, values, OWN, 0)
    with pytest.raises(ValueError, match=rf"{re.escape(name)}: .*is not in memory of GPU {OWN}"):
        allreduce(name, claimed)
    array = DeviceArray(float32(10, rank + 1.0))
    allreduce(name, array).wait()
    assert (array.read() == total(size)).all()


def test_pinned_host_memory_that_is_called_a_gpu_s_is_refused(name: str, stream: Stream) -> None:
    pinned = ctypes.c_void_p()
    call("cuMemHostAlloc", ctypes.byref(pinned), ctypes.c_size_t(4096), 0)
    try:
        with pytest.raises(ValueError, match=rf"{re.escape(name)}: .*is host memory"):
            allreduce(name, (pinned.value, FLOAT32, (10,), None, OWN, 0))
    finally:
        call("cuMemFreeHost", pinned)


def test_a_tensor_that_is_longer_than_its_memory_is_refused(name: str, stream: Stream) -> None:
    array = DeviceArray(float32(10, 1.0))
    beyond = 1 << 40
    with pytest.raises(ValueError, match=rf"{re.escape(name)}: .*exceeds its memory of GPU {OWN}"):
        allreduce(name, (array.address, FLOAT32, (beyond,), array, OWN, 0))
