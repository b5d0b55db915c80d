"""reducescatter: reduced over all ranks, and each keeps its share of the rows."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch

from farandole.common.arguments import FAILURES
from farandole.common.basics import HorovodBasics
from farandole.common.calls import Call, rows_of_share
from farandole.common.process_sets import ProcessSet
from farandole.torch import arguments
from farandole.torch.arguments import explain, explain_group, require_tensors
from farandole.torch.compression import Compression, GradientCompressor
from farandole.torch.entry import start, start_group
from farandole.torch.graph import gathers
from farandole.torch.ops.allgather import allgather, grouped_allgather
from farandole.torch.ops.recorded import Gradients, recorded_in, wrapper_for


def _share_of(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Memory for this rank's rows."""
    rows = rows_of_share(tensor.size(0), process_set) if tensor.dim() else None
    if rows is None:
        return torch.empty(0, dtype=tensor.dtype)  # there are no rows, and the core reports why
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


def pack(operation: str, name: Optional[str], compression: Any, tensor: Any) -> Tuple[torch.Tensor, Any]:
    _require_plain(compression)
    return arguments.pack(operation, name, compression, tensor)


def pack_group(operation: str, name: Optional[str], compression: Any, tensors: Any) -> Tuple[Any, Any]:
    _require_plain(compression)
    return arguments.pack_group(operation, name, compression, tensors)


def _require_plain(compression: Any) -> None:
    if isinstance(compression, GradientCompressor):
        raise ValueError(
            f"{type(compression).__name__} compresses allreduces only; reducescatter takes none, fp16, bf16"
        )


def gathered(ctx: Any, gradients: Gradients) -> Gradients:
    """each rank's share is gathered for all."""
    _, op, process_set, prescale, postscale = ctx.options
    slope = prescale * postscale * ((process_set.size() or 1) if op == HorovodBasics.Sum else 1)
    if ctx.is_group:
        return [each * slope for each in grouped_allgather(gradients, process_set=process_set)]
    return [allgather(gradients[0], process_set=process_set) * slope]


wrapper = wrapper_for(__name__, Compression=Compression, pack=pack, pack_group=pack_group)
recorded = recorded_in(__name__)

HorovodReducescatter = recorded("reducescatter", start_scatter, gathered)
HorovodGroupedReducescatter = recorded("grouped_reducescatter", start_group_scatter, gathered)

reducescatter, reducescatter_async = wrapper.both("reducescatter", start_scatter, gathers, HorovodReducescatter)
grouped_reducescatter, grouped_reducescatter_async = wrapper.both(
    "grouped_reducescatter", start_group_scatter, gathers, HorovodGroupedReducescatter
)
