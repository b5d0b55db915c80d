"""allreduce: the same sum, average, minimum, maximum or product on every rank."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple  # noqa: F401  (the table of signatures names them)

import torch

from farandole.common import job as _job
from farandole.common.arguments import FAILURES
from farandole.common.calls import grouped_reduction, handle_average_backwards_compatibility, reduction, requests
from farandole.common.handles import keep, kept
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in, wrapper_in
from farandole.torch.arguments import explain, pack, pack_group, require_tensors
from farandole.torch.compression import Compression, GradientCompressor
from farandole.torch.entry import (
    OFFERS_EXCHANGE_TABLE,
    is_on_gpu,
    records_gradients,
    start,
    start_group,
    start_group_new,
    start_new,
)
from farandole.torch.exchange import reduce
from farandole.torch.graph import is_tracing, reductions
from farandole.torch.ops.piecewise import allreduce_in_pieces, pays

public = public_in("torch", Compression=Compression)
wrapper = wrapper_in("torch", __name__)

_NAMELESS = "a compressor that remembers errors needs the tensor's name: give name="


def _is_own(compression: Any, context: Any) -> bool:
    """Whether the packed tensor was made by a compressor of ours, so that its memory may take the result."""
    return context is not None and compression in (Compression.fp16, Compression.bf16)


allreduce_async = wrapper("allreduce_async", start_new)


@public
def allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set):
    # Every gradient of a hand-written loop comes this way: the common case takes one native call.
    if op is None or average is not None:
        op = handle_average_backwards_compatibility(op, average)
    if prescale_factor == 1.0 and postscale_factor == 1.0:
        request = requests.unscaled.get(op)
    else:
        request = requests.get((op, prescale_factor, postscale_factor))
    if request is not None and OFFERS_EXCHANGE_TABLE:
        try:
            return _job.runtime.submit_kept(kept, request, name, tensor, tensor, process_set.process_set_id)
        except FAILURES:
            explain(request.prefix, name, tensor, process_set, in_place=True)
            if not is_on_gpu(tensor):
                raise
    request = reduction(None, op, prescale_factor, postscale_factor)
    return keep(start(request, name, tensor, tensor, process_set))


@public
def allreduce_(tensor, average, name, op, prescale_factor, postscale_factor, process_set):
    if is_tracing():
        return reductions.allreduce_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
    request = reduction(average, op, prescale_factor, postscale_factor)
    start(request, name, tensor, tensor, process_set).finish()
    return tensor


class HorovodAllreduce(torch.autograd.Function):
    """allreduce with a gradient: the gradients are reduced in the same way."""

    @staticmethod
    def forward(ctx, tensor, average, name, op, prescale_factor, postscale_factor, process_set):
        ctx.options = (average, op, prescale_factor, postscale_factor, process_set)
        request = reduction(average, op, prescale_factor, postscale_factor)
        return start_new(request, name, tensor, process_set).finish()

    @staticmethod
    def backward(ctx, grad_output):
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
def allreduce(tensor, average, name, compression, op, prescale_factor, postscale_factor, process_set):
    if isinstance(compression, GradientCompressor):
        if name is None:
            raise ValueError(_NAMELESS)
        return reduce(compression, [tensor], [name], average, op, prescale_factor, postscale_factor, process_set)[0]
    if is_tracing():
        how = (average, name, op, prescale_factor, postscale_factor, process_set)
        return reductions.allreduce(tensor, compression, *how)
    if pays(tensor, compression, op) and not records_gradients((tensor,)):
        return allreduce_in_pieces(
            reduction(average, op, prescale_factor, postscale_factor), name, tensor, compression, process_set
        )
    packed, context = pack("allreduce", name, compression, tensor)
    if records_gradients((packed,)):
        reduced = HorovodAllreduce.apply(packed, average, name, op, prescale_factor, postscale_factor, process_set)
    else:
        request = reduction(average, op, prescale_factor, postscale_factor)
        if _is_own(compression, context):
            reduced = start(request, name, packed, packed, process_set).finish()
        else:
            reduced = start_new(request, name, packed, process_set).finish()
    return compression.decompress(reduced, context)


grouped_allreduce_async = wrapper("grouped_allreduce_async", start_group_new)


@public
def grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set):
    request = grouped_reduction(average, op, prescale_factor, postscale_factor)
    tensors = require_tensors(request.prefix, name, tensors)
    return keep(start_group(request, name, tensors, list(tensors), process_set))


@public
def grouped_allreduce_(tensors, average, name, op, prescale_factor, postscale_factor, process_set):
    tensors = require_tensors("grouped_allreduce", name, tensors)
    if is_tracing():
        return reductions.grouped_allreduce_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    request = grouped_reduction(average, op, prescale_factor, postscale_factor)
    start_group(request, name, tensors, list(tensors), process_set).finish()
    return tuple(tensors)


class HorovodGroupedAllreduce(torch.autograd.Function):
    """grouped_allreduce with gradients: they are reduced in the same way, as a group."""

    @staticmethod
    def forward(ctx, average, name, op, prescale_factor, postscale_factor, process_set: ProcessSet, *tensors):
        ctx.options = (average, op, prescale_factor, postscale_factor, process_set)
        request = grouped_reduction(average, op, prescale_factor, postscale_factor)
        return start_group_new(request, name, tensors, process_set).finish()

    @staticmethod
    def backward(ctx, *grad_output):
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
def grouped_allreduce(tensors, average, name, compression, op, prescale_factor, postscale_factor, process_set):
    tensors = require_tensors("grouped_allreduce", name, tensors)
    if not tensors:
        return []
    if isinstance(compression, GradientCompressor):
        if name is None:
            raise ValueError(_NAMELESS)
        names = [f"{name}.{number}" for number in range(len(tensors))]
        return reduce(compression, tensors, names, average, op, prescale_factor, postscale_factor, process_set)
    if is_tracing():
        how = (average, name, op, prescale_factor, postscale_factor, process_set)
        return reductions.grouped_allreduce(tensors, compression, *how)
    packed, contexts = pack_group("grouped_allreduce", name, compression, tensors)
    if records_gradients(packed):
        reduced = HorovodGroupedAllreduce.apply(
            average, name, op, prescale_factor, postscale_factor, process_set, *packed
        )
    else:
        request = grouped_reduction(average, op, prescale_factor, postscale_factor)
        reused = [_is_own(compression, context) for context in contexts]
        reduced = start_group_new(request, name, packed, process_set, reused).finish()
    return [compression.decompress(each, context) for each, context in zip(reduced, contexts)]
