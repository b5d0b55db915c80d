"""The gradient reduction of Keras optimizers on PyTorch."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

from farandole._keras.options import Options
from farandole._keras.reduction_by_name import ReductionByName
from farandole.common.reduction import Accumulator
from farandole.torch import mpi_ops


class KerasReduction(ReductionByName):
    """On PyTorch every step runs in Python, so accumulated gradients are plain attributes."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, mpi_ops)
        self._new_sums = lambda: Accumulator(options.backward_passes_per_step, options.average_aggregated_gradients)
        self._sums = self._new_sums()
        self._is_due = True

    def agreed(self, condition: Any) -> Any:
        """Whether a condition holds on all ranks."""
        return self.agree(condition.int()).bool()

    def begin_anew(self) -> None:
        """Discards the accumulated gradients."""
        self._sums = self._new_sums()

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """Accumulates the gradients, and reduces the sums if a step is due. Returns the gradients for ``apply``."""
        if self._sums.passes > 1:
            complete = self._sums.add([each if each is None else each.clone() for each in gradients])
            self._is_due = complete is not None
            if complete is None:
                return list(gradients)
            gradients = complete
        return self.reduce(gradients, variables)

    def apply(self, apply: Callable[[], Any], optimizer: Any) -> Any:
        """Calls ``apply`` if a step is due."""
        return apply() if self._is_due else None
