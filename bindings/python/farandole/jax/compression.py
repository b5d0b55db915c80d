"""Compressors for ``compression=``: none, and conversion to 16 bits."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from farandole.common.compression import Compressor, HalfPrecision, NoneCompressor

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class _HalfPrecision(HalfPrecision):
    @classmethod
    def converts(cls, dtype: Any) -> bool:
        return jnp.issubdtype(dtype, jnp.floating) and dtype != cls.dtype


class FP16Compressor(_HalfPrecision):
    """Sends floating-point tensors as float16."""

    dtype = jnp.float16


class BF16Compressor(_HalfPrecision):
    """Sends floating-point tensors as bfloat16, which has the range of float32 and fewer digits."""

    dtype = jnp.bfloat16


class Compression:
    """The compressors that Farandole provides."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
