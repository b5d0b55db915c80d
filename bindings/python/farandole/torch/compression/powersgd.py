"""PowerSGD: a matrix is sent as two low-rank factors. Each step finds them by one power iteration that starts from
the factors of the step before.

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
    """Sends a gradient of n rows and m columns as rank · (n + m) numbers, in two rounds.

    Both rounds are reductions, so the bytes sent do not grow with the number of ranks. The caller's operation and
    scale factors apply to the second round as they would to the gradient.
    """

    def __init__(self, rank: int, min_elements: int = MIN_ELEMENTS) -> None:
        super().__init__(min_elements)
        if isinstance(rank, bool) or not isinstance(rank, int) or rank <= 0:
            raise ValueError(f"the rank of powersgd is a positive integer, not {rank!r}")
        self.rank = rank
        self._starts: Dict[str, torch.Tensor] = {}
        self._next_starts: Dict[str, torch.Tensor] = {}

    def pays(self, tensor: torch.Tensor) -> bool:
        """Also requires that the factors are smaller than the tensor."""
        if not super().pays(tensor):
            return False
        rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
        item = max(tensor.element_size(), 4)  # factors of 16-bit gradients are sent as float32
        sent = min(self.rank, rows, columns) * (rows + columns) * item
        return sent < bytes_of(tensor)

    def send(self, name: str, tensor: torch.Tensor, how: Reduction) -> Sent:
        """One power iteration, which starts from the result of the last step."""
        matrix = tensor.reshape(tensor.size(0), -1)
        start = self._start(name, matrix)
        left = yield Allreduce(matrix @ start, "p", HorovodBasics.Average)
        left = _orthonormal(left)
        own_right = matrix.t() @ left
        contributed = left @ own_right.t()
        right = yield Allreduce(own_right, "q")
        # The next step starts from these columns, made orthonormal. Only the space that they span matters, and
        # without normalisation products of tiny numbers would underflow.
        self._next_starts[name] = right
        return (left @ right.t()).view(tensor.shape), contributed.view(tensor.shape)

    def remember(self, name: str) -> None:
        """Makes the next step start from the result of this one."""
        self._starts[name] = _orthonormal(self._next_starts.pop(name))

    def forget(self, name: str) -> None:
        """Makes the next step start from the same columns as this one."""
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
        """The errors, which differ between ranks, and the start of the next power iteration, which does not."""
        return {**super().state_dict(), "rank": self.rank, "starts": dict(self._starts)}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restores the result of ``state_dict()`` of the same rank of the job; ``ValueError`` if the compressor that
        made it had another ``rank``."""
        if state_dict["rank"] != self.rank:
            raise ValueError(f"the state is of powersgd(rank={state_dict['rank']}), not of rank={self.rank}")
        super().load_state_dict(state_dict)
        self._starts = copies(state_dict["starts"])


def first_columns(name: str, rows: int, columns: int) -> torch.Tensor:
    """The start of the first power iteration of a name. It is derived from the name, so that it is the same on all
    ranks, and does not advance the user's random number generators."""
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _orthonormal(columns: torch.Tensor) -> torch.Tensor:
    """Orthonormal columns that span the same space. Dependent columns are replaced by further orthonormal ones."""
    return torch.linalg.qr(columns)[0]
