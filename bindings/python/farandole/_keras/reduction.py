"""How one optimizer's gradients are reduced: as the backend that they are computed with does it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from farandole.common.framework import Reduction
from farandole.common.ledger import check_passes
from farandole.common.process_sets import ProcessSet
from farandole.common.reduction import Accumulator, GradientReducer

Apply = Callable[[List[Any]], Any]


class Options(NamedTuple):
    """What ``DistributedOptimizer`` was given besides the optimizer."""

    name: str
    device_dense: str
    device_sparse: str
    compression: Any
    sparse_as_dense: bool
    gradient_predivide_factor: float
    op: int
    backward_passes_per_step: int
    average_aggregated_gradients: bool
    groups: Any
    process_set: ProcessSet
    scale_local_gradients: bool


class OnTensorFlow:
    """Leaves all of it to TensorFlow's adapter, in graphs and outside."""

    def __init__(self, options: Options) -> None:
        from farandole.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
        from farandole.tensorflow.reducing import GradientReduction

        self._reduce = GradientReduction(
            options.name,
            options.device_dense,
            options.device_sparse,
            options.compression,
            options.sparse_as_dense,
            options.op,
            options.gradient_predivide_factor,
            0,
            options.groups,
            options.process_set,
            options.scale_local_gradients,
        )
        self.aggregation_helper: Optional[Any] = None
        if options.backward_passes_per_step > 1:
            self.aggregation_helper = LocalGradientAggregationHelperEager(
                options.backward_passes_per_step,
                self._reduce,
                options.sparse_as_dense,
                options.average_aggregated_gradients,
                options.process_set,
                options.scale_local_gradients,
            )

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable stays on its rank."""
        helper = self.aggregation_helper
        (helper.register_local_var if helper else self._reduce.register_local)(variable)

    def begin_anew(self) -> None:
        """Nothing has been added up."""
        helper = self.aggregation_helper
        if helper is not None and helper.counter is not None:
            for each in [helper.counter, *helper.locally_aggregated_grads]:
                if each is not None:
                    each.assign(each * 0)

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """What is to be applied, by ``apply``."""
        if self.aggregation_helper is None:
            return self._reduce(gradients, variables)
        return self.aggregation_helper.compute_gradients(gradients, variables)

    def apply(self, apply: Callable[[], Any], optimizer: Any) -> Any:
        """Applies where a step is due."""
        return apply() if self.aggregation_helper is None else self.aggregation_helper.apply_gradients(apply, optimizer)


class _Verbs:
    """Of an adapter whose functions take a tensor, or several, and a name."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def is_sparse(self, gradient: Any) -> bool:
        """Never: Keras makes these gradients dense."""
        return False

    def densified(self, gradient: Any) -> Any:
        """The gradient."""
        return gradient

    def divided_by_members(self, gradient: Any, process_set: ProcessSet) -> Any:
        """By those of now."""
        return gradient / (process_set.size() or 1)

    def allreduce(self, gradient: Any, name: str, how: Reduction) -> Any:
        """One gradient."""
        return self.grouped_allreduce([gradient], name, how)[0]

    def grouped_allreduce(self, gradients: Sequence[Any], name: str, how: Reduction) -> List[Any]:
        """All at once."""
        plain = [each.contiguous() if hasattr(each, "contiguous") else each for each in gradients]
        return self._adapter.grouped_allreduce(
            plain,
            name=name,
            compression=how.compression,
            op=how.op,
            prescale_factor=how.prescale_factor,
            postscale_factor=how.postscale_factor,
            process_set=how.process_set,
        )


_named: Dict[str, int] = {}


def _own_name(name: str) -> str:
    """Of several optimizers of one name, each has its own in operations."""
    count = _named[name] = _named.get(name, 0) + 1
    return name if count == 1 else f"{name}_{count}"


class _Reducer:
    """The gradients of a step, by name."""

    def __init__(self, options: Options, adapter: Any) -> None:
        self._name = options.name
        self._named: Optional[str] = None
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

    def register_local(self, variable: Any) -> None:
        """The gradient of this variable stays on its rank."""
        self._reducer.register_local(id(variable))

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """None stays None."""
        if self._named is None:
            # Not when it is made: a rank may make optimizers that never step.
            self._named = _own_name(self._name)
        names = [f"{self._named}.gradient_{place}" for place in range(len(variables))]
        return self._reducer.reduce(gradients, [id(each) for each in variables], names)


class OnTorch(_Reducer):
    """On PyTorch every step is Python's."""

    def __init__(self, options: Options) -> None:
        import farandole.torch

        super().__init__(options, farandole.torch)
        self._new_sums = lambda: Accumulator(options.backward_passes_per_step, options.average_aggregated_gradients)
        self._sums = self._new_sums()
        self._is_due = True

    def begin_anew(self) -> None:
        """Nothing has been added up."""
        self._sums = self._new_sums()

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """What is to be applied, by ``apply``."""
        if self._sums.passes > 1:
            complete = self._sums.add([each if each is None else each.clone() for each in gradients])
            self._is_due = complete is not None
            if complete is None:
                return list(gradients)
            gradients = complete
        return self.reduce(gradients, variables)

    def apply(self, apply: Callable[[], Any], optimizer: Any) -> Any:
        """Applies where a step is due."""
        return apply() if self._is_due else None


class OnJax(_Reducer):
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


_BACKENDS = {"tensorflow": OnTensorFlow, "torch": OnTorch, "jax": OnJax}


def reduction_on(backend: str, options: Options) -> Any:
    """The one for a backend of Keras."""
    check_passes(options.backward_passes_per_step)
    return _BACKENDS[backend](options)
