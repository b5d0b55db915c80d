"""Compressors for ``compression=``: none, and conversion to 16 bits."""

from __future__ import annotations

from typing import Any

import numpy
from mxnet.ndarray import NDArray

from farandole.common.compression import Compressor, HalfPrecision, NoneCompressor

__all__ = ["BF16Compressor", "Compression", "Compressor", "FP16Compressor", "NoneCompressor"]


class _HalfPrecision(HalfPrecision):
    @classmethod
    def converts(cls, dtype: Any) -> bool:
        return dtype in (numpy.float32, numpy.float64)

    @staticmethod
    def convert(tensor: Any, dtype: Any) -> Any:
        converted = tensor.as_nd_ndarray().astype(dtype)  # that of mx.np does not know bfloat16
        return converted if type(tensor) is NDArray else converted.as_np_ndarray()


class FP16Compressor(_HalfPrecision):
    """Sends wider floating-point arrays as float16."""

    dtype = numpy.float16


class BF16Compressor(_HalfPrecision):
    """Sends wider floating-point arrays as bfloat16, which has the range of float32 and fewer digits."""

    dtype = numpy.dtype([("bfloat16", numpy.uint16)])  # MXNet's name for it


class Compression:
    """The compressors that Farandole provides."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
