"""Compressors for which one changed tensor is not enough: several collectives, memory from step to step.

Such a compressor says what travels, and something else sends it (``farandole.torch.exchange``): its ``exchange`` is a
generator that yields ``Allreduce`` and ``Allgather`` values, receives what came of them, and returns the reduced
tensor. So that the first of them travels while the backward pass goes on, those of all gradients travel side by side,
and a compressor can be tested by hand.
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
    """What the caller of a reduction wants; ``size`` is the number of ranks that take part."""

    op: int
    prescale: float
    postscale: float
    size: int

    @property
    def factor(self) -> float:
        """What a plain sum over ranks has to be multiplied by."""
        return self.prescale * self.postscale / (self.size if self.op == HorovodBasics.Average else 1)


class Allreduce(NamedTuple):
    """To be reduced over all ranks; the answer is a tensor of the same shape, equal on all ranks.

    Without ``op`` it is reduced as the caller wants the gradient to be, scales included; with ``op``, by that alone.
    ``label`` tells apart what travels for one gradient at a time.
    """

    tensor: torch.Tensor
    label: str = ""
    op: Optional[int] = None


class Allgather(NamedTuple):
    """To be gathered; the answer is the tensors of all ranks along their first dimension, in rank order, not scaled."""

    tensor: torch.Tensor
    label: str = ""


Message = Union[Allreduce, Allgather]
Round = Union[Message, List[Message]]
Exchange = Generator[Round, Any, torch.Tensor]
Sent = Generator[Round, Any, Tuple[torch.Tensor, torch.Tensor]]
"""Like ``Exchange``, but also tells what this rank contributed."""


class GradientCompressor(Metered):
    """Derive from it to decide yourself what travels for a gradient. An instance serves one optimizer."""

    _owner: Optional[weakref.ref[Any]] = None

    def exchange(self, name: str, gradient: torch.Tensor, how: Reduction) -> Exchange:
        """Yields what travels, a list for several at once, and receives what came of it, likewise; returns the reduced
        gradient. The gradient itself must not be changed. Every rank must yield the same kinds in the same order."""
        raise NotImplementedError

    def serve(self, owner: Any) -> None:
        """``ValueError`` if it serves another owner that is still alive: what two call by one name would share one
        memory."""
        before = None if self._owner is None else self._owner()
        if before is not None and before is not owner:
            raise ValueError(
                f"DistributedOptimizer: this {type(self).__name__} serves another optimizer already, and what it "
                "remembers of a gradient is kept by the gradient's name; make a compressor for each optimizer"
            )
        self._owner = weakref.ref(owner)

    def state_dict(self) -> Dict[str, Any]:
        """What it remembers, by reference. What it remembers of errors differs from rank to rank: save each rank's."""
        return {}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Takes over what ``state_dict()`` of the same rank gave."""
        if state_dict:
            raise ValueError(f"{type(self).__name__} remembers nothing, but was given {sorted(state_dict)}")


def check(compression: Any, op: int, operation: str = "allreduce") -> None:
    """``ValueError`` unless it is a compressor, and can do what this reduction asks for."""
    if isinstance(compression, GradientCompressor):
        if op not in (HorovodBasics.Average, HorovodBasics.Sum):
            raise ValueError(
                f"{operation}: {type(compression).__name__} can compress averages and sums only, not "
                f"{_NAMES.get(op, repr(op))}"
            )
    else:
        require_compressor(operation, None, compression, ValueError)


def same_shape(name: str, known: torch.Tensor, tensor: torch.Tensor) -> None:
    """``ValueError`` if a name now means something else than before."""
    if known.shape != tensor.shape:
        raise ValueError(
            f"{name!r} was compressed with the shape {tuple(known.shape)}, and is {tuple(tensor.shape)} now: "
            "a compressor remembers errors by name; make one instance for each optimizer"
        )
