"""Submits NumPy arrays to the native runtime, and returns the results as arrays.

Arrays are passed by address, without a copy: the operation owns their memory until it has ended. This is the only
module of ``common`` that needs NumPy at import; the others import it when they need it.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy

from farandole.common import job as _job
from farandole.common.arguments import head, kind, member_name, require_process_set, wrong_dtype, wrong_dtype_remedy
from farandole.common.calls import Call
from farandole.common.process_sets import ProcessSet

NUMBERS = {
    "uint8": 0,
    "int8": 1,
    "uint16": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float16": 6,
    "bfloat16": 7,  # of the package ml_dtypes
    "float32": 8,
    "float64": 9,
    "bool": 10,
}
"""The types of elements that operations know, and their numbers."""

_BOOL = 10

Described = Tuple[int, int, Tuple[int, ...], Any]


def contiguous(array: Any) -> Any:
    """An array of anything that NumPy makes one of, in C order; itself where it is one already."""
    return numpy.asarray(array, order="C")


def _describe(array: Any, request: Any, name: Optional[str]) -> Described:
    number = NUMBERS.get(array.dtype.name) if array.dtype.isnative else None
    as_bytes = number is None and _moves_as_bytes(array, request)
    if not as_bytes and (number is None or (number == _BOOL and "reduce" in request.prefix)):
        raise _wrong_dtype(request.prefix, name, array)
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{head(request.prefix, name)} takes arrays in C order, and this one of shape {list(array.shape)} has "
            f"strides of {list(array.strides)} bytes, so it is not contiguous; reduce "
            "numpy.ascontiguousarray(array), and copy the result back, or use the function that returns a new array"
        )
    address = array.__array_interface__["data"][0]
    if number is not None:
        return address, number, array.shape, array
    # The bytes of an element are a dimension of their own. Operations on rows refuse a scalar of any type.
    is_scalar = array.ndim == 0 and request.prefix != "broadcast"
    return address, NUMBERS["uint8"], () if is_scalar else (*array.shape, array.dtype.itemsize), array


def _moves_as_bytes(array: Any, request: Any) -> bool:
    """Whether an operation that computes nothing takes elements of a type that the runtime does not know, such as
    complex numbers, as bytes: arrays of anything but objects, if not of a single text."""
    dtype = array.dtype
    if "reduce" in request.prefix or not dtype.isnative or dtype.hasobject or dtype.itemsize == 0:
        return False
    return array.ndim > 0 or dtype.kind not in "SU"


def _wrong_dtype(operation: str, name: Optional[str], array: Any) -> Exception:
    dtype = array.dtype
    if dtype.kind in "OSU":
        given = f"an array of {dtype.name}" if array.ndim else kind(array.item())
        problem = (
            f"{head(operation, name)} takes an array of numbers, or what numpy.asarray() makes one of, not {given}; "
            "convert it to numbers, or call allgather_object() or broadcast_object()"
        )
        return ValueError(problem) if array.ndim else TypeError(problem)
    if not dtype.isnative:
        remedy = "convert it with array.astype(array.dtype.newbyteorder('='))"
        return wrong_dtype(operation, name, f"{dtype.name} in the other byte order", remedy)
    return wrong_dtype(operation, name, dtype.name, wrong_dtype_remedy(operation, dtype.name, "array.astype('{}')"))


def in_place(array: Any, operation: str, name: Optional[str]) -> Any:
    """The array, if an operation may write to it."""
    if not isinstance(array, numpy.ndarray):
        raise TypeError(
            f"{head(operation, name)} takes a numpy.ndarray to write the result to, not {kind(array)}; call the "
            "function that returns a new array, whose name has no underscore at its end"
        )
    if not array.flags.writeable:
        raise ValueError(
            f"{head(operation, name)} cannot write its result to this array, which is read-only; call the function "
            "that returns a new array, whose name has no underscore at its end"
        )
    return array


def start(request: Any, name: Optional[str], array: Any, output: Any, process_set: ProcessSet) -> Any:
    """Submits an array, together with the memory for its result."""
    require_process_set(request.prefix, name, process_set)
    described = _describe(array, request, name)
    target = described if output is array else _describe(output, request, name)
    return _job.runtime.submit(request, name, described, target, process_set.process_set_id)


def start_unsized(
    request: Any, name: Optional[str], array: Any, process_set: ProcessSet, splits: Optional[List[int]] = None
) -> Call:
    """Submits an array. The core allocates the result, whose size it learns from the other ranks."""
    require_process_set(request.prefix, name, process_set)
    described = _describe(array, request, name)
    handle = _job.runtime.submit(request, name, described, None, process_set.process_set_id, splits)
    return Call([handle], lambda: _received(handle, array.dtype))


def start_group(
    request: Any,
    name: Optional[str],
    arrays: Sequence[Any],
    outputs: Optional[List[Any]],
    process_set: ProcessSet,
) -> Call:
    """Submits several arrays, all or none. Without ``outputs``, the core allocates the results."""
    if not arrays:
        raise ValueError(f"{request.prefix} takes at least one array, not an empty list; leave out the call")
    require_process_set(request.prefix, name, process_set)
    names = [member_name(name, index, len(arrays)) for index in range(len(arrays))]
    described = [_describe(each, request, own) for each, own in zip(arrays, names)]
    targets = None if outputs is None else [_describe(each, request, own) for each, own in zip(outputs, names)]
    handles = _job.runtime.submit_group(request, name, described, targets, process_set.process_set_id)
    if outputs is not None:
        return Call(handles, lambda: list(outputs))
    return Call(handles, lambda: [_received(handle, each.dtype) for handle, each in zip(handles, arrays)])


def _received(handle: Any, dtype: Any) -> Any:
    content = handle.array()
    return content.view(dtype) if dtype.name in NUMBERS else content.view(dtype).reshape(content.shape[:-1])
