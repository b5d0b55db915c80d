"""Counts the bytes that a compressor saves: the sizes of this rank's inputs to collectives and of their results.

The bytes that a collective moves internally and its control messages are not counted, because they do not depend on
the compressor. Results are counted, because a gathered tensor grows with the number of ranks and a reduced one does
not.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class BytesOnWire(NamedTuple):
    """Totals since the compressor was made. Subtract two reports for the bytes of the time between them."""

    raw: int
    """Size of the uncompressed tensors: the bytes that would be sent, and received, without compression."""
    sent: int
    """Size of the inputs to collectives."""
    received: int
    """Size of the results of collectives."""

    @property
    def ratio(self) -> float:
        """The compression ratio, ``raw / sent``; 1.0 before anything was sent."""
        return self.raw / self.sent if self.sent else 1.0


class Metered:
    """Provides ``bytes_on_wire()``. The code that passes tensors to collectives calls ``count``."""

    _counted = BytesOnWire(0, 0, 0)

    def bytes_on_wire(self) -> BytesOnWire:
        """The totals of this rank so far."""
        return self._counted

    def count(self, raw: int = 0, sent: int = 0, received: int = 0) -> None:
        """Adds to the totals."""
        before = self._counted
        self._counted = BytesOnWire(before.raw + raw, before.sent + sent, before.received + received)


def bytes_of(tensor: torch.Tensor) -> int:
    """The size of a tensor's elements in bytes."""
    return tensor.numel() * tensor.element_size()
