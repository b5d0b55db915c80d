"""A pytest plugin (`-p on_devices`): tensors and arrays of the tests move from and to the memory of a GPU, which is
the one of this rank (``device_arrays.OWN``): a stand-in, or with STAND_IN_DRIVER=none a real one.

The tests stay as they are. Each array that they submit in host memory is copied to a GPU first, on a stream that nobody
waits for, and submitted from there; its results are copied back after the operation. So the whole path of GPU tensors
runs, from the points at which they are ready to their release, with the tests' own expectations of the results.
"""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any, List, Optional, Sequence, Tuple

import numpy
from device_arrays import BFLOAT16, OWN, DeviceArray, Stream, use
from farandole import _native
from farandole.common import job

# The types of arrays by the runtime's numbers. NumPy has no bfloat16.
_TYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "uint16", "float32", "float64", "bool")
_BFLOAT16 = 7


def _described(array: Any) -> Tuple[int, int, Tuple[int, ...]]:
    """The address, the number of the type and the shape of an array as the runtime takes it."""
    if isinstance(array, tuple):
        return array[0], array[1], array[2]
    from farandole.torch.dtypes import NUMBERS

    return array.data_ptr(), NUMBERS[array.dtype], tuple(array.shape)


def _can_move(array: Any) -> bool:
    """Whether the runtime would take it. All else is left to the runtime, which says what is wrong."""
    if isinstance(array, tuple):
        return True
    import torch
    from farandole.torch.dtypes import NUMBERS

    return (
        isinstance(array, torch.Tensor)
        and array.layout == torch.strided
        and array.device.type == "cpu"
        and array.dtype in NUMBERS
        and array.is_contiguous()
    )


class Mirror:
    """An array of a test in host memory, and its copy on a GPU."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.owner = array[3] if isinstance(array, tuple) else array
        address, number, shape = _described(array)
        dtype = numpy.dtype(_TYPES[number])
        count = int(numpy.prod(shape))
        if count:
            block = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
            self.values = numpy.ndarray(shape, dtype, memoryview(block))
        else:
            self.values = numpy.empty(shape, dtype)
        self.on_device = DeviceArray(self.values.copy(), OWN, BFLOAT16 if number == _BFLOAT16 else "")

    def bring_back(self) -> None:
        if self.values.size:
            numpy.copyto(self.values, self.on_device.read())


class MirroredHandle:
    """A handle of the runtime, whose result is copied back when it is waited for."""

    def __init__(self, handle: Any, kept: Any, target: Optional[Mirror], stream: Stream) -> None:
        self._handle = handle
        self._kept = kept
        self._target = target
        self._output = None if target is None else target.owner
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def wait(self) -> None:
        use(OWN)
        with self._stream:
            self._handle.wait()
            if self._target is not None:
                self._target.bring_back()
        self._target = None

    def wait_for(self, seconds: float) -> None:
        self._handle.wait_for(seconds)
        self.wait()

    def finish(self) -> Any:
        self.wait()
        return self._handle.finish() if self._output is None else self._output


_wait_all = _native.wait_all


def wait_all(handles: List[Any]) -> None:
    """Waits for all, mirrored or not. Raises the error of the first in the list that failed."""
    problem: Optional[BaseException] = None
    for handle in handles:
        try:
            if isinstance(handle, MirroredHandle):
                handle.wait()
            else:
                _wait_all([handle])
        except BaseException as failure:  # noqa: BLE001
            problem = problem or failure
    if problem is not None:
        raise problem


class RuntimeOnDevices:
    """The runtime of the job, which submits arrays from the memory of a GPU."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._streams = [Stream() for _ in range(2)]
        self._submitted = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    def _stream(self) -> Stream:
        self._submitted += 1
        return self._streams[self._submitted % len(self._streams)]

    def submit(
        self, request: Any, name: Any, tensor: Any, output: Any, set_id: Any, splits: Any = None, absent: bool = False
    ) -> Any:
        if not _can_move(tensor) or not (output is None or _can_move(output)):
            return self._runtime.submit(request, name, tensor, output, set_id, splits, absent)
        use(OWN)
        stream = self._stream()
        with stream:
            source = Mirror(tensor)
            target = None if output is None else source if output is tensor else Mirror(output)
            on_device = None if target is None else target.on_device
            handle = self._runtime.submit(request, name, source.on_device, on_device, set_id, splits, absent)
        return MirroredHandle(handle, source, target, stream)

    def submit_and_wait(self, request: Any, name: Any, tensor: Any, output: Any, set_id: Any) -> Any:
        return self.submit(request, name, tensor, output, set_id).finish()

    def submit_pending(self, pending: Any, request: Any, name: Any, tensor: Any, output: Any, set_id: Any) -> Any:
        return pending.add(self.submit(request, name, tensor, output, set_id))

    def submit_group(
        self, request: Any, name: Any, tensors: Sequence[Any], outputs: Any, set_id: Any, absent: Any = None
    ) -> List[Any]:
        tensors = list(tensors)
        targets_given = tensors if outputs is None else list(outputs)
        if not all(_can_move(each) for each in [*tensors, *targets_given]):
            return list(self._runtime.submit_group(request, name, tensors, outputs, set_id, absent))
        use(OWN)
        stream = self._stream()
        with stream:
            sources = [Mirror(each) for each in tensors]
            targets: List[Optional[Mirror]] = [None] * len(tensors)
            if outputs is not None:
                targets = [
                    source if output is source.array else Mirror(output) for source, output in zip(sources, outputs)
                ]
            on_device = None if outputs is None else [each.on_device for each in targets if each is not None]
            inputs = [each.on_device for each in sources]
            handles = self._runtime.submit_group(request, name, inputs, on_device, set_id, absent)
        return [MirroredHandle(*each, stream) for each in zip(handles, sources, targets)]


class _Job(ModuleType):
    """The module `farandole.common.job`, whose runtime moves arrays of GPUs for all modules but itself."""

    @property
    def runtime(self) -> Any:
        started = self.__dict__["runtime"]
        if not isinstance(started, _native.Runtime):
            return started
        made = self.__dict__.get("_on_devices")
        if made is None or made._runtime is not started:
            made = self.__dict__["_on_devices"] = RuntimeOnDevices(started)
        return made

    @runtime.setter
    def runtime(self, started: Any) -> None:
        self.__dict__["runtime"] = started


job.__class__ = _Job
_native.wait_all = wait_all
