"""Everything that scripts import from ``horovod.mxnet.mpi_ops``: the job, its place, and the operations on arrays.

Operations are asynchronous like all of MXNet's: the array that comes back is there when something waits for it, and so
is the error of an operation that failed, as a ``MXNetError``. Those whose result has a size that only the other ranks
know (allgather, alltoall) wait for it.
"""

from __future__ import annotations

from typing import Any, Optional

import mxnet as mx

from farandole import _native
from farandole.common import barrier_join, operations
from farandole.common.arguments import shown, type_of_counts
from farandole.common.calls import handle_average_backwards_compatibility, rows_of_share
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.common.wrappers import Wrapper, public_in
from farandole.mxnet.arguments import require_array, require_arrays, set_number, splits_of
from farandole.mxnet.entry import Request, like, push, push_group
from farandole.mxnet.waiting import gather, gather_group, mxnet_errors, received

_PLAIN = (Average, Sum, Min, Max, Product)


# ---- what operations ask for


def scatter(
    operation: str, op: int, prescale: float, postscale: float, process_set: ProcessSet, priority: int
) -> Request:
    assert op != Adasum, "MXNet's operations do not offer Adasum: use Average, Sum, Min, Max or Product"
    if op not in _PLAIN:
        raise ValueError(
            f"{operation} takes a reduction as op, and {shown(op)} is no reduction; pass Average, Sum, Min, Max "
            "or Product"
        )
    number = operations.REDUCESCATTER if "reducescatter" in operation else operations.ALLREDUCE
    return Request(operation, number, op, -1, set_number(operation, process_set), prescale, postscale, priority)


def reduction(operation: str, average: Optional[bool], op: Optional[int], *options: Any) -> Request:
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average, operation)
    return scatter(operation, op, *options)


def from_root(root_rank: int, process_set: ProcessSet, priority: int) -> Request:
    set_id = set_number("broadcast", process_set)
    return Request("broadcast", operations.BROADCAST, Sum, root_rank, set_id, 1.0, 1.0, priority)


_ALLGATHER = _native.Request(operations.ALLGATHER, "horovod_allgather")
_GROUPED_ALLGATHER = _native.Request(operations.ALLGATHER, "horovod_grouped_allgather")
_ALLTOALL = _native.Request(operations.ALLTOALL, "horovod_alltoall")

_SCALED = "op, prescale_factor, postscale_factor, process_set, priority"
_REQUESTS = {
    "allreduce": f"reduction('allreduce', average, {_SCALED})",
    "grouped_allreduce": f"reduction('grouped_allreduce', average, {_SCALED})",
    "allgather": "_ALLGATHER",
    "grouped_allgather": "_GROUPED_ALLGATHER",
    "broadcast": "from_root(root_rank, process_set, priority)",
    "alltoall": "_ALLTOALL",
    "reducescatter": f"scatter('reducescatter', {_SCALED})",
    "grouped_reducescatter": f"scatter('grouped_reducescatter', {_SCALED})",
}


# ---- what carries them out


def _output(request: Request, tensor: Any, process_set: ProcessSet) -> mx.nd.NDArray:
    if request.operation != operations.REDUCESCATTER:
        return like(tensor)
    if not tensor.shape:
        raise ValueError("a scalar has no rows to be scattered")
    with mxnet_errors():  # this rank may not be in the set
        rows = rows_of_share(tensor.shape[0], process_set)
    return like(tensor, rows or 0)


def push_new(request: Request, name: Optional[str], tensor: Any, process_set: ProcessSet, *_: Any) -> Any:
    require_array(request.prefix, name, tensor)
    output = _output(request, tensor, process_set)
    push(request, name, tensor, output)
    return output


def push_in_place(request: Request, name: Optional[str], tensor: Any, *_: Any) -> Any:
    require_array(request.prefix, name, tensor)
    push(request, name, tensor, tensor)
    return tensor


def push_group_new(request: Request, name: Optional[str], tensors: Any, process_set: ProcessSet, *_: Any) -> Any:
    outputs = [_output(request, each, process_set) for each in tensors]
    push_group(request, name, tensors, outputs)
    return outputs


def push_group_in_place(request: Request, name: Optional[str], tensors: Any, *_: Any) -> Any:
    tensors = require_arrays(request.prefix, name, tensors)
    if len(tensors) > 0:
        push_group(request, name, tensors, tensors)
    return tensors


def wait_for_rows(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet, *_: Any) -> Any:
    require_array("allgather", name, tensor)
    return received(gather(request, name, tensor, process_set), tensor)


def wait_for_all_rows(request: Any, name: Optional[str], tensors: Any, process_set: ProcessSet, *_: Any) -> Any:
    handles = gather_group(request, name, tensors, process_set)
    return [received(handle, tensor) for handle, tensor in zip(handles, tensors)]


def exchange(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet, splits: Any, *_: Any) -> Any:
    require_array("alltoall", name, tensor)
    handle = gather(request, name, tensor, process_set, splits_of(splits))
    rows = received(handle, tensor)
    if splits is None:
        return rows
    return rows, mx.nd.array(handle.first_dims, ctx=mx.cpu(), dtype=type_of_counts(handle.first_dims))


wrapper = Wrapper("mxnet", __name__, _REQUESTS, is_call=False, listed=require_arrays)

allreduce = wrapper("allreduce", push_new)
allreduce_ = wrapper("allreduce_", push_in_place)
grouped_allreduce = wrapper("grouped_allreduce", push_group_new)
grouped_allreduce_ = wrapper("grouped_allreduce_", push_group_in_place)
allgather = wrapper("allgather", wait_for_rows)
grouped_allgather = wrapper("grouped_allgather", wait_for_all_rows)
broadcast = wrapper("broadcast", push_new)
broadcast_ = wrapper("broadcast_", push_in_place)
alltoall = wrapper("alltoall", exchange)
reducescatter = wrapper("reducescatter", push_new)
grouped_reducescatter = wrapper("grouped_reducescatter", push_group_new)


@public_in("mxnet")
def barrier(process_set):
    with mxnet_errors():
        barrier_join.barrier(process_set)
