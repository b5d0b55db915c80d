"""How an optimizer of Keras reduces its gradients on JAX."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

from farandole._keras.options import Options
from farandole._keras.reduction_by_name import ReductionByName


class OnJax(ReductionByName):
    """On JAX a step is a function without memory: what adds up is part of the optimizer's variables."""

    def __init__(self, options: Options) -> None:
        import farandole.jax

        super().__init__(options, farandole.jax)
        self._passes = options.backward_passes_per_step
        self._is_mean = options.average_aggregated_gradients
        self._counter: Any = None
        self._sums: Dict[int, Any] = {}
        self._due: Any = None
        self._before: List[Any] = []

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """Makes what adds up."""
        if self._passes == 1 or self._counter is not None:
            return
        self._counter = optimizer.add_variable((), dtype="int32", name="passes")
        for each in variables:
            self._sums[id(each)] = optimizer.add_variable_from_reference(each, name="sum_of_passes")

    def begin_anew(self) -> None:
        """Nothing has been added up."""
        import numpy

        for each in self.own_variables():
            # A step that failed may have taken the value away; the shape is there still.
            each.assign(numpy.zeros(each.shape, each.dtype))

    def own_variables(self) -> List[Any]:
        """Those that the wrapped optimizer does not have."""
        return [] if self._counter is None else [self._counter, *self._sums.values()]

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """What is to be applied, by ``apply``."""
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

        # Every rank counts alike, so all of them come to the operation in the same step.
        answer = lax.cond(self._due, reduced, lambda sums: sums, sums)
        for total, each in zip(totals, sums):
            total.assign(jnp.where(self._due, 0, each))
        self._counter.assign(jnp.where(self._due, 0, self._counter.value + 1))
        result: List[Any] = [None] * len(gradients)
        for place, each in zip(there, answer):
            result[place] = each
        return result

    def apply(self, apply: Callable[[], Any], optimizer: Any) -> Any:
        """Applies, and takes it back where no step is due: a function without memory cannot leave it out."""
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
