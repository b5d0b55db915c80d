"""How gradients travel: as they are, or in half the bytes."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import mxnet as mx
import numpy

_BFLOAT16 = numpy.dtype([("bfloat16", numpy.uint16)])  # what MXNet calls it


class Compressor:
    """What a compressor offers; derive from it to make your own."""

    @staticmethod
    def compress(tensor: mx.nd.NDArray) -> Tuple[mx.nd.NDArray, Any]:
        """What travels, and whatever ``decompress`` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: Any) -> mx.nd.NDArray:
        """What arrived, as it was before."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Arrays travel as they are."""

    @staticmethod
    def compress(tensor: mx.nd.NDArray) -> Tuple[mx.nd.NDArray, None]:
        """The array."""
        return tensor, None

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: Any) -> mx.nd.NDArray:
        """The array."""
        return tensor


def _narrowed(tensor: mx.nd.NDArray, dtype: Any) -> Tuple[mx.nd.NDArray, Any]:
    """Wider floating point arrays in another type, with their own; all others as they are."""
    own = tensor.dtype
    return (tensor.astype(dtype), own) if own in (numpy.float32, numpy.float64) else (tensor, None)


class FP16Compressor(Compressor):
    """Floating point arrays travel as float16."""

    @staticmethod
    def compress(tensor: mx.nd.NDArray) -> Tuple[mx.nd.NDArray, Optional[Any]]:
        """The array as float16, and its own type."""
        return _narrowed(tensor, numpy.float16)

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: Optional[Any]) -> mx.nd.NDArray:
        """The array in its own type."""
        return tensor if ctx is None else tensor.astype(ctx)


class BF16Compressor(Compressor):
    """Floating point arrays travel as bfloat16: float32's range, fewer digits."""

    @staticmethod
    def compress(tensor: mx.nd.NDArray) -> Tuple[mx.nd.NDArray, Optional[Any]]:
        """The array as bfloat16, and its own type."""
        return _narrowed(tensor, _BFLOAT16)

    @staticmethod
    def decompress(tensor: mx.nd.NDArray, ctx: Optional[Any]) -> mx.nd.NDArray:
        """The array in its own type."""
        return tensor if ctx is None else tensor.astype(ctx)


class Compression:
    """The compressors that come with Farandole."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
