"""A user's own compressor, made of one generator."""

from __future__ import annotations

from typing import Callable

import torch

from farandole.torch.compression.error_feedback import ErrorFeedback
from farandole.torch.compression.gradient import Reduction, Sent

Sender = Callable[[str, torch.Tensor, Reduction], Sent]


class OwnCompressor(ErrorFeedback):
    """Remembers errors around a user's ``send``."""

    def __init__(self, send: Sender) -> None:
        super().__init__()
        if not callable(send):
            raise ValueError(f"Compression.custom takes a generator function send(name, tensor, how), not {send!r}")
        self._send = send

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """The user's."""
        return self._send(name, tensor, how)
