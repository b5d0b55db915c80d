"""How gradients travel: as they are, in half the bytes, or as a few numbers that stand for them."""

from __future__ import annotations

from typing import Any

from farandole.torch.compression.error_feedback import ErrorFeedback
from farandole.torch.compression.gradient import Allgather, Allreduce, GradientCompressor, Reduction, check
from farandole.torch.compression.halves import BF16Compressor, Compressor, FP16Compressor, NoneCompressor
from farandole.torch.compression.measured import MeasuredCompressor
from farandole.torch.compression.own import OwnCompressor, Sender
from farandole.torch.compression.powersgd import PowerSGDCompressor
from farandole.torch.compression.topk import TopKCompressor


class Compression:
    """The compressors that come with Farandole. Those that are functions make an instance for one optimizer."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor

    @staticmethod
    def powersgd(rank: int = 4, min_compression_rate: float = 1.0) -> PowerSGDCompressor:
        """Matrices travel as two thin factors.

        :param rank: columns of each factor
        :param min_compression_rate: matrices that would not shrink by more than this factor travel whole
        """
        return PowerSGDCompressor(rank, min_compression_rate)

    @staticmethod
    def topk(ratio: float = 0.01) -> TopKCompressor:
        """Only the entries of greatest magnitude travel, with their places.

        :param ratio: the share of entries that travels, above 0 and at most 1; at least one does
        """
        return TopKCompressor(ratio)

    @staticmethod
    def custom(send: Sender) -> OwnCompressor:
        """Your own exchange, with errors remembered for it.

        :param send: ``send(name, tensor, how)``, a generator: yields what travels, receives what came back, returns
            the reduced tensor and what this rank contributed to it
        """
        return OwnCompressor(send)

    @staticmethod
    def measured(compressor: Any) -> Any:
        """The same compressor, counting bytes: ``bytes_sent``, ``bytes_uncompressed``."""
        return compressor if isinstance(compressor, GradientCompressor) else MeasuredCompressor(compressor)
