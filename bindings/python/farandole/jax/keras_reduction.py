"""The gradient reduction of Keras optimizers on JAX."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

from farandole._keras.options import Options
from farandole._keras.reduction_by_name import ReductionByName
from farandole.jax import ops


class KerasReduction(ReductionByName):
    """On JAX a step is a pure function, so accumulated gradients are variables of the optimizer."""

    def __init__(self, options: Options) -> None:
        super().__init__(options, ops)
        self._passes = options.backward_passes_per_step
        self._is_mean = options.average_aggregated_gradients
        self._counter: Any = None
        self._sums: Dict[int, Any] = {}
        self._due: Any = None
        self._before: List[Any] = []

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Creates the counter of passes and the sums of gradients, if several passes make a step."""
        if self._passes == 1 or self._counter is not None:
            return
        self._counter = optimizer.add_variable((), dtype="int32", name="passes")
        for each in variables:
            self._sums[id(each)] = optimizer.add_variable_from_reference(each, name="sum_of_passes")

    def agreed(self, condition: Any) -> Any:
        """Whether a condition holds on all ranks."""
        return self.agree(condition.astype("int32")) > 0

    def begin_anew(self) -> None:
        """Resets the counter and the sums to zero."""
        import numpy

        for each in self.own_variables():
            # A step that failed may have left the variable without a value, but its shape remains.
            each.assign(numpy.zeros(each.shape, each.dtype))

    def own_variables(self) -> List[Any]:
        """The counter and the sums: the variables that the wrapped optimizer's own class does not have."""
        return [] if self._counter is None else [self._counter, *self._sums.values()]

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """Accumulates the gradients, and reduces the sums if a step is due. Returns the gradients for ``apply``."""
        if self._passes == 1:
            return self.reduce(gradients, variables)
        from jax import lax
        from jax import numpy as jnp

        there = [place for place, each in enumerate(gradients) if each is not None]
        totals = [self._sums[id(variables[place])] for place in there]
        sums = [total.value + gradients[place] for total, place in zip(totals, there)]
        self._due = self._counter.value + 1 >= self._passes

        def reduced(sums: List[Any]) -> List[Any]:
            complete = [each / self._passes for each in sums] if self._is_mean else sums
            return self.reduce(complete, [variables[place] for place in there])

        # The counter has the same value on every rank, so all ranks start the operation in the same step.
        answer = lax.cond(self._due, reduced, lambda sums: sums, sums)
        for total, each in zip(totals, sums):
            total.assign(jnp.where(self._due, 0, each))
        self._counter.assign(jnp.where(self._due, 0, self._counter.value + 1))
        result: List[Any] = [None] * len(gradients)
        for place, each in zip(there, answer):
            result[place] = each
        return result

    def apply(self, apply: Callable[[], Any], optimizer: Any) -> Any:
        """Applies the gradients, then restores the old values if no step is due: a traced function cannot skip the
        call."""
        if self._passes == 1:
            return apply()
        from jax import numpy as jnp

        own = {id(each) for each in self.own_variables()}
        changing = [each for each in [*optimizer.variables, *optimizer._trainable_variables] if id(each) not in own]
        before = [each.value for each in changing]
        answer = apply()
        for variable, value in zip(changing, before):
            variable.assign(jnp.where(self._due, variable.value, value))
        return answer
