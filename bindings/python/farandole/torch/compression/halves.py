"""Conversion of PyTorch tensors to 16 bits."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import torch

from farandole.common.compression import HalfPrecision, NoneCompressor
from farandole.torch import entry
from farandole.torch.graph.node import is_tracing
from farandole.torch.memory import warm_memory

_LARGE_BYTES = 1 << 20


class _HalfPrecision(HalfPrecision):
    @classmethod
    def converts(cls, dtype: torch.dtype) -> bool:
        return dtype.is_floating_point and dtype != cls.dtype

    @staticmethod
    def convert(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """``tensor.to(dtype)``. A large tensor is converted into memory that was used before, if there is any,
        because faulting in new pages takes longer than the conversion."""
        plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.is_contiguous()
        if plain and tensor.numel() * tensor.element_size() >= _LARGE_BYTES and not entry.records_gradients((tensor,)):
            memory = warm_memory(dtype, tensor.numel())
            if memory is not None:
                return memory.view(tensor.shape).copy_(tensor.detach())
        return tensor.to(dtype)


def compress_at_once(
    compression: Any, tensors: Sequence[torch.Tensor]
) -> Optional[Tuple[Tuple[torch.Tensor, ...], Tuple[Any, ...]]]:
    """What ``compress`` returns for each tensor, as two tuples. None if this function does not apply.

    Plain tensors of GPUs are converted by one launch for all of them, because a launch for each would take longer than
    the conversion.
    """
    if compression is NoneCompressor:
        return tuple(tensors), (None,) * len(tensors)
    if compression not in (FP16Compressor, BF16Compressor) or not can_convert_at_once(tensors):
        return None
    contexts = tuple(each.dtype if compression.converts(each.dtype) else None for each in tensors)
    return convert_at_once(tensors, [compression.dtype if context else None for context in contexts]), contexts


def decompress_all(
    compression: Any, tensors: Sequence[torch.Tensor], contexts: Sequence[Any]
) -> Sequence[torch.Tensor]:
    """What ``decompress`` returns for each tensor."""
    if compression is NoneCompressor:
        return list(tensors)
    if compression in (FP16Compressor, BF16Compressor) and can_convert_at_once(tensors):
        return list(convert_at_once(tensors, contexts))
    return [compression.decompress(each, context) for each, context in zip(tensors, contexts)]


def can_convert_at_once(tensors: Sequence[torch.Tensor]) -> bool:
    return (
        hasattr(torch, "_foreach_copy_")  # not before PyTorch 2.2
        and all(type(each) is torch.Tensor and each.is_cuda and each.layout == torch.strided for each in tensors)
        and not entry.records_gradients(tensors)
        and not is_tracing()
    )


def convert_at_once(
    tensors: Sequence[torch.Tensor], dtypes: Sequence[Optional[torch.dtype]]
) -> Tuple[torch.Tensor, ...]:
    """Each tensor in its type; the tensor itself where that is None."""
    results = [each if dtype is None else torch.empty_like(each, dtype=dtype) for each, dtype in zip(tensors, dtypes)]
    pairs = [(result, each) for result, each in zip(results, tensors) if result is not each]
    if pairs:
        targets, sources = zip(*pairs)
        torch._foreach_copy_(targets, sources)
    return tuple(results)


class FP16Compressor(_HalfPrecision):
    """Sends floating-point tensors as float16."""

    dtype = torch.float16


class BF16Compressor(_HalfPrecision):
    """Sends floating-point tensors as bfloat16, which has the range of float32 and fewer digits."""

    dtype = torch.bfloat16
