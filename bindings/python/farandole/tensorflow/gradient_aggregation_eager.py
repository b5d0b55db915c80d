"""Local accumulation of gradients outside of graphs, and in functions: several passes, one reduction."""

from __future__ import annotations

import functools
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from farandole.common.gradient_accumulator import check_passes
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.tensorflow.conditional import Conditions, reduced_if
from farandole.tensorflow.gradient_aggregation import (
    Locals,
    ReduceFunction,
    apply_op_to_not_none_tensors,
    dense,
)
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.util import reference

_begun: weakref.WeakSet[LocalGradientAggregationHelperEager] = weakref.WeakSet()
"""Those whose variables a program can assign to outside of graphs."""


def discard_all_passes() -> None:
    """All begin anew: steps were undone, or the members have changed."""
    for each in list(_begun):
        each.begin_anew()


class LocalGradientAggregationHelperEager:
    """Accumulates gradients, and applies them only when the sums are complete.

    :param backward_passes_per_step: the number of passes whose gradients are accumulated
    :param allreduce_func: reduces gradients; called with the gradients and their variables
    :param sparse_as_dense: convert slices to dense tensors; without it, slices raise ``ValueError``
    :param average_aggregated_gradients: divide the sums by the number of passes
    :param process_set: the set whose size divides the gradients of local variables
    :param scale_local_gradients: divide gradients of local variables by the number of ranks
    """

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: ReduceFunction,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        self.backward_passes_per_step = check_passes(backward_passes_per_step)
        self.sparse_as_dense = sparse_as_dense
        self.average_aggregated_gradients = average_aggregated_gradients
        self._reduce = allreduce_func
        self._locals = Locals(process_set, scale_local_gradients)
        self.counter: Optional[Any] = None
        self._totals: Dict[Any, Any] = {}
        self._used: Set[Any] = set()
        """The keys of totals to which passes outside of graphs have added something."""

    def register_local_var(self, var: Any) -> None:
        """This variable's gradient is accumulated, and not reduced."""
        self._locals.register(var)

    @property
    def locally_aggregated_grads(self) -> List[Any]:
        """The variables in which gradients are added up."""
        return list(self._totals.values())

    def _make_variables(self, gradients: Sequence[Any], keys: Sequence[Any]) -> None:
        # The variables outlive a function that may be traced now, so they are created outside of its graph.
        with tf.init_scope():
            if tf.executing_eagerly():
                _begun.add(self)
            if self.counter is None:
                self.counter = tf.Variable(0, trainable=False, dtype=tf.int32)
            for key, gradient in zip(keys, gradients):
                if gradient is not None and key not in self._totals:
                    self._totals[key] = tf.Variable(tf.zeros(gradient.shape, gradient.dtype), trainable=False)

    def compute_gradients(
        self, grads: Sequence[Any], vars: Sequence[Any], conditions: Optional[Conditions] = None
    ) -> List[Any]:
        """Adds the gradients of this pass to the sums. The pass that completes the sums reduces them and resets the
        accumulators to zero. Passes may have different variables, because a script may freeze some.

        :param conditions: as for ``GradientReduction``; those of a pass that completes no sums are false
        :returns: the sums: reduced in the pass that completes them, unreduced in all others
        """
        gradients = dense(grads, self.sparse_as_dense)
        if self.backward_passes_per_step == 1:
            return self._locals.reduce(self._reduce, gradients, list(vars))
        keys = [reference(each) for each in vars]
        self._make_variables(gradients, keys)
        assert self.counter is not None
        totals = [self._totals.get(key) for key in keys]
        if tf.executing_eagerly():  # a variable that no pass has used has no gradient
            self._used.update(key for key, gradient in zip(keys, gradients) if gradient is not None)
            totals = [total if key in self._used else None for key, total in zip(keys, totals)]
        for total, gradient in zip(totals, gradients):
            if gradient is not None:
                total.assign_add(gradient)  # type: ignore[union-attr]
        self.counter.assign_add(1)
        if tf.executing_eagerly():  # then the reduction may give gradients that this rank lacks
            is_complete = int(self.counter) == self.backward_passes_per_step
            return self._completed(totals, list(vars)) if is_complete else self._copies(totals)
        return reduced_if(
            tf.equal(self.counter, self.backward_passes_per_step),
            lambda found: self._completed(totals, list(vars), found),
            lambda: totals,
            vars,
            conditions,
        )

    def begin_anew(self) -> None:
        """Resets the counter and the sums."""
        self._used.clear()
        for each in [self.counter, *self._totals.values()]:
            if each is not None:
                each.assign(tf.zeros_like(each))

    @staticmethod
    def _copies(totals: List[Any]) -> List[Any]:
        return apply_op_to_not_none_tensors(tf.identity, totals)

    def _completed(self, totals: List[Any], variables: List[Any], conditions: Optional[Conditions] = None) -> List[Any]:
        passes = self.backward_passes_per_step if self.average_aggregated_gradients else 1
        sums = apply_op_to_not_none_tensors(
            lambda total: tf.identity(total) / tf.cast(passes, total.dtype) if passes > 1 else tf.identity(total),
            totals,
        )
        self.begin_anew()
        reduce: Any = self._reduce
        if conditions is not None:
            reduce = functools.partial(reduce, conditions=conditions)
        return self._copies(self._locals.reduce(reduce, sums, variables))

    def apply_gradients(self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Applies the sums after the pass that completed them. After other passes it only counts the batch.

        :param apply_grads_closure: applies what ``compute_gradients`` returned
        """
        if self.backward_passes_per_step == 1:
            return apply_grads_closure()
        if tf.executing_eagerly():
            # The pass that completes the sums has reset the counter to 0.
            return apply_grads_closure() if int(self.counter) == 0 else _count_batch(optimizer)  # type: ignore[arg-type]

        def apply() -> Any:
            apply_grads_closure()
            return tf.constant(True)

        def skip() -> Any:
            _count_batch(optimizer)
            return tf.constant(False)

        return tf.cond(tf.equal(self.counter, 0), apply, skip)


def _count_batch(optimizer: Any) -> None:
    """Optimizers of Keras 2 count batches, as in Horovod. Those of Keras 3, whose counter is a variable of Keras, count
    steps, as its own ``gradient_accumulation_steps`` does."""
    iterations = getattr(optimizer, "iterations", None)
    if isinstance(iterations, tf.Variable):
        iterations.assign_add(1)
