"""Conversion of PyTorch tensors to 16 bits."""

from __future__ import annotations

import torch

from farandole.common.compression import HalfPrecision
from farandole.torch import entry
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


class FP16Compressor(_HalfPrecision):
    """Sends floating-point tensors as float16."""

    dtype = torch.float16


class BF16Compressor(_HalfPrecision):
    """Sends floating-point tensors as bfloat16, which has the range of float32 and fewer digits."""

    dtype = torch.bfloat16
