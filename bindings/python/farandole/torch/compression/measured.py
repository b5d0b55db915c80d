"""Counts the bytes that are sent and received through a stateless compressor."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from farandole.common.arguments import pack
from farandole.common.compression import Compressor
from farandole.torch.compression.wire import Metered, bytes_of


class MeasuredCompressor(Metered, Compressor):
    """Delegates to another compressor, and counts bytes."""

    def __init__(self, compressor: Any) -> None:
        self.compressor = compressor

    def compress(self, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:  # type: ignore[override]
        """Compresses by the other compressor, and counts the bytes before and after."""
        packed, context = pack("allreduce", None, self.compressor, tensor)
        self.count(raw=bytes_of(tensor), sent=bytes_of(packed))
        return packed, context

    def decompress(self, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:  # type: ignore[override]
        """Counts the received bytes, and decompresses by the other compressor."""
        self.count(received=bytes_of(tensor))
        restored: torch.Tensor = self.compressor.decompress(tensor, ctx)
        return restored
