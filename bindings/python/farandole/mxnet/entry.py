"""How an MXNet array enters the runtime: as an operation of MXNet's dependency engine, or, where the size of what comes
out is known to nobody yet, by a call that waits.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence

import mxnet
import numpy
from mxnet.base import MXNetError
from mxnet.libinfo import find_lib_path
from mxnet.ndarray import NDArray

from farandole import _native
from farandole.common import job, kernels
from farandole.common.arguments import (
    head,
    kind,
    listed,
    member_name,
    require_name,
    require_process_set,
    wrong_dtype,
    wrong_dtype_remedy,
)
from farandole.common.exceptions import HorovodInternalError
from farandole.common.process_sets import ProcessSet
from farandole.mxnet.errors import error_from, make_error


class Request(ctypes.Structure):
    """What a call asks of all its arrays; struct farandole_mxnet_call of the kernels."""

    _fields_ = [
        ("operation", ctypes.c_int32),
        ("reduce_op", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("set", ctypes.c_uint32),
        ("prescale", ctypes.c_double),
        ("postscale", ctypes.c_double),
        ("priority", ctypes.c_int32),
    ]


def _attached() -> ctypes.CDLL:
    library = kernels.connect("mxnet")
    library.farandole_mxnet_attach.argtypes = [ctypes.c_char_p]
    library.farandole_mxnet_problem.restype = ctypes.c_char_p
    library.farandole_mxnet_push.argtypes = [
        ctypes.c_void_p,
        ctypes.c_size_t,
        ctypes.c_char_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]
    library.farandole_mxnet_like.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    library.farandole_mxnet_like.restype = ctypes.c_void_p
    library.farandole_mxnet_drain.argtypes = [ctypes.c_int64]
    if not library.farandole_mxnet_attach(os.fsencode(find_lib_path()[0])):
        raise ImportError(library.farandole_mxnet_problem().decode())
    return library


_library = _attached()
_push = _library.farandole_mxnet_push


class CallName(NamedTuple):
    """What a call is known by. ``name`` is the caller's; ranks match calls without one by their order."""

    prefix: str
    name: Optional[str]


def name_of(operation: str, name: Optional[str]) -> CallName:
    """What the core knows a call by."""
    require_name(operation, name)
    return CallName(f"horovod_{operation}", name)


@contextlib.contextmanager
def _named(request: Request, call: CallName) -> Iterator[str]:
    """The full name of a call. One without a name counts when the block ends well."""
    if call.name is not None:
        yield f"{call.prefix}.{call.name}"
        return
    yield job.runtime.unnamed(request.set, call.prefix)
    job.runtime.accepted_unnamed(request.set, call.prefix)


def set_number(operation: str, process_set: ProcessSet) -> int:
    """The number of a set that can be used."""
    require_process_set(operation, None, process_set)
    number = process_set.process_set_id
    if number is None:
        raise MXNetError(f"the process set of ranks {process_set.ranks} is not registered; see add_process_set()")
    if number < 0:
        raise MXNetError(str(process_set.gone))
    return number


def require_array(operation: str, name: Optional[str], array: Any) -> None:
    """``TypeError`` unless it is an array of MXNet."""
    if not isinstance(array, NDArray):
        raise TypeError(
            f"{head(operation, name)} takes an mxnet.nd.NDArray, not {kind(array)}; convert it with mxnet.nd.array(), "
            "or use farandole.numpy for NumPy arrays"
        )


def require_arrays(operation: str, name: Optional[str], arrays: Any) -> Sequence[NDArray]:
    """The arrays of a group; ``TypeError`` for anything but a list of arrays."""
    members = listed(operation, name, arrays)
    for index, each in enumerate(members):
        require_array(operation, member_name(name, index, len(members)), each)
    return members


def like(array: NDArray, rows: int = -1) -> NDArray:
    """A new array of any content, of the same type and on the same device; its first extent is ``rows`` if given."""
    handle = _library.farandole_mxnet_like(array.handle, rows)
    if not handle:
        raise MXNetError(_problem())
    return type(array)(ctypes.c_void_p(handle))


def _problem() -> str:
    return str(_library.farandole_mxnet_problem().decode(errors="replace"))


def push(request: Request, call: CallName, array: NDArray, output: NDArray) -> None:
    """Gives the engine an operation that writes ``output``, which may be ``array``. What fails later, who waits for
    the output is told.
    """
    _require_job()
    handle = array.handle
    target = handle if output is array else output.handle
    with _named(request, call) as name:
        if not _push(ctypes.byref(request), 1, _text(name), ctypes.byref(handle), ctypes.byref(target)):
            _refused(request, [name], [array], [output])


def push_group(request: Request, call: CallName, arrays: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
    """The same for several arrays, which become ready together, all or none."""
    _require_job()
    count = len(arrays)
    with _named(request, call) as name:
        _push_all(request, [f"{name}_{index}of{count}" for index in range(1, count + 1)], arrays, outputs)


def _push_all(request: Request, names: List[str], arrays: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
    handles = ctypes.c_void_p * len(names)
    sources = handles(*(each.handle for each in arrays))
    targets = handles(*(each.handle for each in outputs))
    text = b"\0".join(_text(name) for name in names)
    if not _push(ctypes.byref(request), len(names), text, sources, targets):
        _refused(request, names, arrays, outputs)


def _refused(request: Request, names: List[str], arrays: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
    problem = _problem()
    for name, array in zip(names, arrays):
        operation, _, own = name.partition(".")
        _require_dense(operation, own, array)
        _dtype_number(operation, own, array)
    if not _on_gpu(arrays):
        raise error_from(problem)
    hosts = [each.as_in_context(mxnet.cpu()) for each in arrays]
    results = [host if output is array else like(host) for host, array, output in zip(hosts, arrays, outputs)]
    _push_all(request, names, hosts, results)
    for result, output in zip(results, outputs):
        result.copyto(output)


def _on_gpu(arrays: Sequence[NDArray]) -> bool:
    return any(each.context.device_type == "gpu" for each in arrays)


def _require_job() -> None:
    if job.place is None:
        raise MXNetError(job.NOT_STARTED)


def _text(name: str) -> bytes:
    encoded = name.encode()
    if b"\0" in encoded:
        raise ValueError(f"a name cannot hold the character NUL: {name!r}")
    return encoded


# ---- what waits ----

_DTYPES = {"uint8": 0, "int8": 1, "int32": 4, "int64": 5, "float16": 6, "float32": 8, "float64": 9, "bool": 10}
_BFLOAT16 = 7
_LENT_BY_DLPACK = (0, 1, 4, 5, 6, 8, 9)
"""Numbers of types that MXNet takes over without a copy."""


def gather(
    request: Any, name: Optional[str], array: NDArray, process_set: ProcessSet, splits: Optional[List[int]] = None
) -> Any:
    """Waits for an array, hands it in and waits for what comes out: a native handle. ``splits``: rows for each rank."""
    _require_job()
    require_name(request.prefix, name)
    number = set_number(request.prefix, process_set)
    described = _describe(request.prefix, name, array)
    with mxnet_errors():
        handle = job.runtime.submit(request, name, described, None, number, splits)
        handle.wait()
    return handle


def gather_group(request: Any, name: Optional[str], arrays: Sequence[NDArray], process_set: ProcessSet) -> List[Any]:
    """The same for several arrays, which become ready together, all or none."""
    _require_job()
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
    """What fails inside is a ``MXNetError``, and of the class of the interface where there is one."""
    try:
        yield
    except HorovodInternalError as problem:
        # A process set that failed alone has lost no worker.
        raise make_error(None if problem.process_set else problem.kind, str(problem)) from problem
    except ValueError as problem:
        raise MXNetError(str(problem)) from problem


def _require_dense(operation: str, name: Optional[str], array: NDArray) -> None:
    if array.stype != "default":
        raise MXNetError(
            f"{head(operation, name)} takes dense arrays, and this one is sparse ({array.stype}); call "
            "array.tostype('default') first"
        )


def _dtype_number(operation: str, name: Optional[str], array: NDArray) -> int:
    dtype = numpy.dtype(array.dtype)
    number = _BFLOAT16 if dtype.names == ("bfloat16",) else _DTYPES.get(dtype.name)
    if number is None:
        remedy = wrong_dtype_remedy(operation, str(dtype), "array.astype('{}')")
        raise MXNetError(str(wrong_dtype(operation, name, str(dtype), remedy)))
    return number


def _describe(operation: str, name: Optional[str], array: NDArray) -> Any:
    number = _dtype_number(operation, name, array)
    _require_dense(operation, name, array)
    host = array.as_in_context(mxnet.cpu()) if _on_gpu([array]) else array
    host.wait_to_read()
    address = ctypes.c_void_p()
    mxnet.base.check_call(mxnet.base._LIB.MXNDArrayGetData(host.handle, ctypes.byref(address)))
    return address.value or 0, number, tuple(array.shape), host


def received(handle: Any, source: NDArray) -> NDArray:
    """What an operation brought, as an array of the same kind and on the same device as ``source``."""
    if _dtype_number("", None, source) in _LENT_BY_DLPACK and 0 not in source.shape[1:] and sum(handle.first_dims) > 0:
        array = mxnet.nd.from_dlpack(handle.dlpack())
    else:
        array = _copied(handle, source)
    array = array.as_in_context(source.context)
    return array if type(array) is type(source) else array.as_np_ndarray()


def _copied(handle: Any, source: NDArray) -> NDArray:
    content = handle.array()
    with mxnet.util.np_shape(True):  # where an extent of 0 means what it says
        array = mxnet.nd.empty(content.shape, dtype=source.dtype)
        if content.size:
            address = content.ctypes.data_as(ctypes.c_void_p)
            size = ctypes.c_size_t(content.size)
            mxnet.base.check_call(mxnet.base._LIB.MXNDArraySyncCopyFromCPU(array.handle, address, size))
    return array


def drain(seconds: float) -> bool:
    """Waits until the engine has none of our operations left, at most so long; whether that was so."""
    return bool(_library.farandole_mxnet_drain(int(seconds * 1000)))
