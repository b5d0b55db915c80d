"""The operations, for NumPy arrays. Whatever NumPy makes an array of may go in, except where it is written to in
place; what comes out is always an array of the caller's own.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy

from farandole.common.arguments import listed, member_name, require_process_set, row_counts
from farandole.common.arrays import contiguous, in_place, start, start_group, start_unsized
from farandole.common.basics import HorovodBasics
from farandole.common.calls import (
    ALLGATHER,
    ALLGATHER_AT_ONCE,
    ALLTOALL,
    ALLTOALL_AT_ONCE,
    GROUPED_ALLGATHER,
    Call,
    broadcasts,
    grouped_reduction,
    grouped_scatters,
    reduction,
    rows_of_share,
    scatters,
)
from farandole.common.handles import keep
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set

Average = HorovodBasics.Average


def _all_in_place(operation: str, name: Optional[str], tensors: Any) -> List[Any]:
    arrays = listed(operation, name, tensors)
    return [in_place(each, operation, member_name(name, index, len(arrays))) for index, each in enumerate(arrays)]


# ---- allreduce


@public
def allreduce_async(
    tensor: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    array = contiguous(tensor)
    request = reduction(average, op, prescale_factor, postscale_factor)
    return keep(start(request, name, array, numpy.empty_like(array), process_set))


@public
def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    array = contiguous(tensor)
    request = reduction(average, op, prescale_factor, postscale_factor)
    return start(request, name, array, numpy.empty_like(array), process_set).finish()


@public
def allreduce_async_(
    tensor: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    request = reduction(average, op, prescale_factor, postscale_factor)
    return keep(start(request, name, in_place(tensor, "allreduce", name), tensor, process_set))


@public
def allreduce_(
    tensor: Any,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    request = reduction(average, op, prescale_factor, postscale_factor)
    return start(request, name, in_place(tensor, "allreduce", name), tensor, process_set).finish()


@public
def grouped_allreduce_async(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    arrays = [contiguous(each) for each in listed("grouped_allreduce", name, tensors)]
    request = grouped_reduction(average, op, prescale_factor, postscale_factor)
    return keep(start_group(request, name, arrays, [numpy.empty_like(each) for each in arrays], process_set))


@public
def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    arrays = [contiguous(each) for each in listed("grouped_allreduce", name, tensors)]
    if not arrays:
        return []
    request = grouped_reduction(average, op, prescale_factor, postscale_factor)
    return start_group(request, name, arrays, [numpy.empty_like(each) for each in arrays], process_set).finish()


@public
def grouped_allreduce_async_(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    arrays = _all_in_place("grouped_allreduce", name, tensors)
    request = grouped_reduction(average, op, prescale_factor, postscale_factor)
    return keep(start_group(request, name, arrays, arrays, process_set))


@public
def grouped_allreduce_(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tuple[Any, ...]:
    arrays = _all_in_place("grouped_allreduce", name, tensors)
    request = grouped_reduction(average, op, prescale_factor, postscale_factor)
    return tuple(start_group(request, name, arrays, arrays, process_set).finish())


# ---- allgather


@public
def allgather_async(tensor: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> int:
    return keep(start_unsized(ALLGATHER, name, contiguous(tensor), process_set))


@public
def allgather(tensor: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    return start_unsized(ALLGATHER_AT_ONCE, name, contiguous(tensor), process_set).finish()


@public
def grouped_allgather_async(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    arrays = [contiguous(each) for each in listed("grouped_allgather", name, tensors)]
    return keep(start_group(GROUPED_ALLGATHER, name, arrays, None, process_set))


@public
def grouped_allgather(
    tensors: Sequence[Any], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Tuple[Any, ...]:
    arrays = [contiguous(each) for each in listed("grouped_allgather", name, tensors)]
    if not arrays:
        return ()
    return tuple(start_group(GROUPED_ALLGATHER, name, arrays, None, process_set).finish())


# ---- broadcast


@public
def broadcast_async(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    array = contiguous(tensor)
    return keep(start(broadcasts[root_rank], name, array, numpy.empty_like(array), process_set))


@public
def broadcast(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    array = contiguous(tensor)
    return start(broadcasts[root_rank], name, array, numpy.empty_like(array), process_set).finish()


@public
def broadcast_async_(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return keep(start(broadcasts[root_rank], name, in_place(tensor, "broadcast", name), tensor, process_set))


@public
def broadcast_(
    tensor: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    return start(broadcasts[root_rank], name, in_place(tensor, "broadcast", name), tensor, process_set).finish()


# ---- alltoall


def _deal(request: Any, tensor: Any, splits: Any, name: Optional[str], process_set: ProcessSet) -> Call:
    call = start_unsized(request, name, contiguous(tensor), process_set, row_counts("alltoall", name, splits))
    handle = call.handles[0]
    return Call(call.handles, lambda: (call.finish(), numpy.array(handle.first_dims, dtype=numpy.int32)))


@public
def alltoall_async(
    tensor: Any, splits: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return keep(_deal(ALLTOALL, tensor, splits, name, process_set))


@public
def alltoall(
    tensor: Any, splits: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Union[Any, Tuple[Any, Any]]:
    rows, received_splits = _deal(ALLTOALL_AT_ONCE, tensor, splits, name, process_set).finish()
    return rows if splits is None else (rows, received_splits)


# ---- reducescatter


def _share_of(array: Any, process_set: ProcessSet) -> Any:
    rows = rows_of_share(array.shape[0], process_set) if array.ndim else None
    # Without a share, the core says why there is none.
    return numpy.empty((0,) if rows is None else (rows, *array.shape[1:]), dtype=array.dtype)


def _scatter(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Any:
    require_process_set(request.prefix, name, process_set)
    array = contiguous(tensor)
    return start(request, name, array, _share_of(array, process_set), process_set)


def _scatter_group(request: Any, name: Optional[str], tensors: Sequence[Any], process_set: ProcessSet) -> Call:
    require_process_set(request.prefix, name, process_set)
    arrays = [contiguous(each) for each in listed(request.prefix, name, tensors)]
    return start_group(request, name, arrays, [_share_of(each, process_set) for each in arrays], process_set)


@public
def reducescatter_async(
    tensor: Any,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    return keep(_scatter(scatters[op, prescale_factor, postscale_factor], name, tensor, process_set))


@public
def reducescatter(
    tensor: Any,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    return _scatter(scatters[op, prescale_factor, postscale_factor], name, tensor, process_set).finish()


@public
def grouped_reducescatter_async(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    return keep(_scatter_group(grouped_scatters[op, prescale_factor, postscale_factor], name, tensors, process_set))


@public
def grouped_reducescatter(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[Any]:
    tensors = listed("grouped_reducescatter", name, tensors)
    if not tensors:
        return []
    return _scatter_group(grouped_scatters[op, prescale_factor, postscale_factor], name, tensors, process_set).finish()
