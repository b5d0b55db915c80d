"""The gradient reduction of Keras optimizers on PyTorch."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

import torch

from farandole._keras.options import Options
from farandole._keras.reduction_by_name import ReductionByName
from farandole.common.reduction import Accumulator, adds, takes_part
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
        return self.reduce(self._completed(gradients, variables), variables)

    def _completed(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients, and zeros in the place of None if another rank has a gradient there."""
        how = self._reducer.how
        if not (variables and takes_part(how.process_set) and adds(how.op)):
            return list(gradients)
        shared = [not self._reducer.is_local(id(each)) for each in variables]
        own = [each is not None and is_shared for each, is_shared in zip(gradients, shared)]
        counts = mpi_ops.allreduce(
            torch.tensor(own, dtype=torch.int32),
            op=mpi_ops.Sum,
            name=f"{self._own_name()}.there",
            process_set=how.process_set,
        )
        return [
            torch.zeros_like(variable.value) if each is None and count else each
            for each, variable, count in zip(gradients, variables, counts.tolist())
        ]

    def apply(self, apply: Callable[[], Any], optimizer: Any) -> Any:
        """Calls ``apply`` if a step is due."""
        return apply() if self._is_due else None
