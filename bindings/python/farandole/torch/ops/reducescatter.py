"""reducescatter: reduced over all ranks, and each keeps its share of the rows."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch

from farandole.common.arguments import FAILURES
from farandole.common.basics import HorovodBasics
from farandole.common.calls import Call, grouped_scatters, rows_of_share, scatters
from farandole.common.handles import keep
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.torch.arguments import explain, explain_group, pack, pack_group, require_tensors
from farandole.torch.compression import Compression, GradientCompressor
from farandole.torch.entry import records_gradients, start, start_group
from farandole.torch.graph import gathers, is_tracing
from farandole.torch.ops.allgather import allgather, grouped_allgather

Average = HorovodBasics.Average


def _share_of(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Memory for this rank's rows."""
    rows = rows_of_share(tensor.size(0), process_set) if tensor.dim() else None
    if rows is None:
        return torch.empty(0, dtype=tensor.dtype)  # there are no rows, and the core says why not
    return torch.empty((rows, *tensor.shape[1:]), dtype=tensor.dtype, device=tensor.device, requires_grad=False)


def _start(
    tensor: torch.Tensor, name: Optional[str], op: int, process_set: ProcessSet, prescale: float, postscale: float
) -> Any:
    request = scatters[op, prescale, postscale]
    try:
        share = _share_of(tensor, process_set)
    except FAILURES:
        explain(request.prefix, name, tensor, process_set)
        raise
    return start(request, name, tensor, share, process_set, apart=True)


def _start_group(
    tensors: Sequence[torch.Tensor],
    name: Optional[str],
    op: int,
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
) -> Call:
    request = grouped_scatters[op, prescale, postscale]
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


@public
def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    return keep(_start(tensor, name, op, process_set, prescale_factor, postscale_factor))


class HorovodReducescatter(torch.autograd.Function):
    """reducescatter with a gradient: each rank's share is gathered for all."""

    @staticmethod
    def forward(ctx, tensor, name, op, process_set, prescale_factor, postscale_factor):  # type: ignore
        ctx.process_set = process_set
        ctx.slope = _slope(op, process_set, prescale_factor, postscale_factor)
        return _start(tensor, name, op, process_set, prescale_factor, postscale_factor).finish()

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore
        gathered = allgather(grad_output.contiguous(), process_set=ctx.process_set)
        return gathered * ctx.slope, None, None, None, None, None


@public
def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    _require_plain(compression)
    if is_tracing():
        scales = (prescale_factor, postscale_factor)
        return gathers.reducescatter(tensor, compression, name, op, process_set, *scales)
    packed, context = pack("reducescatter", name, compression, tensor)
    if records_gradients((packed,)):
        share = HorovodReducescatter.apply(packed, name, op, process_set, prescale_factor, postscale_factor)
    else:
        share = _start(packed, name, op, process_set, prescale_factor, postscale_factor).finish()
    return compression.decompress(share, context)


@public
def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    return keep(_start_group(tensors, name, op, process_set, prescale_factor, postscale_factor))


class HorovodGroupedReducescatter(torch.autograd.Function):
    """grouped_reducescatter with gradients: each rank's shares are gathered for all, as a group."""

    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):  # type: ignore
        ctx.process_set = process_set
        ctx.slope = _slope(op, process_set, prescale_factor, postscale_factor)
        return _start_group(tensors, name, op, process_set, prescale_factor, postscale_factor).finish()

    @staticmethod
    def backward(ctx, *grad_output):  # type: ignore
        gathered = grouped_allgather([each.contiguous() for each in grad_output], process_set=ctx.process_set)
        return (None, None, None, None, None, *(each * ctx.slope for each in gathered))


@public
def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
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
        shares = _start_group(packed, name, op, process_set, prescale_factor, postscale_factor).finish()
    return [compression.decompress(each, context) for each, context in zip(shares, contexts)]
