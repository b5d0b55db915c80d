"""Error feedback for a user's own compressor."""

from __future__ import annotations

from typing import Any, Callable

import torch

from farandole.common.arguments import pack
from farandole.torch.compression.error_feedback import MIN_ELEMENTS, ErrorFeedback
from farandole.torch.compression.gradient import Allreduce, GradientCompressor, Reduction, Sent

Sender = Callable[[str, torch.Tensor, Reduction], Sent]


class SenderCompressor(ErrorFeedback):
    """Adds error feedback to a user's generator function."""

    def __init__(self, send: Sender, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        self._send = send

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """Calls the user's function."""
        return self._send(name, tensor, how)


class PairCompressor(ErrorFeedback):
    """Adds error feedback to a user's ``compress`` and ``decompress``.

    Compressed tensors are reduced, so the sum of compressed tensors must be the compressed form of the sum. This
    holds for lower precision, projections and sketches, but not for indices or codes.
    """

    def __init__(self, pair: Any, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        self._pair = pair

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """Sends the compressed tensor in one reduction."""
        packed, context = pack("allreduce", name, self._pair, tensor)
        contributed = self._pair.decompress(packed, context)
        reduced = yield Allreduce(packed)
        return self._pair.decompress(reduced, context), contributed


def own(compressor: Any, min_elements: int = MIN_ELEMENTS) -> GradientCompressor:
    """Makes a compressor with error feedback from a user's object; ``ValueError`` if its kind is not accepted."""
    if isinstance(compressor, GradientCompressor):
        return compressor
    if callable(getattr(compressor, "compress", None)) and callable(getattr(compressor, "decompress", None)):
        return PairCompressor(compressor, min_elements)
    if callable(compressor) and not isinstance(compressor, type):
        return SenderCompressor(compressor, min_elements)
    raise ValueError(
        "Compression.custom takes something with compress(tensor) and decompress(tensor, ctx), a generator function "
        f"send(name, tensor, how), or an instance of a class that derives from GradientCompressor, not {compressor!r}"
    )
