"""The interface of compressors that need several collectives for a gradient, or state that lasts from step to step.

Such a compressor decides which messages are sent, and ``farandole.torch.exchange`` sends them. Its ``exchange`` is a
generator that yields ``Allreduce`` and ``Allgather`` values, receives their results, and returns the reduced tensor.
This has three advantages: the first message is sent while the backward pass continues, the messages of all gradients
are sent concurrently, and a compressor can be tested without a job.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, Generator, List, NamedTuple, Optional, Tuple, Union

import torch

from farandole.common.arguments import require_compressor
from farandole.common.basics import HorovodBasics
from farandole.torch.compression.wire import Metered

_NAMES = {
    HorovodBasics.Adasum: "Adasum",
    HorovodBasics.Min: "Min",
    HorovodBasics.Max: "Max",
    HorovodBasics.Product: "Product",
}


class Reduction(NamedTuple):
    """The caller's options of a reduction; ``size`` is the number of ranks that take part."""

    op: int
    prescale: float
    postscale: float
    size: int

    @property
    def factor(self) -> float:
        """The factor by which a plain sum over ranks must be multiplied."""
        return self.prescale * self.postscale / (self.size if self.op == HorovodBasics.Average else 1)


class Allreduce(NamedTuple):
    """A message that is reduced over all ranks. Its result is a tensor of the same shape, equal on all ranks.

    Without ``op`` it is reduced by the caller's operation and scale factors; with ``op``, by ``op`` without scaling.
    ``label`` distinguishes the messages of one gradient, and becomes part of the operation's name.
    """

    tensor: torch.Tensor
    label: str = ""
    op: Optional[int] = None


class Allgather(NamedTuple):
    """A message that is gathered. Its result is the tensors of all ranks, concatenated along their first dimension in
    rank order, without scaling."""

    tensor: torch.Tensor
    label: str = ""


Message = Union[Allreduce, Allgather]
Round = Union[Message, List[Message]]
Exchange = Generator[Round, Any, torch.Tensor]
Sent = Generator[Round, Any, Tuple[torch.Tensor, torch.Tensor]]
"""Like ``Exchange``, but also returns this rank's contribution."""


class GradientCompressor(Metered):
    """The base of compressors that decide themselves which messages are sent for a gradient. An instance serves one
    optimizer."""

    _owner: Optional[weakref.ref[Any]] = None

    def exchange(self, name: str, gradient: torch.Tensor, how: Reduction) -> Exchange:
        """Yields a message, or a list of messages to send together, and receives the result, or the list of results.
        Returns the reduced gradient. Must not change ``gradient``. Every rank must yield messages of the same kinds
        in the same order."""
        raise NotImplementedError

    def serve(self, owner: Any) -> None:
        """Binds the compressor to its optimizer. Raises ``ValueError`` if it serves another one that is still alive:
        gradients of the same name in two optimizers would share state."""
        before = None if self._owner is None else self._owner()
        if before is not None and before is not owner:
            raise ValueError(
                f"DistributedOptimizer: this {type(self).__name__} is used by another optimizer, and gradients of the "
                "same name would share its state; create a compressor for each optimizer"
            )
        self._owner = weakref.ref(owner)

    def state_dict(self) -> Dict[str, Any]:
        """The compressor's state, as references. Errors differ between ranks, so every rank must save its own."""
        return {}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Restores the result of ``state_dict()`` of the same rank."""
        if state_dict:
            raise ValueError(f"{type(self).__name__} has no state, but the state_dict has {sorted(state_dict)}")


def check(compression: Any, op: int, operation: str = "allreduce") -> None:
    """Raises ``ValueError`` unless ``compression`` is a compressor and supports the operation ``op``."""
    if isinstance(compression, GradientCompressor):
        if op not in (HorovodBasics.Average, HorovodBasics.Sum):
            raise ValueError(
                f"{operation}: {type(compression).__name__} supports Average and Sum only, not "
                f"{_NAMES.get(op, repr(op))}"
            )
    else:
        require_compressor(operation, None, compression, ValueError)


def same_shape(name: str, known: torch.Tensor, tensor: torch.Tensor) -> None:
    """Raises ``ValueError`` if the tensor of this name had another shape before."""
    if known.shape != tensor.shape:
        raise ValueError(
            f"{name!r} has the shape {tuple(tensor.shape)}, but was compressed before with {tuple(known.shape)}; "
            "the compressor stores its state by name; create a compressor for each optimizer"
        )
