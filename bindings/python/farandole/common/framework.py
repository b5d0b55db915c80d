"""The interface that common code requires of a framework's adapter. All decisions about training are made above it.

An adapter makes one object with these methods, or a module with these functions, and passes it to
``GradientReducer``, ``broadcast_named``, ``VariablesState`` and other code that all frameworks share. An adapter that
needs only a part (state has no gradients) may omit the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, NamedTuple, Protocol, Sequence

from farandole.common.process_sets import ProcessSet

if TYPE_CHECKING:
    import numpy


class Reduction(NamedTuple):
    """How gradients are reduced: the arguments that all of their ``allreduce`` calls share."""

    op: int
    prescale_factor: float
    postscale_factor: float
    process_set: ProcessSet
    compression: Any


class HoldsArrays(Protocol):
    """For state, and for parameters that are broadcast."""

    def to_numpy(self, tensor: Any) -> numpy.ndarray:
        """The content of a tensor or variable, in C order: a copy that the caller owns, or a view of memory that must
        not change before the next ``assign``."""

    def assign(self, variable: Any, array: numpy.ndarray) -> None:
        """Writes an array of the variable's shape and type into it, in place."""


class ReducesGradients(Protocol):
    """For optimizers, trainers and tapes."""

    def is_sparse(self, gradient: Any) -> bool:
        """Whether it consists of rows and their numbers (``IndexedSlices``, row-sparse arrays, sparse tensors)."""

    def densified(self, gradient: Any) -> Any:
        """A sparse gradient as a dense one, of the variable's shape."""

    def divided_by_members(self, gradient: Any, process_set: ProcessSet) -> Any:
        """Divided by the size of the set; in a graph that outlives changes of members, by the size of then."""

    def allreduce(self, gradient: Any, name: str, how: Reduction) -> Any:
        """A gradient, dense or sparse, reduced over the set; of the type and device that it came with."""

    def grouped_allreduce(self, gradients: Sequence[Any], names: Sequence[str], how: Reduction) -> List[Any]:
        """Dense gradients reduced as one group, of which all ranks have the same members: ``names[0]`` names the group.

        An adapter that lets ranks lack members, as graphs of TensorFlow do, submits each by its own name.
        """


class Framework(HoldsArrays, ReducesGradients, Protocol):
    """All of it."""

    name: str
    """As in ``farandole.<name>``."""
