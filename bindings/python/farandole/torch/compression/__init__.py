"""How gradients travel: as they are, in half the bytes, or as a few numbers that stand for them."""

from __future__ import annotations

from typing import Any

from farandole.common.compression import Compressor, NoneCompressor
from farandole.torch.compression.error_feedback import MIN_ELEMENTS, ErrorFeedback
from farandole.torch.compression.gradient import Allgather, Allreduce, GradientCompressor, Reduction, check
from farandole.torch.compression.halves import BF16Compressor, FP16Compressor
from farandole.torch.compression.measured import MeasuredCompressor
from farandole.torch.compression.own import own
from farandole.torch.compression.powersgd import PowerSGDCompressor
from farandole.torch.compression.topk import TopKCompressor
from farandole.torch.compression.wire import BytesOnWire

__all__ = [
    "MIN_ELEMENTS",
    "Allgather",
    "Allreduce",
    "BF16Compressor",
    "BytesOnWire",
    "Compression",
    "Compressor",
    "ErrorFeedback",
    "FP16Compressor",
    "GradientCompressor",
    "MeasuredCompressor",
    "NoneCompressor",
    "PowerSGDCompressor",
    "Reduction",
    "TopKCompressor",
    "check",
    "own",
]


class Compression:
    """The compressors that come with Farandole. Those that are functions make an instance for one optimizer; what an
    instance has sent, its ``bytes_on_wire()`` tells."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor

    @staticmethod
    def powersgd(rank: int = 4, min_elements: int = MIN_ELEMENTS) -> PowerSGDCompressor:
        """Matrices travel as two thin factors, with error feedback.

        :param rank: columns of each factor
        :param min_elements: smaller tensors travel whole, as do vectors and what would not shrink
        """
        return PowerSGDCompressor(rank, min_elements)

    @staticmethod
    def topk(ratio: float = 0.01, min_elements: int = MIN_ELEMENTS) -> TopKCompressor:
        """Only the entries of greatest magnitude travel, with their places and with error feedback.

        :param ratio: the share of entries that travels, above 0 and at most 1; at least one does
        :param min_elements: smaller tensors travel whole, as do vectors and what would not shrink
        """
        return TopKCompressor(ratio, min_elements)

    @staticmethod
    def custom(compressor: Any, min_elements: int = MIN_ELEMENTS) -> GradientCompressor:
        """Your own compressor, with error feedback. Without, hand your class in as it is.

        :param compressor: something with ``compress(tensor)`` and ``decompress(tensor, ctx)``; or, to own the exchange,
            a generator function ``send(name, tensor, how)`` that yields what travels, receives what came back, and
            returns the reduced tensor and what this rank contributed to it
        :param min_elements: smaller tensors travel whole, as do vectors
        """
        return own(compressor, min_elements)

    @staticmethod
    def measured(compressor: Any) -> Any:
        """A compressor whose ``bytes_on_wire()`` tells what travelled; for ``none``, ``fp16``, ``bf16`` and the like.

        :param compressor: any; one that counts by itself is returned as it is
        """
        return compressor if hasattr(compressor, "bytes_on_wire") else MeasuredCompressor(compressor)
