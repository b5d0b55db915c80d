"""Gradient compression: none, conversion to 16 bits, or lossy schemes with error feedback."""

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
    """The compressors that Farandole provides. Each call of a function makes an instance for one optimizer, whose
    ``bytes_on_wire()`` reports the bytes it has sent."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor

    @staticmethod
    def powersgd(rank: int = 4, min_elements: int = MIN_ELEMENTS) -> PowerSGDCompressor:
        """Sends matrices as two low-rank factors, with error feedback.

        :param rank: columns of each factor
        :param min_elements: tensors with fewer elements, vectors and tensors that would not shrink are sent whole
        """
        return PowerSGDCompressor(rank, min_elements)

    @staticmethod
    def topk(ratio: float = 0.01, min_elements: int = MIN_ELEMENTS) -> TopKCompressor:
        """Sends only the entries of greatest magnitude, as values and indices, with error feedback.

        :param ratio: the share of entries to send, above 0 and at most 1; at least one entry is sent
        :param min_elements: tensors with fewer elements, vectors and tensors that would not shrink are sent whole
        """
        return TopKCompressor(ratio, min_elements)

    @staticmethod
    def custom(compressor: Any, min_elements: int = MIN_ELEMENTS) -> GradientCompressor:
        """Adds error feedback to your own compressor. To use a compressor without it, pass your class directly.

        :param compressor: an object with ``compress(tensor)`` and ``decompress(tensor, ctx)``; or, to control the
            exchange, a generator function ``send(name, tensor, how)`` that yields the messages to send, receives
            their results, and returns the reduced tensor and this rank's contribution to it
        :param min_elements: tensors with fewer elements and vectors are sent whole
        """
        return own(compressor, min_elements)

    @staticmethod
    def measured(compressor: Any) -> Any:
        """Adds ``bytes_on_wire()`` to a compressor such as ``none``, ``fp16`` or ``bf16``.

        :param compressor: any compressor; one that has ``bytes_on_wire()`` already is returned unchanged
        """
        return compressor if hasattr(compressor, "bytes_on_wire") else MeasuredCompressor(compressor)
