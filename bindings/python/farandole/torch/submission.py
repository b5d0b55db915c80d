"""Passes tensors to the native runtime: by DLPack's exchange table if PyTorch has it, or else by a description."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import torch

from farandole.common import job as _job
from farandole.torch.dtypes import NUMBERS

untraced: Callable[[Callable[..., Any]], Callable[..., Any]] = getattr(torch, "_disable_dynamo", lambda each: each)
"""Marks a function that a compiled step calls as it is. Otherwise Dynamo would compile the hook of each parameter, and
all that it calls, again and again: they break the graph, and find another state each time."""


def _describe(operation: str, tensor: torch.Tensor) -> Tuple[Any, ...]:
    """The description of a tensor for the native module: address, type, shape, the tensor, which keeps the memory
    alive, and on a GPU the device and the current stream. Used if this PyTorch has no DLPack exchange table."""
    number = NUMBERS.get(tensor.dtype)
    if number is None:
        supported = [each for each in NUMBERS if each != torch.bool or "reduce" not in operation]
        raise ValueError(f"{operation} does not support {tensor.dtype} (supported: {', '.join(map(str, supported))})")
    if tensor.layout != torch.strided:
        raise ValueError(f"the tensor has no plain memory (it is sparse, or has no data): {tensor.layout}")
    if tensor.is_neg():
        raise NotImplementedError("the tensor is negated lazily: its memory holds other values")
    if not tensor.is_contiguous():
        raise ValueError("the tensor must be contiguous; call .contiguous() first")
    described = tensor.data_ptr(), number, tuple(tensor.shape), tensor
    if tensor.is_cuda:
        return (*described, tensor.get_device(), torch.cuda.current_stream(tensor.device).cuda_stream)
    if tensor.device.type != "cpu":
        raise ValueError(f"the tensor is neither in host memory nor on a GPU, but on {tensor.device}")
    return described


OFFERS_EXCHANGE_TABLE = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")

if OFFERS_EXCHANGE_TABLE:

    def submit(
        request: Any,
        name: Optional[str],
        tensor: Any,
        output: Any,
        set_id: Any,
        splits: Optional[List[int]] = None,
        absent: bool = False,
    ) -> Any:
        return _job.runtime.submit(request, name, tensor, output, set_id, splits, absent)

    def submit_group(
        request: Any, name: Any, tensors: Any, outputs: Any, set_id: Optional[int], absent: Optional[List[bool]] = None
    ) -> Any:
        return _job.runtime.submit_group(request, name, tensors, outputs, set_id, absent)

else:

    def submit(
        request: Any,
        name: Optional[str],
        tensor: Any,
        output: Any,
        set_id: Any,
        splits: Optional[List[int]] = None,
        absent: bool = False,
    ) -> Any:
        described = _describe(request.prefix, tensor)
        target = described if output is tensor else None if output is None else _describe(request.prefix, output)
        return _job.runtime.submit(request, name, described, target, set_id, splits, absent)

    def submit_group(
        request: Any, name: Any, tensors: Any, outputs: Any, set_id: Optional[int], absent: Optional[List[bool]] = None
    ) -> Any:
        described = [_describe(request.prefix, tensor) for tensor in tensors]
        targets = None if outputs is None else [_describe(request.prefix, output) for output in outputs]
        return _job.runtime.submit_group(request, name, described, targets, set_id, absent)
