"""Top-k: only the entries of greatest magnitude travel, with their places.

Stich, Cordonnier and Jaggi, Sparsified SGD with memory, NeurIPS 2018. Each rank chooses its own entries, so they are
gathered, and every rank adds them up.
"""

from __future__ import annotations

import math

import torch

from farandole.torch.compression.error_feedback import MIN_ELEMENTS, ErrorFeedback
from farandole.torch.compression.gradient import Allgather, Reduction, Sent
from farandole.torch.compression.wire import bytes_of


class TopKCompressor(ErrorFeedback):
    """Of n entries, ⌈ratio · n⌉ travel as values and indices."""

    def __init__(self, ratio: float, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        if not 0 < ratio <= 1:
            raise ValueError(f"the ratio of topk is above 0 and at most 1, not {ratio!r}")
        self.ratio = ratio

    def kept(self, entries: int) -> int:
        """How many of so many entries travel."""
        return min(entries, math.ceil(self.ratio * entries))

    def pays(self, tensor: torch.Tensor) -> bool:
        """Where values and indices together are smaller, too."""
        if not super().pays(tensor):
            return False
        # Values of halves travel as float32.
        entry = max(tensor.element_size(), 4) + torch.iinfo(_index_type(tensor)).bits // 8
        return self.kept(tensor.numel()) * entry < bytes_of(tensor)

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """This rank's greatest entries, for those of all ranks."""
        flat = tensor.reshape(-1)
        count = self.kept(flat.numel())
        places = torch.topk(flat.abs(), count, sorted=False).indices
        values = flat[places]
        contributed = torch.zeros_like(flat).index_copy_(0, places, values)
        all_values, all_places = yield [
            Allgather(values, "values"),
            Allgather(places.to(_index_type(tensor)), "indices"),
        ]
        total = torch.zeros_like(flat)
        # Rank by rank: within one rank no place comes twice, so the order of additions is the same everywhere.
        for each, where in zip(all_values.split(count), all_places.split(count)):
            total.index_add_(0, where.long(), each)
        return total.mul_(how.factor).view(tensor.shape), contributed.view(tensor.shape)


def _index_type(tensor: torch.Tensor) -> torch.dtype:
    return torch.int32 if tensor.numel() <= torch.iinfo(torch.int32).max else torch.int64
