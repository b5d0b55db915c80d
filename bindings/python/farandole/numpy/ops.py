"""The operations, for NumPy arrays. Inputs may be of any type that NumPy converts to an array, except where they are
written to in place. Results are always arrays that the caller owns.
"""

from __future__ import annotations

from typing import Any, List, Optional

import numpy

from farandole.common.arguments import listed, member_name, require_process_set, row_counts, type_of_counts
from farandole.common.arrays import contiguous, in_place, start, start_group, start_unsized
from farandole.common.calls import Call, alltoalls, rows_of_share
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import Wrapper, public_in

wrapper = Wrapper("numpy", __name__)


def start_new(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Any:
    array = contiguous(tensor)
    return start(request, name, array, numpy.empty_like(array), process_set)


def start_in_place(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Any:
    return start(request, name, in_place(tensor, request.prefix, name), tensor, process_set)


def start_group_new(request: Any, name: Optional[str], tensors: Any, process_set: ProcessSet) -> Call:
    arrays = _arrays(request.prefix, name, tensors)
    return start_group(request, name, arrays, [numpy.empty_like(each) for each in arrays], process_set)


def start_group_in_place(request: Any, name: Optional[str], tensors: Any, process_set: ProcessSet) -> Call:
    given = listed(request.prefix, name, tensors)
    arrays = [in_place(each, request.prefix, member_name(name, i, len(given))) for i, each in enumerate(given)]
    return start_group(request, name, arrays, arrays, process_set)


def start_gather(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Call:
    return start_unsized(request, name, contiguous(tensor), process_set)


def start_group_gather(request: Any, name: Optional[str], tensors: Any, process_set: ProcessSet) -> Call:
    return start_group(request, name, _arrays(request.prefix, name, tensors), None, process_set)


def start_exchange(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet, splits: Any) -> Call:
    call = start_unsized(request, name, contiguous(tensor), process_set, row_counts("alltoall", name, splits))
    handle = call.handles[0]

    def finish() -> Any:
        rows = call.finish()
        return rows, numpy.array(handle.first_dims, dtype=type_of_counts(handle.first_dims))

    return Call(call.handles, finish)


def start_scatter(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Any:
    require_process_set(request.prefix, name, process_set)
    array = contiguous(tensor)
    return start(request, name, array, share_of(array, process_set), process_set)


def start_group_scatter(request: Any, name: Optional[str], tensors: Any, process_set: ProcessSet) -> Call:
    require_process_set(request.prefix, name, process_set)
    arrays = _arrays(request.prefix, name, tensors)
    return start_group(request, name, arrays, [share_of(each, process_set) for each in arrays], process_set)


def share_of(array: Any, process_set: ProcessSet) -> Any:
    """Memory for this rank's rows."""
    rows = rows_of_share(array.shape[0], process_set) if array.ndim else None
    # Without a share, the core says why there is none.
    return numpy.empty((0,) if rows is None else (rows, *array.shape[1:]), dtype=array.dtype)


def _arrays(operation: str, name: Optional[str], tensors: Any) -> List[Any]:
    return [contiguous(each) for each in listed(operation, name, tensors)]


allreduce, allreduce_async = wrapper.both("allreduce", start_new)
allreduce_, allreduce_async_ = wrapper.both("allreduce_", start_in_place)
grouped_allreduce, grouped_allreduce_async = wrapper.both("grouped_allreduce", start_group_new)
grouped_allreduce_, grouped_allreduce_async_ = wrapper.both("grouped_allreduce_", start_group_in_place)
allgather, allgather_async = wrapper.both("allgather", start_gather)
grouped_allgather, grouped_allgather_async = wrapper.both("grouped_allgather", start_group_gather)
broadcast, broadcast_async = wrapper.both("broadcast", start_new)
broadcast_, broadcast_async_ = wrapper.both("broadcast_", start_in_place)
alltoall_async = wrapper("alltoall_async", start_exchange)
reducescatter = wrapper("reducescatter", start_scatter)
reducescatter_async = wrapper("reducescatter_async", start_scatter)
grouped_reducescatter = wrapper("grouped_reducescatter", start_group_scatter)
grouped_reducescatter_async = wrapper("grouped_reducescatter_async", start_group_scatter)


@public_in("numpy")
def alltoall(tensor, splits, name, process_set):
    rows, received_splits = start_exchange(alltoalls[True], name, tensor, process_set, splits).finish()
    return rows if splits is None else (rows, received_splits)
