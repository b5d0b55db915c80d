"""broadcast: one rank's tensor for all."""

from __future__ import annotations

from typing import Optional  # noqa: F401  (the table of signatures names them)

import torch

from farandole.common import job
from farandole.common.basics import HorovodBasics
from farandole.common.calls import broadcasts
from farandole.common.handles import keep
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in, wrapper_in
from farandole.torch.entry import records_gradients, start, start_new
from farandole.torch.graph import is_tracing, reductions
from farandole.torch.ops.allreduce import allreduce

public = public_in("torch")

broadcast_async = wrapper_in("torch", __name__)("broadcast_async", start_new)


@public
def broadcast_async_(tensor, root_rank, name, process_set):
    return keep(start(broadcasts[root_rank], name, tensor, tensor, process_set))


class HorovodBroadcast(torch.autograd.Function):
    """broadcast with a gradient: averaged over ranks on the root, zero elsewhere."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set: ProcessSet):
        ctx.root_rank = root_rank
        ctx.process_set = process_set
        return start_new(broadcasts[root_rank], name, tensor, process_set).finish()

    @staticmethod
    def backward(ctx, grad_output):
        reduced = allreduce(grad_output.contiguous(), op=HorovodBasics.Average, process_set=ctx.process_set)
        return reduced if job.where().rank == ctx.root_rank else torch.zeros_like(reduced), None, None, None


@public
def broadcast(tensor, root_rank, name, process_set):
    if is_tracing():
        return reductions.broadcast(tensor, root_rank, name, process_set)
    if records_gradients((tensor,)):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)
    return start_new(broadcasts[root_rank], name, tensor, process_set).finish()


@public
def broadcast_(tensor, root_rank, name, process_set):
    if is_tracing():
        return reductions.broadcast_(tensor, root_rank, name, process_set)
    start(broadcasts[root_rank], name, tensor, tensor, process_set).finish()
    return tensor
