"""Local accumulation of gradients in graphs: several passes, one reduction.

The graph holds a counter, and a sum for each variable, as variables that no optimizer trains. Each run adds to the
sums. The run that completes the sums reduces and applies them; other runs apply nothing.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Set

from farandole.common.gradient_accumulator import check_passes
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.tensorflow.framework import Verbs
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.util import reference

ReduceFunction = Callable[[List[Any], List[Any]], List[Any]]


def apply_op_to_not_none_tensors(tensor_op: Callable[..., Any], tensors: Sequence[Any], *args: Any) -> List[Any]:
    """``tensor_op`` of every tensor and ``args``; None stays None."""
    return [tensor if tensor is None else tensor_op(tensor, *args) for tensor in tensors]


def get_not_none_from_list(tensor_list: Sequence[Any]) -> List[Any]:
    """The elements that are not None."""
    return [each for each in tensor_list if each is not None]


def dense(gradients: Sequence[Any], sparse_as_dense: bool) -> List[Any]:
    """Gradients as dense tensors; ``ValueError`` for slices unless ``sparse_as_dense``."""

    def densified(gradient: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices) and not sparse_as_dense:
            raise ValueError(
                "tf.IndexedSlices cannot be accumulated over several backward passes; use sparse_as_dense=True"
            )
        return tf.convert_to_tensor(gradient)

    return apply_op_to_not_none_tensors(densified, gradients)


class Locals:
    """Local variables: their gradients are accumulated like all others, but not reduced."""

    def __init__(self, process_set: ProcessSet, scale: bool) -> None:
        self._process_set = process_set
        self._scale = scale
        self._known: Set[Any] = set()
        self._verbs = Verbs()

    def register(self, variable: Any) -> None:
        """Makes this variable a local one."""
        self._known.add(reference(variable))

    def reduce(self, reduce: ReduceFunction, gradients: List[Any], variables: List[Any]) -> List[Any]:
        """Reduces the gradients of all other variables by ``reduce``; scales those of local variables if so set."""
        others = [place for place, each in enumerate(variables) if reference(each) not in self._known]
        result = list(gradients)
        if self._scale:
            for place in set(range(len(result))) - set(others):
                if result[place] is not None:
                    result[place] = self._verbs.divided_by_members(result[place], self._process_set)
        reduced = reduce([gradients[place] for place in others], [variables[place] for place in others])
        for place, each in zip(others, reduced):
            result[place] = each
        return result


class LocalGradientAggregationHelper:
    """Accumulates gradients in a graph, and applies them only when the sums are complete.

    :param backward_passes_per_step: the number of passes whose gradients are accumulated
    :param allreduce_func: reduces gradients; called with the gradients and their variables
    :param sparse_as_dense: convert slices to dense tensors; without it, slices raise ``ValueError``
    :param average_aggregated_gradients: divide the sums by the number of passes
    :param rank: accepted and ignored; the names of the variables need no rank
    :param optimizer_type: accepted and ignored; all optimizers are treated alike
    :param process_set: the set whose size divides the gradients of local variables
    :param scale_local_gradients: divide gradients of local variables by the number of ranks
    :param name: prefix of the names of the variables
    """

    _OPTIMIZER_TYPE_KERAS = "optimizer_type_keras"
    _OPTIMIZER_TYPE_LEGACY = "optimizer_type_legacy"

    def __init__(
        self,
        backward_passes_per_step: int,
        allreduce_func: ReduceFunction,
        sparse_as_dense: bool,
        average_aggregated_gradients: bool,
        rank: int,
        optimizer_type: str,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
        name: str = "",
    ) -> None:
        self.backward_passes_per_step = check_passes(backward_passes_per_step)
        self.sparse_as_dense = sparse_as_dense
        self.average_aggregated_gradients = average_aggregated_gradients
        self._reduce = allreduce_func
        self._locals = Locals(process_set, scale_local_gradients)
        self._name = name
        self._complete: Optional[Any] = None
        self.counter: Optional[Any] = None
        self.locally_aggregated_grads: List[Any] = []

    def register_local_var(self, var: Any) -> None:
        """This variable's gradient is accumulated, and not reduced."""
        self._locals.register(var)

    def _variable(self, name: str, of: Any) -> Any:
        # Not by get_variable(): in a scope with the same name it returns the variable of another optimizer.
        return tf.compat.v1.Variable(
            lambda: tf.zeros(of.shape, of.dtype), trainable=False, use_resource=True, name=f"{self._name}{name}"
        )

    def _make_variables(self, gradients: Sequence[Any]) -> None:
        with tf.name_scope("aggregation_variables"):
            self.counter = self._variable("aggregation_counter", tf.constant(0))
            places = iter(range(len(gradients)))
            self.locally_aggregated_grads = apply_op_to_not_none_tensors(
                lambda each: self._variable(f"aggregated_gradient_{next(places)}", each), gradients
            )

    def compute_gradients(self, grads: Sequence[Any], vars: Sequence[Any]) -> List[Any]:
        """Adds the gradients of this pass to the sums.

        :returns: the sums: reduced in the run that completes them, unreduced in all others
        """
        gradients = dense(grads, self.sparse_as_dense)
        if self.backward_passes_per_step == 1:
            return self._locals.reduce(self._reduce, gradients, list(vars))
        self._make_variables(gradients)
        assert self.counter is not None
        added = [
            total.assign_add(gradient)
            for total, gradient in zip(self.locally_aggregated_grads, gradients)
            if total is not None
        ]
        with tf.control_dependencies(added):
            passes = self.counter.assign_add(1, read_value=True)
        self._complete = tf.equal(passes, self.backward_passes_per_step)
        with tf.control_dependencies([self._complete]):
            sums = apply_op_to_not_none_tensors(lambda total: total.read_value(), self.locally_aggregated_grads)
        there = [place for place, each in enumerate(sums) if each is not None]
        chosen = tf.cond(
            self._complete,
            lambda: get_not_none_from_list(self._completed(sums, list(vars))),
            lambda: [tf.identity(sums[place]) for place in there],
        )
        result: List[Any] = [None] * len(sums)
        for place, each in zip(there, chosen if isinstance(chosen, (list, tuple)) else [chosen]):
            result[place] = each
        return result

    def _completed(self, sums: List[Any], variables: List[Any]) -> List[Any]:
        if self.average_aggregated_gradients:
            sums = apply_op_to_not_none_tensors(
                lambda total: total / tf.cast(self.backward_passes_per_step, total.dtype), sums
            )
        return apply_op_to_not_none_tensors(tf.identity, self._locals.reduce(self._reduce, sums, variables))

    def apply_gradients(self, apply_grads_closure: Callable[[], Any], optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """In the run that completes the sums, applies them and resets the sums to zero. Does nothing in other runs.

        :param apply_grads_closure: applies what ``compute_gradients`` returned
        """
        if self.backward_passes_per_step == 1:
            return apply_grads_closure()

        def apply() -> Any:
            with tf.control_dependencies([apply_grads_closure()]):
                cleared = [
                    total.assign(tf.zeros_like(total))
                    for total in get_not_none_from_list(self.locally_aggregated_grads)
                ]
            with tf.control_dependencies([*cleared]):
                return tf.group(self.counter.assign(0))  # type: ignore[union-attr]

        def skip() -> Any:
            return tf.group()

        done = tf.cond(self._complete, lambda: _as_number(apply()), lambda: _as_number(skip()))
        return tf.group(done)


def _as_number(operation: Any) -> Any:
    """A constant that depends on the operation: both branches of ``tf.cond`` must return a value of one type."""
    with tf.control_dependencies([operation]):
        return tf.constant(0)
