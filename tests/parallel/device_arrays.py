"""Arrays in the memory of GPUs, which they offer to the runtime as PyTorch's CUDA tensors do: by DLPack's exchange
table, with the current stream of the thread.

Importing this module loads the driver, so it must come before the first GPU tensor of the process. STAND_IN_DRIVER
names the library that stands in for NVIDIA's driver (cuda/fake); without it, it is that of build/. With the value
`none` no library stands in, and the driver is NVIDIA's own, libcuda.so.1. Tests that call other functions than NVIDIA's
driver has (`fake…`), or set the variables of the stand-in (FARANDOLE_FAKE_…), are marked with ``needs_stand_in``.
"""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy
import pytest

NVIDIA = "none"
"""The value of STAND_IN_DRIVER for NVIDIA's own driver."""
_BUILT = Path(__file__).resolve().parents[2] / "build" / "cuda" / "fake" / "driver" / "libcuda.so.1"


def _load() -> ctypes.CDLL:
    named = os.environ.get("STAND_IN_DRIVER") or str(_BUILT)
    if named == NVIDIA:
        try:
            return ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
        except OSError as problem:
            pytest.skip(f"there is no NVIDIA driver: {problem}", allow_module_level=True)
    if not Path(named).exists():
        pytest.skip(f"there is no {named}: it was built without CUDA's headers", allow_module_level=True)
    return ctypes.CDLL(named, ctypes.RTLD_GLOBAL)


def _load_nccl() -> ctypes.CDLL:
    """The stand-in for NCCL. The runtime will use it, too: NVIDIA's does not work with the stand-in for the driver."""
    folder = Path(os.environ.get("STAND_IN_DRIVER") or _BUILT).parents[1] / "nccl"
    os.environ["HOROVOD_NCCL_LIB"] = str(folder)
    return ctypes.CDLL(str(folder / "libnccl.so.2"), ctypes.RTLD_LOCAL)


driver = _load()
IS_STAND_IN = hasattr(driver, "fakeCalls")
nccl: Any = _load_nccl() if IS_STAND_IN else None
"""The stand-in for NCCL, with its functions for tests; None with NVIDIA's driver."""

CUDA = 2
"""The kind of memory, by DLPack's number."""
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's codes of NumPy's kinds."""
BFLOAT16 = "bfloat16"

_current = threading.local()


def call(function: str, *arguments: Any) -> None:
    result = getattr(driver, function)(*arguments)
    assert result == 0, f"{function} failed with CUDA's error {result}"


def _count() -> int:
    count = ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


COUNT = _count()
"""Number of GPUs."""
OWN = int(os.environ.get("HOROVOD_LOCAL_RANK", "0")) % max(1, COUNT)
"""The GPU of this rank. Ranks of a host share GPUs if there are more ranks than GPUs."""
needs_stand_in = pytest.mark.skipif(not IS_STAND_IN, reason="needs functions that only the stand-in driver has")
needs_two_devices = pytest.mark.skipif(COUNT < 2, reason="needs two GPUs")

_contexts: Dict[int, ctypes.c_void_p] = {}


def _context(device: int) -> ctypes.c_void_p:
    """The primary context of a device, which takes memory of it from the first call on."""
    if device not in _contexts:
        made = ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(made), device)
        _contexts[device] = made
    return _contexts[device]


def use(device: int) -> None:
    """Makes a device current in this thread."""
    call("cuCtxSetCurrent", _context(device))


class Stream:
    """A stream of a device, current in this thread while it is a context."""

    def __init__(self, device: int = OWN) -> None:
        use(device)
        self.handle = ctypes.c_void_p()
        call("cuStreamCreate", ctypes.byref(self.handle), 1)  # does not wait for the default stream
        self._before: Optional[Stream] = None

    def synchronize(self) -> None:
        call("cuStreamSynchronize", self.handle)

    def destroy(self) -> None:
        call("cuStreamDestroy_v2", self.handle)

    def __enter__(self) -> Stream:
        self._before = getattr(_current, "stream", None)
        _current.stream = self
        return self

    def __exit__(self, *_: object) -> None:
        _current.stream = self._before


def current_handle() -> Optional[int]:
    """The current stream of this thread; None for the default stream."""
    stream = getattr(_current, "stream", None)
    return stream.handle.value if stream is not None else None


# ---- DLPack's exchange table


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_LOOK = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_View))
_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class _Table(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("export_managed", ctypes.c_void_p),
        ("import_managed", ctypes.c_void_p),
        ("look", _LOOK),
        ("current_stream", _STREAM),
    ]


def _look(offered: Any, view: Any) -> int:
    array = getattr(offered, "on_device", offered)
    found = view.contents
    found.data = array.address
    found.device = _Device(array.kind, array.device)
    found.ndim = len(array.shape)
    found.dtype = array.dlpack_type
    found.shape = array.extents
    found.strides = None
    found.byte_offset = 0
    return 0


def _stream(kind: int, device: int, stream: Any) -> int:
    stream[0] = current_handle()
    return 0


_table = _Table(1, 3, None, None, None, None, _LOOK(_look), _STREAM(_stream))
_CAPSULE_NAME = b"dlpack_exchange_api"  # a capsule refers to it
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


exchange_capsule = _new_capsule(ctypes.addressof(_table), _CAPSULE_NAME, None)
"""For types whose objects are a ``DeviceArray``, or have one as ``on_device``."""


class Region:
    """Elements in device memory that `owner` owns, as the runtime sees them."""

    __dlpack_c_exchange_api__ = exchange_capsule

    def __init__(self, address: int, device: int, dtype: str, shape: Tuple[int, ...], owner: Any = None) -> None:
        self.address = address
        self.device = device
        self.kind = CUDA
        self.dtype = dtype
        self.shape = shape
        self.extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self._owner = owner
        if dtype == BFLOAT16:
            self.dlpack_type = _Type(4, 16, 1)
        else:
            plain = numpy.dtype(dtype)
            self.dlpack_type = _Type(_CODES[plain.kind], 8 * plain.itemsize, 1)


_EMBEDDED_BYTES = 64 << 10
"""Copies from the host up to this size are taken by the driver before the call returns. For larger ones NVIDIA's driver
may wait for the stream, unless they come from pinned memory."""


class DeviceArray(Region):
    """An array in device memory. ``values`` are copied to it on the current stream."""

    def __init__(self, values: Any, device: int = OWN, dtype: str = "", is_managed: bool = False) -> None:
        self._host = numpy.ascontiguousarray(values)
        self._sources: List[numpy.ndarray] = []  # streams of the stand-in may read them until they are done
        self._pinned: List[int] = []
        use(device)
        pointer = ctypes.c_void_p()
        size = ctypes.c_size_t(max(1, self._host.nbytes))
        if is_managed:
            call("cuMemAllocManaged", ctypes.byref(pointer), size, 1)
        else:
            call("cuMemAlloc_v2", ctypes.byref(pointer), size)
        assert pointer.value is not None
        super().__init__(pointer.value, device, dtype or str(self._host.dtype), numpy.shape(values))
        self.write(self._host)

    def at(self, device: int) -> Region:
        """The same addresses, as if they were memory of this device."""
        return Region(self.address, device, self.dtype, self.shape, self)

    def row(self, index: int) -> Region:
        """A part of a two-dimensional array, which keeps the whole."""
        bytes_of_row = self._host.nbytes // self.shape[0]
        return Region(self.address + index * bytes_of_row, self.device, self.dtype, self.shape[1:], self)

    def write(self, values: numpy.ndarray) -> None:
        """Replaces the values, behind the work that the current stream was given so far. Does not wait for it."""
        self._host = numpy.ascontiguousarray(values)
        if not self._host.nbytes:
            return
        source = self._host
        if self._host.nbytes > _EMBEDDED_BYTES:
            source = self._in_pinned_memory(self._host)
        self._sources.append(source)
        stream = ctypes.c_void_p(current_handle())
        call(
            "cuMemcpyHtoDAsync_v2",
            ctypes.c_void_p(self.address),
            ctypes.c_void_p(source.ctypes.data),
            self._nbytes(),
            stream,
        )

    def _in_pinned_memory(self, values: numpy.ndarray) -> numpy.ndarray:
        pointer = ctypes.c_void_p()
        call("cuMemHostAlloc", ctypes.byref(pointer), ctypes.c_size_t(values.nbytes), 0)
        assert pointer.value is not None
        self._pinned.append(pointer.value)
        copy = numpy.frombuffer((ctypes.c_char * values.nbytes).from_address(pointer.value), values.dtype)
        copy[:] = values.reshape(-1)
        return copy

    def read(self) -> numpy.ndarray:
        """The values, after the work that the current stream was given so far."""
        result = numpy.empty_like(self._host)
        stream = ctypes.c_void_p(current_handle())
        if result.nbytes:
            target = ctypes.c_void_p(result.ctypes.data)
            call("cuMemcpyDtoHAsync_v2", target, ctypes.c_void_p(self.address), self._nbytes(), stream)
        call("cuStreamSynchronize", stream)
        return result.reshape(self.shape)

    def _nbytes(self) -> ctypes.c_size_t:
        return ctypes.c_size_t(self._host.nbytes)

    def __del__(self) -> None:
        if getattr(self, "address", None) is None:
            return
        # Any thread may drop the last reference. Freeing device memory waits for work that uses it, so the pinned
        # memory comes behind.
        driver.cuCtxPushCurrent_v2(_contexts[self.device])
        driver.cuMemFree_v2(ctypes.c_void_p(self.address))
        for address in self._pinned:
            driver.cuMemFreeHost(ctypes.c_void_p(address))
        driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
