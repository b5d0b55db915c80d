"""Submits MXNet arrays as operations of MXNet's dependency engine; ``waiting`` submits by calls that wait."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, Iterator, List, Optional, Sequence

import mxnet
from mxnet.base import MXNetError
from mxnet.libinfo import find_lib_path
from mxnet.ndarray import NDArray

from farandole.common import job, kernels
from farandole.common.arguments import require_name
from farandole.mxnet.arguments import dtype_number, on_gpu, require_dense, require_job
from farandole.mxnet.errors import error_from


class Request(ctypes.Structure):
    """The arguments of a call that all its arrays share; struct farandole_mxnet_call of the kernels. ``prefix`` is
    the operation's public name."""

    _fields_ = [
        ("operation", ctypes.c_int32),
        ("reduce_op", ctypes.c_int32),
        ("root", ctypes.c_int32),
        ("set", ctypes.c_uint32),
        ("prescale", ctypes.c_double),
        ("postscale", ctypes.c_double),
        ("priority", ctypes.c_int32),
    ]

    def __init__(self, prefix: str, *fields: Any) -> None:
        super().__init__(*fields)
        self.prefix = prefix


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


@contextlib.contextmanager
def _named(request: Request, name: Optional[str]) -> Iterator[str]:
    """The full name of a call. One without a name, which ranks match by its order, counts when the block ends well."""
    require_name(request.prefix, name)
    prefix = f"horovod_{request.prefix}"
    if name is not None:
        yield f"{prefix}.{name}"
        return
    yield job.runtime.unnamed(request.set, prefix)
    job.runtime.accepted_unnamed(request.set, prefix)


def like(array: NDArray, rows: int = -1) -> NDArray:
    """A new array of any content, of the same type and on the same device; its first extent is ``rows`` if given."""
    handle = _library.farandole_mxnet_like(array.handle, rows)
    if not handle:
        raise MXNetError(_problem())
    return type(array)(ctypes.c_void_p(handle))


def _problem() -> str:
    return str(_library.farandole_mxnet_problem().decode(errors="replace"))


def push(request: Request, name: Optional[str], array: NDArray, output: NDArray) -> None:
    """Gives the engine an operation that writes ``output``, which may be ``array``. A later failure is raised when
    the caller waits for the output.
    """
    require_job()
    handle = array.handle
    target = handle if output is array else output.handle
    with _named(request, name) as full_name:
        if not _push(ctypes.byref(request), 1, full_name.encode(), ctypes.byref(handle), ctypes.byref(target)):
            _refused(request, [full_name], [array], [output])


def push_group(request: Request, name: Optional[str], arrays: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
    """The same for several arrays, which become ready together, all or none."""
    require_job()
    count = len(arrays)
    with _named(request, name) as full_name:
        _push_all(request, [f"{full_name}_{index}of{count}" for index in range(1, count + 1)], arrays, outputs)


def _push_all(request: Request, names: List[str], arrays: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
    handles = ctypes.c_void_p * len(names)
    sources = handles(*[each.handle for each in arrays])
    targets = sources if outputs is arrays else handles(*[each.handle for each in outputs])
    text = "\0".join(names).encode()
    if not _push(ctypes.byref(request), len(names), text, sources, targets):
        _refused(request, names, arrays, outputs)


def _refused(request: Request, names: List[str], arrays: Sequence[NDArray], outputs: Sequence[NDArray]) -> None:
    problem = _problem()
    for name, array in zip(names, arrays):
        operation, _, own = name.partition(".")
        require_dense(operation, own, array)
        dtype_number(operation, own, array)
    if not on_gpu(arrays):
        raise error_from(problem)
    hosts = [each.as_in_context(mxnet.cpu()) for each in arrays]
    results = [host if output is array else like(host) for host, array, output in zip(hosts, arrays, outputs)]
    _push_all(request, names, hosts, results)
    for result, output in zip(results, outputs):
        result.copyto(output)


def _drain() -> None:
    """Waits until the engine has none of our operations left, at most for the shutdown timeout: a script may end while
    operations still run in it, and other ranks need their data."""
    try:
        seconds = float(os.environ.get("FARANDOLE_SHUTDOWN_TIMEOUT", ""))
    except ValueError:
        seconds = 5.0  # as docs/settings.md has it
    _library.farandole_mxnet_drain(int(seconds * 1000))


job.call_before_leaving(_drain)
