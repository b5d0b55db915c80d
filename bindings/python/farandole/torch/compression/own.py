"""A user's own compressor, with errors remembered for it."""

from __future__ import annotations

from typing import Any, Callable

import torch

from farandole.common.arguments import pack
from farandole.torch.compression.error_feedback import MIN_ELEMENTS, ErrorFeedback
from farandole.torch.compression.gradient import Allreduce, GradientCompressor, Reduction, Sent

Sender = Callable[[str, torch.Tensor, Reduction], Sent]


class SenderCompressor(ErrorFeedback):
    """Remembers errors around a user's exchange."""

    def __init__(self, send: Sender, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        self._send = send

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """The user's."""
        return self._send(name, tensor, how)


class PairCompressor(ErrorFeedback):
    """Remembers errors around a user's ``compress`` and ``decompress``.

    What is compressed is reduced, so sums of it must mean the compressed sums: true of fewer digits, of projections
    and of sketches, and not of indices or of codes.
    """

    def __init__(self, pair: Any, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        self._pair = pair

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """One reduction of what ``compress`` gives."""
        packed, context = pack("allreduce", name, self._pair, tensor)
        contributed = self._pair.decompress(packed, context)
        reduced = yield Allreduce(packed)
        return self._pair.decompress(reduced, context), contributed


def own(compressor: Any, min_elements: int = MIN_ELEMENTS) -> GradientCompressor:
    """What a user gives, as a compressor with error feedback; ``ValueError`` if it is none of what may be given."""
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
