"""How tensors travel."""

from __future__ import annotations

from typing import Any, Tuple

from farandole.tensorflow.kernels import tf


class Compressor:
    """What a compressor offers; derive from it to make your own."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """What travels, and whatever ``decompress`` needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """What arrived, as it was before."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Tensors travel as they are."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """The tensor."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor."""
        return tensor


class _Narrower(Compressor):
    """Floating point tensors travel in another type; all others as they are."""

    travels_as: Any

    @classmethod
    def _narrow(cls, tensor: Any) -> Tuple[Any, Any]:
        if not tensor.dtype.is_floating or tensor.dtype == cls.travels_as:
            return tensor, None
        return tf.cast(tensor, cls.travels_as), tensor.dtype

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """The tensor in its own type."""
        return tensor if ctx is None else tf.cast(tensor, ctx)


class FP16Compressor(_Narrower):
    """Floating point tensors travel as float16."""

    travels_as = tf.float16

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """The tensor in 16 bits, and its own type."""
        return FP16Compressor._narrow(tensor)


class BF16Compressor(_Narrower):
    """Floating point tensors travel as bfloat16, which keeps float32's range."""

    travels_as = tf.bfloat16

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """The tensor in 16 bits, and its own type."""
        return BF16Compressor._narrow(tensor)


class Compression:
    """The compressors that there are."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
