"""How a NumPy array enters the native runtime, and how its result comes out.

Arrays are handed over as they are, by address: they belong to the operation until it has ended. The one module of
``common`` that needs NumPy; the others import it when they need it.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy

from farandole.common import job as _job
from farandole.common.calls import Call
from farandole.common.process_sets import ProcessSet

_NUMBERS = {
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

Described = Tuple[int, int, Tuple[int, ...], Any]


def contiguous(array: Any) -> Any:
    """An array of anything that NumPy makes one of, in C order; itself where it is one already."""
    return numpy.asarray(array, order="C")


def _describe(array: Any) -> Described:
    number = _NUMBERS.get(array.dtype.name) if array.dtype.isnative else None
    if number is None:
        raise ValueError(f"arrays of this type cannot travel: {array.dtype!r}")
    if not array.flags.c_contiguous:
        raise ValueError("the array must be contiguous; call numpy.ascontiguousarray() first")
    return array.__array_interface__["data"][0], number, array.shape, array


def in_place(array: Any) -> Any:
    """The array, if an operation may write to it."""
    if not isinstance(array, numpy.ndarray):
        raise ValueError(f"only a numpy.ndarray can be written to in place, not {type(array).__name__}")
    if not array.flags.writeable:
        raise ValueError("the array is read-only; use the function that returns a new one")
    return array


def start(request: Any, name: Optional[str], array: Any, output: Any, process_set: ProcessSet) -> Any:
    """Hands in an array, and memory for what comes out."""
    described = _describe(array)
    target = described if output is array else _describe(output)
    return _job.runtime.submit(request, name, described, target, process_set.process_set_id)


def start_unsized(
    request: Any, name: Optional[str], array: Any, process_set: ProcessSet, splits: Optional[List[int]] = None
) -> Call:
    """Hands in an array; memory for what comes out is made by the core, which learns its size from the other ranks."""
    handle = _job.runtime.submit(request, name, _describe(array), None, process_set.process_set_id, splits)
    return Call([handle], lambda: _received(handle, array.dtype))


def start_group(
    request: Any,
    name: Optional[str],
    arrays: Sequence[Any],
    outputs: Optional[List[Any]],
    process_set: ProcessSet,
) -> Call:
    """Hands several arrays in, all or none. Without ``outputs``, the core makes the memory for what comes out."""
    if not arrays:
        raise ValueError("a group needs at least one array")
    described = [_describe(each) for each in arrays]
    targets = None if outputs is None else [_describe(each) for each in outputs]
    handles = _job.runtime.submit_group(request, name, described, targets, process_set.process_set_id)
    if outputs is not None:
        return Call(handles, lambda: list(outputs))
    return Call(handles, lambda: [_received(handle, each.dtype) for handle, each in zip(handles, arrays)])


def _received(handle: Any, dtype: Any) -> Any:
    return handle.array().view(dtype)
