"""allgather: the tensors of all ranks, one after the other."""

from __future__ import annotations

from typing import Optional, Sequence, Tuple  # noqa: F401  (the table of signatures names them)

import torch

from farandole.common.basics import HorovodBasics
from farandole.common.calls import ALLGATHER_AT_ONCE, GROUPED_ALLGATHER
from farandole.common.handles import keep
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in, wrapper_in
from farandole.torch.arguments import require_tensors
from farandole.torch.entry import records_gradients, start_group, start_unsized
from farandole.torch.graph import gathers, is_tracing
from farandole.torch.ops.allreduce import allreduce, grouped_allreduce

public = public_in("torch")
wrapper = wrapper_in("torch", __name__)

allgather_async = wrapper("allgather_async", start_unsized)


def _own_rows(gradient: torch.Tensor, rows: Sequence[int], process_set: ProcessSet) -> torch.Tensor:
    place = process_set.rank() or 0
    return gradient.narrow(0, sum(rows[:place]), rows[place])


class HorovodAllgather(torch.autograd.Function):
    """allgather with a gradient: averaged over ranks, then this rank's rows."""

    @staticmethod
    def forward(ctx, tensor, name, process_set: ProcessSet):
        call = start_unsized(ALLGATHER_AT_ONCE, name, tensor, process_set)
        gathered = call.finish()
        ctx.rows = call.handles[0].first_dims
        ctx.process_set = process_set
        return gathered

    @staticmethod
    def backward(ctx, grad_output):
        reduced = allreduce(grad_output.contiguous(), op=HorovodBasics.Average, process_set=ctx.process_set)
        return _own_rows(reduced, ctx.rows, ctx.process_set), None, None


@public
def allgather(tensor, name, process_set):
    if is_tracing():
        return gathers.allgather(tensor, name, process_set)
    if records_gradients((tensor,)):
        return HorovodAllgather.apply(tensor, name, process_set)
    return start_unsized(ALLGATHER_AT_ONCE, name, tensor, process_set).finish()


@public
def grouped_allgather_async(tensors, name, process_set):
    return keep(start_group(GROUPED_ALLGATHER, name, tensors, None, process_set))


class HorovodGroupedAllgather(torch.autograd.Function):
    """grouped_allgather with gradients: averaged over ranks as a group, then this rank's rows."""

    @staticmethod
    def forward(ctx, name, process_set: ProcessSet, *tensors):
        call = start_group(GROUPED_ALLGATHER, name, tensors, None, process_set)
        gathered = call.finish()
        ctx.rows = [handle.first_dims for handle in call.handles]
        ctx.process_set = process_set
        return gathered

    @staticmethod
    def backward(ctx, *grad_output):
        reduced = grouped_allreduce(
            [each.contiguous() for each in grad_output], op=HorovodBasics.Average, process_set=ctx.process_set
        )
        own = [_own_rows(each, rows, ctx.process_set) for each, rows in zip(reduced, ctx.rows)]
        return (None, None, *own)


@public
def grouped_allgather(tensors, name, process_set):
    tensors = require_tensors("grouped_allgather", name, tensors)
    if not tensors:
        return ()
    if is_tracing():
        return gathers.grouped_allgather(tensors, name, process_set)
    if records_gradients(tensors):
        return HorovodGroupedAllgather.apply(name, process_set, *tensors)
    return start_group(GROUPED_ALLGATHER, name, tensors, None, process_set).finish()
