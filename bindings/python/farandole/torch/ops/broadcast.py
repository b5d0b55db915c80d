"""broadcast: one rank's tensor for all."""

from __future__ import annotations

from typing import Optional

import torch

from farandole.common import job
from farandole.common.basics import HorovodBasics
from farandole.common.calls import broadcasts
from farandole.common.handles import keep
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.torch.entry import records_gradients, start, start_new
from farandole.torch.graph import is_tracing, reductions
from farandole.torch.ops.allreduce import allreduce


@public
def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return keep(start_new(broadcasts[root_rank], name, tensor, process_set))


@public
def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> int:
    return keep(start(broadcasts[root_rank], name, tensor, tensor, process_set))


class HorovodBroadcast(torch.autograd.Function):
    """broadcast with a gradient: averaged over ranks on the root, zero elsewhere."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set: ProcessSet):  # type: ignore
        ctx.root_rank = root_rank
        ctx.process_set = process_set
        return start_new(broadcasts[root_rank], name, tensor, process_set).finish()

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore
        reduced = allreduce(grad_output.contiguous(), op=HorovodBasics.Average, process_set=ctx.process_set)
        return reduced if job.where().rank == ctx.root_rank else torch.zeros_like(reduced), None, None, None


@public
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    if is_tracing():
        return reductions.broadcast(tensor, root_rank, name, process_set)
    if records_gradients((tensor,)):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)
    return start_new(broadcasts[root_rank], name, tensor, process_set).finish()


@public
def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    if is_tracing():
        return reductions.broadcast_(tensor, root_rank, name, process_set)
    start(broadcasts[root_rank], name, tensor, tensor, process_set).finish()
    return tensor
