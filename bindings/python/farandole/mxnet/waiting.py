"""Submits MXNet arrays by calls that wait, for operations whose result has a size that is not known in advance."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Any, Iterator, List, Optional, Sequence

import mxnet
from mxnet.base import MXNetError
from mxnet.ndarray import NDArray

from farandole import _native
from farandole.common import job
from farandole.common.arguments import member_name, require_name
from farandole.common.exceptions import HorovodInternalError
from farandole.common.process_sets import ProcessSet
from farandole.mxnet.arguments import dtype_number, on_gpu, require_dense, require_job, set_number
from farandole.mxnet.errors import make_error

_LENT_BY_DLPACK = (0, 1, 4, 5, 6, 8, 9)
"""Numbers of types that MXNet takes over without a copy."""


def gather(
    request: Any, name: Optional[str], array: NDArray, process_set: ProcessSet, splits: Optional[List[int]] = None
) -> Any:
    """Waits for an array, submits it and waits for the result. Returns the handle. ``splits``: rows for each rank."""
    require_job()
    require_name(request.prefix, name)
    number = set_number(request.prefix, process_set)
    described = _describe(request.prefix, name, array)
    with mxnet_errors():
        handle = job.runtime.submit(request, name, described, None, number, splits)
        handle.wait()
    return handle


def gather_group(request: Any, name: Optional[str], arrays: Sequence[NDArray], process_set: ProcessSet) -> List[Any]:
    """The same for several arrays, which become ready together, all or none."""
    require_job()
    require_name(request.prefix, name)
    number = set_number(request.prefix, process_set)
    described = [
        _describe(request.prefix, member_name(name, index, len(arrays)), each) for index, each in enumerate(arrays)
    ]
    with mxnet_errors():
        handles: List[Any] = job.runtime.submit_group(request, name, described, None, number)
        _native.wait_all(handles)
    return handles


@contextlib.contextmanager
def mxnet_errors() -> Iterator[None]:
    """Errors inside become ``MXNetError``, of a class that is also the interface's where there is one."""
    try:
        yield
    except HorovodInternalError as problem:
        # A process set that failed alone has lost no worker.
        raise make_error(None if problem.process_set else problem.kind, str(problem)) from problem
    except ValueError as problem:
        raise MXNetError(str(problem)) from problem


def _describe(operation: str, name: Optional[str], array: NDArray) -> Any:
    number = dtype_number(operation, name, array)
    require_dense(operation, name, array)
    host = array.as_in_context(mxnet.cpu()) if on_gpu([array]) else array
    host.wait_to_read()
    address = ctypes.c_void_p()
    mxnet.base.check_call(mxnet.base._LIB.MXNDArrayGetData(host.handle, ctypes.byref(address)))
    return address.value or 0, number, tuple(array.shape), host


def received(handle: Any, source: NDArray) -> NDArray:
    """The result of an operation, as an array of the same kind and on the same device as ``source``."""
    if dtype_number("", None, source) in _LENT_BY_DLPACK and 0 not in source.shape[1:] and sum(handle.first_dims) > 0:
        array = mxnet.nd.from_dlpack(handle.dlpack())
    else:
        array = _copied(handle, source)
    array = array.as_in_context(source.context)
    return array if type(array) is type(source) else array.as_np_ndarray()


def _copied(handle: Any, source: NDArray) -> NDArray:
    content = handle.array()
    with mxnet.util.np_shape(True):  # here an extent of 0 means no elements, rather than an unknown extent
        array = mxnet.nd.empty(content.shape, dtype=source.dtype)
        if content.size:
            address = content.ctypes.data_as(ctypes.c_void_p)
            size = ctypes.c_size_t(content.size)
            mxnet.base.check_call(mxnet.base._LIB.MXNDArraySyncCopyFromCPU(array.handle, address, size))
    return array
