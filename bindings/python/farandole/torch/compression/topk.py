"""Top-k: only the entries of greatest magnitude are sent, with their indices.

Stich, Cordonnier and Jaggi, Sparsified SGD with memory, NeurIPS 2018. Each rank chooses its own entries, so they are
gathered, and every rank sums them.
"""

from __future__ import annotations

import math

import torch

from farandole.torch.compression.error_feedback import MIN_ELEMENTS, ErrorFeedback
from farandole.torch.compression.gradient import Allgather, Reduction, Sent
from farandole.torch.compression.wire import bytes_of


class TopKCompressor(ErrorFeedback):
    """Sends ⌈ratio · n⌉ of n entries, as values and indices."""

    def __init__(self, ratio: float, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        if not 0 < ratio <= 1:
            raise ValueError(f"the ratio of topk is above 0 and at most 1, not {ratio!r}")
        self.ratio = ratio

    def kept(self, entries: int) -> int:
        """The number of entries that are sent for a tensor of ``entries`` entries."""
        return min(entries, math.ceil(self.ratio * entries))

    def pays(self, tensor: torch.Tensor) -> bool:
        """Also requires that values and indices together are smaller than the tensor."""
        if not super().pays(tensor):
            return False
        # Values of 16-bit gradients are sent as float32.
        entry = max(tensor.element_size(), 4) + torch.iinfo(_index_type(tensor)).bits // 8
        return self.kept(tensor.numel()) * entry < bytes_of(tensor)

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """Gathers the greatest entries of each rank, and sums them."""
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
        # Added rank by rank: an index occurs at most once for each rank, so all ranks add in the same order.
        for each, where in zip(all_values.split(count), all_places.split(count)):
            total.index_add_(0, where.long(), each)
        return total.mul_(how.factor).view(tensor.shape), contributed.view(tensor.shape)


def _index_type(tensor: torch.Tensor) -> torch.dtype:
    return torch.int32 if tensor.numel() <= torch.iinfo(torch.int32).max else torch.int64
