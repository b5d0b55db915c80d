"""alltoall: rows for every rank, rows from every rank."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from farandole.common.arguments import head, row_counts
from farandole.common.calls import ALLTOALL_AT_ONCE, Call
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in, wrapper_in
from farandole.torch.entry import records_gradients, start_unsized
from farandole.torch.graph import exchanges, is_tracing

Splits = Union[torch.Tensor, Sequence[int], None]


_WHOLE = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


def _rows(name: Optional[str], splits: Splits) -> Optional[List[int]]:
    """How many rows go to each rank; None for equally many. Whether they add up is for the core to say."""
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        return row_counts("alltoall", name, splits)
    if splits.dtype not in _WHOLE:
        raise ValueError(
            f"{head('alltoall', name)} takes splits of int32 or int64, not {splits.dtype}; convert them with "
            "splits.to(torch.int32)"
        )
    if splits.dim() > 1:
        raise ValueError(
            f"{head('alltoall', name)} takes splits of one dimension, a number of rows for each rank, not of shape "
            f"{list(splits.shape)}; pass splits.flatten()"
        )
    return splits.reshape(-1).tolist() or None


def start_exchange(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet, splits: Splits) -> Call:
    call = start_unsized(request, name, tensor, process_set, _rows(name, splits))
    device = splits.device if isinstance(splits, torch.Tensor) else None

    def with_received_splits() -> Tuple[torch.Tensor, torch.Tensor]:
        return call.finish(), torch.tensor(call.handles[0].first_dims, dtype=torch.int32, device=device)

    return Call(call.handles, with_received_splits)


alltoall_async = wrapper_in("torch", __name__)("alltoall_async", start_exchange)


class HorovodAlltoall(torch.autograd.Function):
    """alltoall with a gradient: every row goes back to where it came from."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set: ProcessSet):
        output, received_splits = start_exchange(ALLTOALL_AT_ONCE, name, tensor, process_set, splits).finish()
        ctx.received_splits = received_splits
        ctx.process_set = process_set
        ctx.mark_non_differentiable(received_splits)
        return output, received_splits

    @staticmethod
    def backward(ctx, grad_output, *dead_gradients):
        returned, _ = alltoall(grad_output.contiguous(), splits=ctx.received_splits, process_set=ctx.process_set)
        return returned, None, None, None


@public_in("torch")
def alltoall(tensor, splits, name, process_set):
    if is_tracing():
        return exchanges.alltoall(tensor, splits, name, process_set)
    if records_gradients((tensor,)):
        output, received_splits = HorovodAlltoall.apply(tensor, splits, name, process_set)
    elif splits is None:
        return start_unsized(ALLTOALL_AT_ONCE, name, tensor, process_set).finish()
    else:
        output, received_splits = start_exchange(ALLTOALL_AT_ONCE, name, tensor, process_set, splits).finish()
    return output if splits is None else (output, received_splits)
