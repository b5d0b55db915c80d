"""How many bytes a compressor spares, counted on this rank where tensors are handed to collectives and come back.

What a collective makes of them on its way, and the few bytes of control, are the same for every compressor and are not
counted. What comes back is, because a gathered tensor grows with the number of ranks and a reduced one does not.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class BytesOnWire(NamedTuple):
    """Totals since the compressor was made; the difference of two reports is what happened between them."""

    raw: int
    """What would have been handed over without compression, and would have come back."""
    sent: int
    """What was handed over."""
    received: int
    """What came back."""

    @property
    def ratio(self) -> float:
        """How many times fewer bytes were sent; 1.0 before anything was."""
        return self.raw / self.sent if self.sent else 1.0


class Metered:
    """Offers ``bytes_on_wire()``; whoever hands tensors over counts."""

    _counted = BytesOnWire(0, 0, 0)

    def bytes_on_wire(self) -> BytesOnWire:
        """What has travelled on this rank so far."""
        return self._counted

    def count(self, raw: int = 0, sent: int = 0, received: int = 0) -> None:
        """Adds to the totals."""
        before = self._counted
        self._counted = BytesOnWire(before.raw + raw, before.sent + sent, before.received + received)


def bytes_of(tensor: torch.Tensor) -> int:
    """What its elements take."""
    return tensor.numel() * tensor.element_size()
