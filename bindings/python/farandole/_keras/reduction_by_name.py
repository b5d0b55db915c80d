"""Reduces the gradients of a Keras optimizer through an adapter whose functions take tensors and a name."""

from __future__ import annotations

from typing import Any, List, Sequence

from farandole._keras.options import Options
from farandole.common.basics import HorovodBasics
from farandole.common.framework import Reduction
from farandole.common.numbering import Number
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import GradientReducer


class _Verbs:
    """Implements the framework operations of ``GradientReducer`` by ``grouped_allreduce`` of an adapter."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def is_sparse(self, gradient: Any) -> bool:
        """Always False: Keras makes these gradients dense."""
        return False

    def densified(self, gradient: Any) -> Any:
        """Returns the gradient, which is dense already."""
        return gradient

    def divided_by_members(self, gradient: Any, process_set: ProcessSet) -> Any:
        """The gradient divided by the current number of members."""
        return gradient / (process_set.size() or 1)

    def allreduce(self, gradient: Any, name: str, how: Reduction) -> Any:
        """Reduces one gradient."""
        return self.grouped_allreduce([gradient], [name], how)[0]

    def grouped_allreduce(self, gradients: Sequence[Any], names: Sequence[str], how: Reduction) -> List[Any]:
        """Reduces several gradients as one group."""
        plain = [each.contiguous() if hasattr(each, "contiguous") else each for each in gradients]
        return self._adapter.grouped_allreduce(
            plain,
            name=names[0],
            compression=how.compression,
            op=how.op,
            prescale_factor=how.prescale_factor,
            postscale_factor=how.postscale_factor,
            process_set=how.process_set,
        )


class ReductionByName:
    """Reduces the gradients of a step. Ranks match them by the name of the optimizer and their position."""

    def __init__(self, options: Options, adapter: Any) -> None:
        self._name = options.name
        self._number = Number()
        self._reducer: GradientReducer[int] = GradientReducer(
            _Verbs(adapter),
            options.op,
            options.gradient_predivide_factor,
            options.groups or 1,
            id,
            options.process_set,
            options.compression,
            options.sparse_as_dense,
            options.scale_local_gradients,
        )

        # Compression is for gradients.
        self._agreement: GradientReducer[str] = GradientReducer(
            _Verbs(adapter), HorovodBasics.Min, process_set=options.process_set, compression=adapter.Compression.none
        )
        self.has_locals = False

    def register_local(self, variable: Any) -> None:
        """Excludes this variable's gradient from reduction: each rank keeps its own."""
        self._reducer.register_local(id(variable))
        self.has_locals = True

    def _own_name(self) -> str:
        """The name of the optimizer's operations, which no other optimizer of these ranks has."""
        number = self._number.among(self._name, self._reducer.how.process_set)
        return self._name if number == 1 else f"{self._name}_{number}"

    def agree(self, flag: Any) -> Any:
        """The least of the numbers, 0 or 1, of all ranks."""
        return self._agreement.reduce([flag], ["finite"], [f"{self._own_name()}.finite"])[0]

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The reduced gradients; None stays None."""
        names = [f"{self._own_name()}.gradient_{place}" for place in range(len(variables))]
        return self._reducer.reduce(gradients, [id(each) for each in variables], names)
