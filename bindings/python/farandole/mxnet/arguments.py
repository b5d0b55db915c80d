"""Checks the arguments of MXNet's functions: types and kinds of arrays, and process sets."""

from __future__ import annotations

import operator
from typing import Any, List, Optional, Sequence

import numpy
from mxnet.base import MXNetError
from mxnet.ndarray import NDArray

from farandole.common import job
from farandole.common.arguments import (
    head,
    kind,
    listed,
    member_name,
    require_process_set,
    wrong_dtype,
    wrong_dtype_remedy,
)
from farandole.common.process_sets import ProcessSet

_DTYPES = {"uint8": 0, "int8": 1, "int32": 4, "int64": 5, "float16": 6, "float32": 8, "float64": 9, "bool": 10}
_BFLOAT16 = 7


def require_job() -> None:
    """``MXNetError`` before ``init()``."""
    if job.topology is None:
        raise MXNetError(job.NOT_STARTED)


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


def require_dense(operation: str, name: Optional[str], array: NDArray) -> None:
    """``MXNetError`` for a sparse array."""
    if array.stype != "default":
        raise MXNetError(
            f"{head(operation, name)} takes dense arrays, and this one is sparse ({array.stype}); call "
            "array.tostype('default') first"
        )


def dtype_number(operation: str, name: Optional[str], array: NDArray) -> int:
    """The core's number of the type; ``MXNetError`` for a type that cannot be sent."""
    dtype = numpy.dtype(array.dtype)
    number = _BFLOAT16 if dtype.names == ("bfloat16",) else _DTYPES.get(dtype.name)
    if number is None:
        remedy = wrong_dtype_remedy(operation, str(dtype), "array.astype('{}')")
        raise MXNetError(str(wrong_dtype(operation, name, str(dtype), remedy)))
    return number


def on_gpu(arrays: Sequence[NDArray]) -> bool:
    """Whether one of them is on a GPU."""
    return any(each.context.device_type == "gpu" for each in arrays)


def splits_of(splits: Any) -> Optional[List[int]]:
    """Rows for each rank, or None for equal parts; ``MXNetError`` for anything but whole numbers."""
    if splits is None:
        return None
    numbers = splits.asnumpy() if isinstance(splits, NDArray) else splits
    try:
        # index() refuses floating-point numbers, also those that are whole.
        return [operator.index(each) for each in numbers] or None
    except TypeError:
        given = f"{numbers.ndim}-dimensional {numbers.dtype}" if hasattr(numbers, "dtype") else repr(splits)
        raise MXNetError(
            f"alltoall takes splits as a list or a one-dimensional array of integers, not {given}: "
            "make them with dtype='int32'"
        ) from None
