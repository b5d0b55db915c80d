"""The GPU as the rows see it. Each class has the same methods:

- `tensor(elements)`: float32 zeros
- `copy(target, source)`: one cuMemcpyAsync on the current stream
- `event()`: an object with `record()` and `query()`, and `seconds_between(begin, end)` of two of them
- `occupy(links)`: work that keeps the GPU busy for a while
- `synchronize()`: waits for all work of the current stream
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List

import device_arrays
import numpy
from device_arrays import DeviceArray, Stream, call, driver

NOT_READY = 600
"""CUDA's error of an event that the GPU has not reached."""
LINK_BYTES = 64 << 20


def _no_time(milliseconds: Any, begin: Any, end: Any) -> int:
    milliseconds.contents.value = 1.0
    return 0


def _no_memory(free: Any, total: Any) -> int:
    free.contents.value = total.contents.value = 1 << 30
    return 0


ONLY_HARDWARE: Dict[str, Callable[..., int]] = {"cuEventElapsedTime": _no_time, "cuMemGetInfo_v2": _no_memory}
"""Substitutes for functions of the driver that the stand-in lacks. Their figures mean nothing."""


def ask(function: str, *arguments: Any) -> None:
    """Calls the driver, or a substitute if the driver is a stand-in without this function."""
    if device_arrays.IS_STAND_IN and not hasattr(driver, function):
        assert ONLY_HARDWARE[function](*arguments) == 0
    else:
        call(function, *arguments)


class DriverEvent:
    """An event with a time, on the current stream of the device."""

    def __init__(self, stream: Stream) -> None:
        self.handle = ctypes.c_void_p()
        self._stream = stream
        call("cuEventCreate", ctypes.byref(self.handle), 0)

    def record(self) -> None:
        call("cuEventRecord", self.handle, self._stream.handle)

    def query(self) -> bool:
        result = driver.cuEventQuery(self.handle)
        assert result in (0, NOT_READY), f"cuEventQuery failed with CUDA's error {result}"
        return bool(result == 0)

    def __del__(self) -> None:
        driver.cuEventDestroy_v2(self.handle)


class DriverDevice:
    """A GPU over the driver's interface. Its tensors are the arrays of tests/parallel/device_arrays.py, and its stream
    is the current one of the thread."""

    def __init__(self, link_bytes: int = LINK_BYTES) -> None:
        self.stream = Stream()
        self.stream.__enter__()
        self._link = DeviceArray(numpy.zeros(link_bytes, "uint8"))

    def tensor(self, elements: int) -> DeviceArray:
        return DeviceArray(numpy.zeros(elements, "float32"))

    def copy(self, target: DeviceArray, source: DeviceArray) -> None:
        size = ctypes.c_size_t(4 * source.shape[0])
        addresses = (ctypes.c_void_p(array.address) for array in (target, source))
        call("cuMemcpyAsync", *addresses, size, self.stream.handle)

    def event(self) -> DriverEvent:
        return DriverEvent(self.stream)

    def seconds_between(self, begin: DriverEvent, end: DriverEvent) -> float:
        milliseconds = ctypes.c_float()
        ask("cuEventElapsedTime", ctypes.pointer(milliseconds), begin.handle, end.handle)
        return milliseconds.value / 1e3

    def occupy(self, links: int) -> None:
        link = ctypes.c_void_p(self._link.address)
        for _ in range(links):
            call("cuMemsetD8Async", link, 1, ctypes.c_size_t(self._link.shape[0]), self.stream.handle)

    def synchronize(self) -> None:
        self.stream.synchronize()


def memory_in_use() -> int:
    """Bytes of the memory of the current context's GPU."""
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    ask("cuMemGetInfo_v2", ctypes.pointer(free), ctypes.pointer(total))
    return total.value - free.value


class TorchDevice:
    """A GPU over PyTorch. `kind` is PyTorch's name of the device, and `runtime` is `torch.cuda` or what takes its place
    with host tensors."""

    def __init__(self, torch: Any, kind: str, runtime: Any, link_bytes: int = LINK_BYTES) -> None:
        self.torch = torch
        self.kind = kind
        self.runtime = runtime
        self._link = torch.zeros(link_bytes, dtype=torch.uint8, device=kind)

    def tensor(self, elements: int) -> Any:
        return self.torch.zeros(elements, device=self.kind)

    def tensors(self, sizes: tuple[int, ...]) -> List[Any]:
        return [self.tensor(elements) for elements in sizes]

    def copy(self, target: Any, source: Any) -> None:
        target.copy_(source)

    def event(self) -> Any:
        return self.runtime.Event(enable_timing=True)

    def seconds_between(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end)) / 1e3

    def occupy(self, links: int) -> None:
        for _ in range(links):
            self._link.zero_()

    def synchronize(self) -> None:
        self.runtime.synchronize()
