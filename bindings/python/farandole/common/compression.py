"""Compressors that change a tensor before it is sent and change it back after it is received."""

from __future__ import annotations

from typing import Any, Tuple


class Compressor:
    """The interface of a compressor. Derive from it to write your own."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """Returns the tensor that is sent, and a context that ``decompress`` is given."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the received tensor in its original type."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Sends tensors unchanged."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """Returns the tensor."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the tensor."""
        return tensor


class HalfPrecision(Compressor):
    """Converts floating-point tensors to a type of 16 bits, and sends others unchanged. A framework derives a class
    that says which types it converts and how, and from that one class for each type of 16 bits."""

    dtype: Any
    """The type that tensors are sent in."""

    @classmethod
    def converts(cls, dtype: Any) -> bool:
        """Whether tensors of this type are converted."""
        raise NotImplementedError

    @staticmethod
    def convert(tensor: Any, dtype: Any) -> Any:
        """Returns the tensor in another type."""
        return tensor.astype(dtype)

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        """Returns the tensor in 16 bits, and its original type, or None if it was not converted."""
        if not cls.converts(tensor.dtype):
            return tensor, None
        return cls.convert(tensor, cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """Returns the tensor in its original type."""
        return tensor if ctx is None else cls.convert(tensor, ctx)
