"""Counts what a compressor saves."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from farandole.torch.compression.halves import Compressor


class MeasuredCompressor(Compressor):
    """Does what another compressor does, and counts bytes."""

    def __init__(self, compressor: Any) -> None:
        self.compressor = compressor
        self.bytes_sent = 0
        self.bytes_uncompressed = 0

    def compress(self, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:  # type: ignore[override]
        """What the other one makes of it."""
        packed, context = self.compressor.compress(tensor)
        self.bytes_uncompressed += tensor.numel() * tensor.element_size()
        self.bytes_sent += packed.numel() * packed.element_size()
        return packed, context

    def decompress(self, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:  # type: ignore[override]
        """What the other one makes of it."""
        restored: torch.Tensor = self.compressor.decompress(tensor, ctx)
        return restored
