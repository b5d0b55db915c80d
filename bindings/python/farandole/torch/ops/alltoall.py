"""alltoall: rows for every rank, rows from every rank."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

import torch

from farandole.common.arguments import type_of_counts
from farandole.common.calls import Call, alltoalls
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in
from farandole.torch.arguments import splits_of
from farandole.torch.entry import records_gradients, start_unsized
from farandole.torch.graph import exchanges, is_tracing
from farandole.torch.ops.recorded import wrapper_for

Splits = Union[torch.Tensor, Sequence[int], None]


def start_exchange(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet, splits: Splits) -> Call:
    call = start_unsized(request, name, tensor, process_set, splits_of(name, splits))
    device = splits.device if isinstance(splits, torch.Tensor) else None

    def with_received_splits() -> Tuple[torch.Tensor, torch.Tensor]:
        received = call.finish()
        rows = call.handles[0].first_dims
        return received, torch.tensor(rows, dtype=getattr(torch, type_of_counts(rows)), device=device)

    return Call(call.handles, with_received_splits)


alltoall_async = wrapper_for(__name__)("alltoall_async", start_exchange)


class HorovodAlltoall(torch.autograd.Function):
    """alltoall with a gradient: every row of the gradient is returned to the rank that sent the row."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set: ProcessSet):
        output, received_splits = start_exchange(alltoalls[True], name, tensor, process_set, splits).finish()
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
        return start_unsized(alltoalls[True], name, tensor, process_set).finish()
    else:
        output, received_splits = start_exchange(alltoalls[True], name, tensor, process_set, splits).finish()
    return output if splits is None else (output, received_splits)
