"""PowerSGD: a matrix travels as two thin factors, found by one step of power iteration from those of the step before.

Vogels, Karimireddy and Jaggi, PowerSGD: practical low-rank gradient compression for distributed optimization, NeurIPS
2019, algorithms 1 and 2.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict

import torch

from farandole.common.basics import HorovodBasics
from farandole.torch.compression.error_feedback import MIN_ELEMENTS, ErrorFeedback, copies
from farandole.torch.compression.gradient import Allreduce, Reduction, Sent
from farandole.torch.compression.wire import bytes_of


class PowerSGDCompressor(ErrorFeedback):
    """With n rows and m columns, a gradient travels as rank · (n + m) numbers, in two rounds.

    Both rounds are sums, so that averages and scales apply to the second as they would to the gradient, and what
    travels does not grow with the number of ranks.
    """

    def __init__(self, rank: int, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        if isinstance(rank, bool) or not isinstance(rank, int) or rank <= 0:
            raise ValueError(f"the rank of powersgd is a positive integer, not {rank!r}")
        self.rank = rank
        self._starts: Dict[str, torch.Tensor] = {}
        self._next_starts: Dict[str, torch.Tensor] = {}

    def pays(self, tensor: torch.Tensor) -> bool:
        """Where the factors are smaller, too."""
        if not super().pays(tensor):
            return False
        rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
        item = max(tensor.element_size(), 4)  # factors of halves travel as float32
        sent = min(self.rank, rows, columns) * (rows + columns) * item
        return sent < bytes_of(tensor)

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """One power iteration from where the last step ended."""
        matrix = tensor.reshape(tensor.size(0), -1)
        start = self._start(name, matrix)
        left = yield Allreduce(matrix @ start, "p", HorovodBasics.Average)
        left = _orthonormal(left)
        own_right = matrix.t() @ left
        contributed = left @ own_right.t()
        right = yield Allreduce(own_right, "q")
        # The next step starts from the same columns, made orthonormal: what they span counts, and products of tiny
        # numbers would fade away.
        self._next_starts[name] = right
        return (left @ right.t()).view(tensor.shape), contributed.view(tensor.shape)

    def remember(self, name: str) -> None:
        """The next step starts where this one ended."""
        self._starts[name] = _orthonormal(self._next_starts.pop(name))

    def forget(self, name: str) -> None:
        """The next step starts where this one did."""
        self._next_starts.pop(name)

    def _start(self, name: str, matrix: torch.Tensor) -> torch.Tensor:
        shape = (matrix.size(1), min(self.rank, *matrix.shape))
        known = self._starts.get(name)
        if known is not None:
            if known.shape != shape:
                raise ValueError(f"{name!r} has factors of the shape {tuple(known.shape)}, but needs {shape}")
            return known.to(matrix)
        return first_columns(name, *shape).to(matrix)

    def state_dict(self) -> Dict[str, Any]:
        """The errors, which differ from rank to rank, and where the next power iteration starts, which is the same."""
        return {**super().state_dict(), "rank": self.rank, "starts": dict(self._starts)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes over what ``state_dict()`` of the same rank gave; ``ValueError`` if it had another ``rank``."""
        if state_dict["rank"] != self.rank:
            raise ValueError(f"the state is of powersgd(rank={state_dict['rank']}), not of rank={self.rank}")
        super().load_state_dict(state_dict)
        self._starts = copies(state_dict["starts"])


def first_columns(name: str, rows: int, columns: int) -> torch.Tensor:
    """Where the first power iteration of a name starts: the same on all ranks, and without anybody's generator."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _orthonormal(columns: torch.Tensor) -> torch.Tensor:
    """Orthonormal columns that span the same; where they are dependent, others are added."""
    return torch.linalg.qr(columns)[0]
