"""The collective operations on PyTorch tensors.

A call looks at the tensor, hands it to the native runtime and keeps the handle under a number; ``synchronize`` waits
for that number. Everything is matched across ranks by name, and without one by the order of calls.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from farandole.common import job as _job
from farandole.common import operations as _operations
from farandole.common.basics import HorovodBasics as _HorovodBasics
from farandole.common.exceptions import HorovodInternalError
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.process_sets import add_process_set as add_process_set
from farandole.common.process_sets import remove_process_set as remove_process_set
from farandole.torch.compression import Compression
from farandole.torch.entry import ALLGATHER as _ALLGATHER
from farandole.torch.entry import BARRIER as _BARRIER
from farandole.torch.entry import GROUPED_ALLGATHER as _GROUPED_ALLGATHER
from farandole.torch.entry import JOIN as _JOIN
from farandole.torch.entry import OFFERS_EXCHANGE_TABLE as _OFFERS_EXCHANGE_TABLE
from farandole.torch.entry import Call as _Call
from farandole.torch.entry import _native
from farandole.torch.entry import gathered as _gathered
from farandole.torch.entry import grouped_reduction as _grouped_reduction
from farandole.torch.entry import handle_average_backwards_compatibility as handle_average_backwards_compatibility
from farandole.torch.entry import is_on_gpu as _is_on_gpu
from farandole.torch.entry import like as _like
from farandole.torch.entry import records_gradients as _records_gradients
from farandole.torch.entry import reduction as _reduction
from farandole.torch.entry import requests as _requests
from farandole.torch.entry import start as _start
from farandole.torch.entry import start_group as _start_group
from farandole.torch.later import (
    alltoall as alltoall,
)
from farandole.torch.later import (
    alltoall_async as alltoall_async,
)
from farandole.torch.later import (
    grouped_reducescatter as grouped_reducescatter,
)
from farandole.torch.later import (
    grouped_reducescatter_async as grouped_reducescatter_async,
)
from farandole.torch.later import (
    reducescatter as reducescatter,
)
from farandole.torch.later import (
    reducescatter_async as reducescatter_async,
)

_basics = _HorovodBasics(__file__, "mpi_lib_v2")

is_initialized = _basics.is_initialized
start_timeline = _basics.start_timeline
stop_timeline = _basics.stop_timeline
size = _basics.size
local_size = _basics.local_size
cross_size = _basics.cross_size
rank = _basics.rank
local_rank = _basics.local_rank
cross_rank = _basics.cross_rank
is_homogeneous = _basics.is_homogeneous
mpi_threads_supported = _basics.mpi_threads_supported
mpi_enabled = _basics.mpi_enabled
mpi_built = _basics.mpi_built
gloo_enabled = _basics.gloo_enabled
gloo_built = _basics.gloo_built
nccl_built = _basics.nccl_built
ddl_built = _basics.ddl_built
ccl_built = _basics.ccl_built
cuda_built = _basics.cuda_built
rocm_built = _basics.rocm_built

Average = _basics.Average
Sum = _basics.Sum
Adasum = _basics.Adasum
Min = _basics.Min
Max = _basics.Max
Product = _basics.Product

_handles: Dict[int, Any] = {}


def init(*args: Any, **kwargs: Any) -> None:
    """Joins the job that the environment names; a job of one process when it names none."""
    _handles.clear()
    _basics.init(*args, **kwargs)


def shutdown(*args: Any, **kwargs: Any) -> None:
    """Leaves the job; what is in flight on any rank fails. Allows a later ``init()``."""
    _basics.shutdown(*args, **kwargs)


# ---- allreduce -------------------------------------------------------------------------------------------------


def _keep(call: Any) -> int:
    number: int = call.number
    _handles[number] = call
    return number


@public
def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    request = _reduction(average, op, prescale_factor, postscale_factor)
    return _keep(_start(request, name, tensor, _like(tensor), process_set))


@public
def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    # Every gradient of a hand-written loop comes this way: the common case takes one native call.
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    request = _requests.get((op, prescale_factor, postscale_factor))
    if request is not None and _OFFERS_EXCHANGE_TABLE:
        try:
            return _job.runtime.submit_kept(_handles, request, name, tensor, tensor, process_set.process_set_id)
        except ValueError:
            if not _is_on_gpu(tensor):
                raise
    request = _reduction(None, op, prescale_factor, postscale_factor)
    return _keep(_start(request, name, tensor, tensor, process_set))


@public
def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    request = _reduction(average, op, prescale_factor, postscale_factor)
    _start(request, name, tensor, tensor, process_set).finish()
    return tensor


class HorovodAllreduce(torch.autograd.Function):
    """allreduce with a gradient: the gradients are reduced in the same way."""

    @staticmethod
    def forward(ctx, tensor, average, name, op, prescale_factor, postscale_factor, process_set):  # type: ignore
        ctx.options = (average, op, prescale_factor, postscale_factor, process_set)
        request = _reduction(average, op, prescale_factor, postscale_factor)
        return _start(request, name, tensor, _like(tensor), process_set).finish()

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore
        average, op, prescale, postscale, process_set = ctx.options
        reduced = allreduce(
            grad_output.contiguous(),
            average=average,
            op=op,
            prescale_factor=prescale,
            postscale_factor=postscale,
            process_set=process_set,
        )
        return reduced, None, None, None, None, None, None


@public
def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    packed, context = compression.compress(tensor)
    if _records_gradients((packed,)):
        reduced = HorovodAllreduce.apply(packed, average, name, op, prescale_factor, postscale_factor, process_set)
    else:
        request = _reduction(average, op, prescale_factor, postscale_factor)
        reduced = _start(request, name, packed, _like(packed), process_set).finish()
    return compression.decompress(reduced, context)


@public
def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    request = _grouped_reduction(average, op, prescale_factor, postscale_factor)
    return _keep(_start_group(request, name, tensors, [_like(each) for each in tensors], process_set))


@public
def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    request = _grouped_reduction(average, op, prescale_factor, postscale_factor)
    return _keep(_start_group(request, name, tensors, list(tensors), process_set))


@public
def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tuple[torch.Tensor, ...]:
    request = _grouped_reduction(average, op, prescale_factor, postscale_factor)
    _start_group(request, name, tensors, list(tensors), process_set).finish()
    return tuple(tensors)


class HorovodGroupedAllreduce(torch.autograd.Function):
    """grouped_allreduce with gradients: they are reduced in the same way, as a group."""

    @staticmethod
    def forward(ctx, average, name, op, prescale_factor, postscale_factor, process_set: ProcessSet, *tensors):  # type: ignore
        ctx.options = (average, op, prescale_factor, postscale_factor, process_set)
        request = _grouped_reduction(average, op, prescale_factor, postscale_factor)
        return _start_group(request, name, tensors, [_like(each) for each in tensors], process_set).finish()

    @staticmethod
    def backward(ctx, *grad_output):  # type: ignore
        average, op, prescale, postscale, process_set = ctx.options
        reduced = grouped_allreduce(
            [each.contiguous() for each in grad_output],
            average=average,
            op=op,
            prescale_factor=prescale,
            postscale_factor=postscale,
            process_set=process_set,
        )
        return (None, None, None, None, None, None, *reduced)


@public
def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    if not tensors:
        return []
    packed, contexts = zip(*(compression.compress(each) for each in tensors))
    if _records_gradients(packed):
        reduced = HorovodGroupedAllreduce.apply(
            average, name, op, prescale_factor, postscale_factor, process_set, *packed
        )
    else:
        request = _grouped_reduction(average, op, prescale_factor, postscale_factor)
        reduced = _start_group(request, name, packed, [_like(each) for each in packed], process_set).finish()
    return [compression.decompress(each, context) for each, context in zip(reduced, contexts)]


@public
def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    if op not in (Average, Sum):
        raise NotImplementedError("sparse tensors can be averaged or summed only")
    entries = tensor.coalesce()
    indices = allgather_async(entries.indices().t().contiguous(), name=f"{name}.indices", process_set=process_set)
    values = allgather_async(entries.values().contiguous(), name=f"{name}.values", process_set=process_set)

    def finish() -> torch.Tensor:
        all_values = synchronize(values)
        all_indices = synchronize(indices)
        if op == Average:
            all_values = (all_values / process_set.size()).to(all_values.dtype)
        return torch.sparse_coo_tensor(all_indices.t(), all_values, tensor.size(), check_invariants=False)

    return finish


# ---- allgather -------------------------------------------------------------------------------------------------


def _start_allgather(tensor: Any, name: Optional[str], process_set: ProcessSet) -> Any:
    handle = _start(_ALLGATHER, name, tensor, None, process_set)
    return handle if isinstance(handle, _Call) else _Call([handle], lambda: _gathered(handle))


@public
def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return _keep(_start_allgather(tensor, name, process_set))


def _own_rows(gradient: torch.Tensor, rows: Sequence[int], process_set: ProcessSet) -> torch.Tensor:
    place = process_set.rank() or 0
    return gradient.narrow(0, sum(rows[:place]), rows[place])


class HorovodAllgather(torch.autograd.Function):
    """allgather with a gradient: averaged over ranks, then this rank's rows."""

    @staticmethod
    def forward(ctx, tensor, name, process_set: ProcessSet):  # type: ignore
        call = _start_allgather(tensor, name, process_set)
        gathered = call.finish()
        ctx.rows = call.handles[0].first_dims
        ctx.process_set = process_set
        return gathered

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore
        reduced = allreduce(grad_output.contiguous(), op=Average, process_set=ctx.process_set)
        return _own_rows(reduced, ctx.rows, ctx.process_set), None, None


@public
def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    if _records_gradients((tensor,)):
        return HorovodAllgather.apply(tensor, name, process_set)
    return _start_allgather(tensor, name, process_set).finish()


@public
def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return _keep(_start_group(_GROUPED_ALLGATHER, name, tensors, None, process_set))


class HorovodGroupedAllgather(torch.autograd.Function):
    """grouped_allgather with gradients: averaged over ranks as a group, then this rank's rows."""

    @staticmethod
    def forward(ctx, name, process_set: ProcessSet, *tensors):  # type: ignore
        call = _start_group(_GROUPED_ALLGATHER, name, tensors, None, process_set)
        gathered = call.finish()
        ctx.rows = [handle.first_dims for handle in call.handles]
        ctx.process_set = process_set
        return gathered

    @staticmethod
    def backward(ctx, *grad_output):  # type: ignore
        reduced = grouped_allreduce(
            [each.contiguous() for each in grad_output], op=Average, process_set=ctx.process_set
        )
        own = [_own_rows(each, rows, ctx.process_set) for each, rows in zip(reduced, ctx.rows)]
        return (None, None, *own)


@public
def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Tuple[torch.Tensor, ...]:
    if not tensors:
        return ()
    if _records_gradients(tensors):
        return HorovodGroupedAllgather.apply(name, process_set, *tensors)
    return _start_group(_GROUPED_ALLGATHER, name, tensors, None, process_set).finish()


# ---- broadcast -------------------------------------------------------------------------------------------------

_broadcast_requests: Dict[int, Any] = {}


def _from(root_rank: int) -> Any:
    request = _broadcast_requests.get(root_rank)
    if request is None:
        request = _native.Request(_operations.BROADCAST, "broadcast", Sum, root_rank)
        _broadcast_requests[root_rank] = request
    return request


@public
def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return _keep(_start(_from(root_rank), name, tensor, _like(tensor), process_set))


@public
def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return _keep(_start(_from(root_rank), name, tensor, tensor, process_set))


class HorovodBroadcast(torch.autograd.Function):
    """broadcast with a gradient: averaged over ranks on the root, zero elsewhere."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set: ProcessSet):  # type: ignore
        ctx.root_rank = root_rank
        ctx.process_set = process_set
        return _start(_from(root_rank), name, tensor, _like(tensor), process_set).finish()

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore
        reduced = allreduce(grad_output.contiguous(), op=Average, process_set=ctx.process_set)
        return reduced if rank() == ctx.root_rank else torch.zeros_like(reduced), None, None, None


@public
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    if _records_gradients((tensor,)):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)
    return _start(_from(root_rank), name, tensor, _like(tensor), process_set).finish()


@public
def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    _start(_from(root_rank), name, tensor, tensor, process_set).finish()
    return tensor


# ---- handles, barrier, join ------------------------------------------------------------------------------------


@public
def poll(handle: int) -> bool:
    call = _handles.get(handle)
    if call is None:
        raise ValueError(f"no operation has the handle {handle}: it was never given out, or has been synchronized")
    return call.settled()


@public
def synchronize(handle: int) -> Any:
    call = _handles.get(handle)
    if call is None:
        return None
    try:
        result = call.finish()
    except (HorovodInternalError, ValueError):
        _handles.pop(handle, None)
        raise
    _handles.pop(handle, None)
    return result


@public
def join(device: int = -1) -> int:
    handle = _job.runtime.submit(_JOIN, None, None, None, 0)
    handle.wait()
    return handle.last_rank


@public
def barrier(process_set: ProcessSet = global_process_set) -> None:
    _job.runtime.submit(_BARRIER, None, None, None, process_set.process_set_id).wait()
