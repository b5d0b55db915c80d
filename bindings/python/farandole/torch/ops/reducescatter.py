"""reducescatter: reduced over all ranks, and each keeps its share of the rows."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence  # noqa: F401  (the table of signatures names them)

import torch

from farandole.common.arguments import FAILURES
from farandole.common.basics import HorovodBasics
from farandole.common.calls import Call, grouped_scatters, rows_of_share, scatters
from farandole.common.process_sets import ProcessSet
from farandole.common.wrappers import public_in, wrapper_in
from farandole.torch.arguments import explain, explain_group, pack, pack_group, require_tensors
from farandole.torch.compression import Compression, GradientCompressor
from farandole.torch.entry import records_gradients, start, start_group
from farandole.torch.graph import gathers, is_tracing
from farandole.torch.ops.allgather import allgather, grouped_allgather

public = public_in("torch", Compression=Compression)
wrapper = wrapper_in("torch", __name__)


def _share_of(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Memory for this rank's rows."""
    rows = rows_of_share(tensor.size(0), process_set) if tensor.dim() else None
    if rows is None:
        return torch.empty(0, dtype=tensor.dtype)  # there are no rows, and the core says why not
    return torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device, requires_grad=False)


def start_scatter(request: Any, name: Optional[str], tensor: torch.Tensor, process_set: ProcessSet) -> Any:
    try:
        share = _share_of(tensor, process_set)
    except FAILURES:
        explain(request.prefix, name, tensor, process_set)
        raise
    return start(request, name, tensor, share, process_set, apart=True)


def start_group_scatter(
    request: Any, name: Optional[str], tensors: Sequence[torch.Tensor], process_set: ProcessSet
) -> Call:
    tensors = require_tensors(request.prefix, name, tensors)
    try:
        shares = [_share_of(each, process_set) for each in tensors]
    except FAILURES:
        explain_group(request.prefix, name, tensors, process_set)
        raise
    return start_group(request, name, tensors, shares, process_set, apart=True)


def _slope(op: int, process_set: ProcessSet, prescale: float, postscale: float) -> float:
    """What a gradient is multiplied by on its way back."""
    return prescale * postscale * ((process_set.size() or 1) if op == HorovodBasics.Sum else 1)


def _require_plain(compression: Any) -> None:
    if isinstance(compression, GradientCompressor):
        raise ValueError(
            f"{type(compression).__name__} compresses allreduces only; reducescatter takes none, fp16, bf16"
        )


reducescatter_async = wrapper("reducescatter_async", start_scatter)


class HorovodReducescatter(torch.autograd.Function):
    """reducescatter with a gradient: each rank's share is gathered for all."""

    @staticmethod
    def forward(ctx, tensor, name, op, process_set, prescale_factor, postscale_factor):
        ctx.process_set = process_set
        ctx.slope = _slope(op, process_set, prescale_factor, postscale_factor)
        request = scatters[op, prescale_factor, postscale_factor]
        return start_scatter(request, name, tensor, process_set).finish()

    @staticmethod
    def backward(ctx, grad_output):
        gathered = allgather(grad_output.contiguous(), process_set=ctx.process_set)
        return gathered * ctx.slope, None, None, None, None, None


@public
def reducescatter(tensor, name, compression, op, process_set, prescale_factor, postscale_factor):
    _require_plain(compression)
    if is_tracing():
        scales = (prescale_factor, postscale_factor)
        return gathers.reducescatter(tensor, compression, name, op, process_set, *scales)
    packed, context = pack("reducescatter", name, compression, tensor)
    if records_gradients((packed,)):
        share = HorovodReducescatter.apply(packed, name, op, process_set, prescale_factor, postscale_factor)
    else:
        request = scatters[op, prescale_factor, postscale_factor]
        share = start_scatter(request, name, packed, process_set).finish()
    return compression.decompress(share, context)


grouped_reducescatter_async = wrapper("grouped_reducescatter_async", start_group_scatter)


class HorovodGroupedReducescatter(torch.autograd.Function):
    """grouped_reducescatter with gradients: each rank's shares are gathered for all, as a group."""

    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):
        ctx.process_set = process_set
        ctx.slope = _slope(op, process_set, prescale_factor, postscale_factor)
        request = grouped_scatters[op, prescale_factor, postscale_factor]
        return start_group_scatter(request, name, tensors, process_set).finish()

    @staticmethod
    def backward(ctx, *grad_output):
        gathered = grouped_allgather([each.contiguous() for each in grad_output], process_set=ctx.process_set)
        return (None, None, None, None, None, *(each * ctx.slope for each in gathered))


@public
def grouped_reducescatter(tensors, name, compression, op, process_set, prescale_factor, postscale_factor):
    tensors = require_tensors("grouped_reducescatter", name, tensors)
    if not tensors:
        return []
    _require_plain(compression)
    if is_tracing():
        scales = (prescale_factor, postscale_factor)
        return gathers.grouped_reducescatter(tensors, compression, name, op, process_set, *scales)
    packed, contexts = pack_group("grouped_reducescatter", name, compression, tensors)
    if records_gradients(packed):
        shares = HorovodGroupedReducescatter.apply(name, op, process_set, prescale_factor, postscale_factor, *packed)
    else:
        request = grouped_scatters[op, prescale_factor, postscale_factor]
        shares = start_group_scatter(request, name, packed, process_set).finish()
    return [compression.decompress(each, context) for each, context in zip(shares, contexts)]
