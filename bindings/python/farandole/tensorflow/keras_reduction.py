"""The gradient reduction of Keras optimizers on TensorFlow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, List, Optional, Sequence

from farandole._keras.options import Options
from farandole._keras.variables import of_backend
from farandole.tensorflow.conditional import Conditions
from farandole.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Min
from farandole.tensorflow.reducing import GradientReduction

_FINITE = SimpleNamespace(path="finite")
"""Stands for a variable where ranks agree whether their gradients are finite."""


class KerasReduction:
    """Delegates to ``GradientReduction``, inside and outside of graphs."""

    def __init__(self, options: Options) -> None:
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
        self._agreement = GradientReduction(f"{options.name}_finite", op=Min, process_set=options.process_set)
        self.has_locals = False
        self.scale: Optional[Any] = None
        """A variable by which the gradients of this rank are multiplied first, if there is one."""
        self._conditions: Conditions = {}
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
        """Excludes this variable's gradient from reduction: each rank keeps its own."""
        helper = self.aggregation_helper
        (helper.register_local_var if helper else self._reduce.register_local)(variable)
        self.has_locals = True

    def agreed(self, condition: Any) -> Any:
        """Whether a condition holds on all ranks."""
        (flag,) = self._agreement([tf.cast(condition, tf.int32)], [_FINITE])
        return tf.cast(flag, tf.bool)

    def begin_anew(self) -> None:
        """Resets the counter of passes and the accumulated gradients to zero."""
        if self.aggregation_helper is not None:
            self.aggregation_helper.begin_anew()

    def __call__(
        self, gradients: Sequence[Any], variables: Sequence[Any], conditions: Optional[Conditions] = None
    ) -> List[Any]:
        """Accumulates and reduces the gradients. Returns the gradients for ``apply``."""
        if self.scale is not None:
            gradients = [_scaled(each, self.scale) for each in gradients]
        helper = self.aggregation_helper
        reduce = self._reduce if helper is None else helper.compute_gradients
        reduced: List[Any] = reduce(gradients, variables, conditions=conditions)
        return reduced

    def possible(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """Like a call, but gradients that only other ranks may have are not None in a graph. Until ``end_step()``,
        ``where_used()`` tells whether they have them."""
        return self(gradients, variables, self._conditions)

    def is_possible(self, variable: Any) -> bool:
        """Whether only other ranks may have the gradient of this variable in this step."""
        return id(of_backend(variable)) in self._conditions

    def where_used(self, variable: Any, change: Callable[[], Any]) -> None:
        """Calls a function that changes the variable, in a graph under the condition that some rank has used it."""
        condition = self._conditions.get(id(of_backend(variable)))
        if condition is None:
            change()
            return

        def changed() -> Any:
            change()
            return tf.constant(True)

        # Other conditions have the same names on ranks that have fewer of these.
        tf.cond(condition, changed, lambda: tf.constant(False), name="where_used")

    def end_step(self) -> None:
        """Forgets the conditions, which are tensors of a graph."""
        self._conditions.clear()

    def zero_unless_due(self, gradients: Sequence[Any]) -> List[Any]:
        """Zeros in a pass whose gradients are not applied. They are sums of this rank alone: a ``LossScaleOptimizer``
        that finds them infinite would change its scale on this rank alone."""
        if self.aggregation_helper is None:
            return list(gradients)
        is_due = tf.equal(self.aggregation_helper.counter, 0)
        return [each if each is None else tf.where(is_due, each, tf.zeros_like(each)) for each in gradients]

    def apply(self, apply: Callable[[], Any], optimizer: Any) -> Any:
        """Calls ``apply`` if a step is due."""
        return apply() if self.aggregation_helper is None else self.aggregation_helper.apply_gradients(apply, optimizer)


def _scaled(gradient: Any, scale: Any) -> Any:
    if gradient is None:
        return None
    factor = tf.cast(scale, gradient.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
