"""Everything that scripts import from ``horovod.mxnet.mpi_ops``: the job, its place, and the operations on arrays.

Operations are asynchronous like all of MXNet's: the array that comes back is there when something waits for it, and so
is the error of an operation that failed, as a ``MXNetError``. Those whose result has a size that only the other ranks
know (allgather, alltoall) wait for it.
"""

from __future__ import annotations

import operator
from typing import Any, List, Optional, Sequence, Tuple, Union  # noqa: F401  (the table of signatures names them)

import mxnet as mx
from mxnet.base import MXNetError

from farandole import _native
from farandole.common import meetings, operations
from farandole.common.arguments import shown
from farandole.common.calls import handle_average_backwards_compatibility, rows_of_share
from farandole.common.names import *
from farandole.common.names import basics as _basics
from farandole.common.wrappers import public_in
from farandole.mxnet.arguments import require_array, require_arrays, set_number
from farandole.mxnet.entry import Request, like, name_of, push, push_group
from farandole.mxnet.membership import init, shutdown
from farandole.mxnet.waiting import gather, gather_group, mxnet_errors, received

public = public_in("mxnet")

_PLAIN = (Average, Sum, Min, Max, Product)


# ---- allreduce


def _reduction(
    operation: str, op: int, prescale: float, postscale: float, process_set: ProcessSet, priority: int
) -> Request:
    assert op != Adasum, "MXNet's operations do not offer Adasum: use Average, Sum, Min, Max or Product"
    if op not in _PLAIN:
        raise ValueError(
            f"{operation} takes a reduction as op, and {shown(op)} is no reduction; pass Average, Sum, Min, Max "
            "or Product"
        )
    number = operations.REDUCESCATTER if "reducescatter" in operation else operations.ALLREDUCE
    return Request(number, op, -1, set_number(operation, process_set), prescale, postscale, priority)


def _allreduction(
    operation: str,
    average: Optional[bool],
    op: Optional[int],
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    priority: int,
) -> Request:
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average, operation)
    return _reduction(operation, op, prescale, postscale, process_set, priority)


@public
def allreduce(tensor, average, name, priority, prescale_factor, postscale_factor, process_set, op):
    require_array("allreduce", name, tensor)
    request = _allreduction("allreduce", average, op, prescale_factor, postscale_factor, process_set, priority)
    output = like(tensor)
    push(request, name_of("allreduce", name), tensor, output)
    return output


@public
def allreduce_(tensor, average, name, priority, prescale_factor, postscale_factor, process_set, op):
    require_array("allreduce", name, tensor)
    request = _allreduction("allreduce", average, op, prescale_factor, postscale_factor, process_set, priority)
    push(request, name_of("allreduce", name), tensor, tensor)
    return tensor


@public
def grouped_allreduce(tensors, average, name, priority, prescale_factor, postscale_factor, process_set, op):
    tensors = require_arrays("grouped_allreduce", name, tensors)
    request = _allreduction("grouped_allreduce", average, op, prescale_factor, postscale_factor, process_set, priority)
    outputs = [like(each) for each in tensors]
    if outputs:
        push_group(request, name_of("grouped_allreduce", name), tensors, outputs)
    return outputs


@public
def grouped_allreduce_(tensors, average, name, priority, prescale_factor, postscale_factor, process_set, op):
    tensors = require_arrays("grouped_allreduce", name, tensors)
    request = _allreduction("grouped_allreduce", average, op, prescale_factor, postscale_factor, process_set, priority)
    if len(tensors) > 0:
        push_group(request, name_of("grouped_allreduce", name), tensors, tensors)
    return tensors


# ---- broadcast


def _from(root_rank: int, process_set: ProcessSet, priority: int) -> Request:
    return Request(operations.BROADCAST, Sum, root_rank, set_number("broadcast", process_set), 1.0, 1.0, priority)


@public
def broadcast(tensor, root_rank, name, priority, process_set):
    require_array("broadcast", name, tensor)
    output = like(tensor)
    push(_from(root_rank, process_set, priority), name_of("broadcast", name), tensor, output)
    return output


@public
def broadcast_(tensor, root_rank, name, priority, process_set):
    require_array("broadcast", name, tensor)
    push(_from(root_rank, process_set, priority), name_of("broadcast", name), tensor, tensor)
    return tensor


# ---- reducescatter


def _share_of(tensor: mx.nd.NDArray, process_set: ProcessSet) -> mx.nd.NDArray:
    if not tensor.shape:
        raise ValueError("a scalar has no rows to be scattered")
    with mxnet_errors():  # this rank may not be in the set
        rows = rows_of_share(tensor.shape[0], process_set)
    return like(tensor, rows or 0)


@public
def reducescatter(tensor, op, name, priority, process_set, prescale_factor, postscale_factor):
    require_array("reducescatter", name, tensor)
    request = _reduction("reducescatter", op, prescale_factor, postscale_factor, process_set, priority)
    output = _share_of(tensor, process_set)
    push(request, name_of("reducescatter", name), tensor, output)
    return output


@public
def grouped_reducescatter(tensors, op, name, priority, process_set, prescale_factor, postscale_factor):
    tensors = require_arrays("grouped_reducescatter", name, tensors)
    request = _reduction("grouped_reducescatter", op, prescale_factor, postscale_factor, process_set, priority)
    outputs = [_share_of(each, process_set) for each in tensors]
    if outputs:
        push_group(request, name_of("grouped_reducescatter", name), tensors, outputs)
    return outputs


# ---- what waits: allgather, alltoall, barrier

_ALLGATHER = _native.Request(operations.ALLGATHER, "horovod_allgather")
_GROUPED_ALLGATHER = _native.Request(operations.ALLGATHER, "horovod_grouped_allgather")
_ALLTOALL = _native.Request(operations.ALLTOALL, "horovod_alltoall")


@public
def allgather(tensor, name, priority, process_set):
    require_array("allgather", name, tensor)
    return received(gather(_ALLGATHER, name, tensor, process_set), tensor)


@public
def grouped_allgather(tensors, name, priority, process_set):
    tensors = require_arrays("grouped_allgather", name, tensors)
    if len(tensors) == 0:
        return []
    handles = gather_group(_GROUPED_ALLGATHER, name, tensors, process_set)
    return [received(handle, tensor) for handle, tensor in zip(handles, tensors)]


@public
def alltoall(tensor, splits, name, priority, process_set):
    require_array("alltoall", name, tensor)
    handle = gather(_ALLTOALL, name, tensor, process_set, _rows(splits))
    rows = received(handle, tensor)
    return rows if splits is None else (rows, mx.nd.array(handle.first_dims, ctx=mx.cpu(), dtype="int32"))


def _rows(splits: Any) -> Optional[List[int]]:
    if splits is None:
        return None
    numbers = splits.asnumpy() if isinstance(splits, mx.nd.NDArray) else splits
    try:
        # index() refuses floating-point numbers, also those that are whole.
        return [operator.index(each) for each in numbers] or None
    except TypeError:
        kind = f"{numbers.ndim}-dimensional {numbers.dtype}" if hasattr(numbers, "dtype") else repr(splits)
        raise MXNetError(
            f"alltoall takes splits as a list or a one-dimensional array of integers, not {kind}: "
            "make them with dtype='int32'"
        ) from None


@public
def barrier(process_set):
    with mxnet_errors():
        meetings.barrier(process_set)
