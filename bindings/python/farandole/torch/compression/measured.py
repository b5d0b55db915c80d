"""Counts what travels under a compressor that has no memory of its own."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from farandole.common.arguments import pack
from farandole.common.compression import Compressor
from farandole.torch.compression.wire import Metered, bytes_of


class MeasuredCompressor(Metered, Compressor):
    """Does what another compressor does, and counts bytes."""

    def __init__(self, compressor: Any) -> None:
        self.compressor = compressor

    def compress(self, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:  # type: ignore[override]
        """What the other one makes of it."""
        packed, context = pack("allreduce", None, self.compressor, tensor)
        self.count(raw=bytes_of(tensor), sent=bytes_of(packed))
        return packed, context

    def decompress(self, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:  # type: ignore[override]
        """What the other one makes of it."""
        self.count(received=bytes_of(tensor))
        restored: torch.Tensor = self.compressor.decompress(tensor, ctx)
        return restored
