"""Compressors that change a tensor before it is reduced and change it back after: none, and the two halves."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from farandole.torch import entry
from farandole.torch.memory import warm_memory

_LARGE_BYTES = 1 << 20


class Compressor:
    """What a compressor offers; derive from it to make your own."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """What travels, and whatever ``decompress`` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """What arrived, as it was before."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, None]:
        """The tensor."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tensor."""
        return tensor


class _Narrower(Compressor):
    """Floating point tensors travel in another type; all others as they are."""

    travels_as: torch.dtype

    @classmethod
    def _narrow(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
        if not tensor.dtype.is_floating_point or tensor.dtype == cls.travels_as:
            return tensor, None
        return _converted(tensor, cls.travels_as), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Optional[torch.dtype]) -> torch.Tensor:
        """The tensor in its own type."""
        return tensor if ctx is None else _converted(tensor, ctx)


class FP16Compressor(_Narrower):
    """Floating point tensors travel as float16."""

    travels_as = torch.float16

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
        """The tensor as float16, and its own type."""
        return FP16Compressor._narrow(tensor)


class BF16Compressor(_Narrower):
    """Floating point tensors travel as bfloat16: float32's range, fewer digits."""

    travels_as = torch.bfloat16

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
        """The tensor as bfloat16, and its own type."""
        return BF16Compressor._narrow(tensor)


def _converted(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """``tensor.to(dtype)``, where the type is another one. New pages take longer than the conversion, so what is large
    gets memory that was used before."""
    plain = tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.is_contiguous()
    if plain and tensor.numel() * tensor.element_size() >= _LARGE_BYTES and not entry.records_gradients((tensor,)):
        memory = warm_memory(dtype, tensor.numel())
        if memory is not None:
            return memory.view(tensor.shape).copy_(tensor.detach())
    return tensor.to(dtype)
