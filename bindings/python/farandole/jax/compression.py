"""How tensors travel: as they are, or in half the bytes."""

from __future__ import annotations

from typing import Any, Tuple

import jax.numpy as jnp


class Compressor:
    """What a compressor of your own has."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """What travels, and what ``decompress`` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """What came, as it was before."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor


class _Half(Compressor):
    dtype: Any

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        """Floating-point tensors alone change."""
        if not jnp.issubdtype(tensor.dtype, jnp.floating):
            return tensor, tensor.dtype
        return tensor.astype(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor.astype(ctx)


class FP16Compressor(_Half):
    """Floating-point tensors travel as float16."""

    dtype = jnp.float16


class BF16Compressor(_Half):
    """Floating-point tensors travel as bfloat16, which keeps float32's range."""

    dtype = jnp.bfloat16


class Compression:
    """The compressors that come with Farandole."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
