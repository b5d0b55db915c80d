"""The reduction of all gradients of a step, for optimizers and tapes.

In a graph every gradient has its own node, so that its reduction starts as soon as it is computed, while others are
still being computed. Outside of graphs all gradients are ready already, and are reduced as one group.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from farandole import xla
from farandole._keras.library import variable_kinds
from farandole._keras.variables import of_backend
from farandole.common import membership
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import GradientReducer, adds, chosen_groups, require_adasum, takes_part
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.absent_gradients import completed
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.framework import Verbs
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Adasum, Average
from farandole.tensorflow.nodes import normalize_name, set_id
from farandole.tensorflow.util import reference

Conditions = Dict[int, Any]
"""Whether some rank has the gradient of a variable in this step, as a tensor of one boolean, by the ``id`` of the
backend's own variable."""


class GradientReduction:
    """How the gradients of one optimizer or tape are reduced; called with gradients and their variables."""

    def __init__(
        self,
        name: str,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> None:
        if op == Adasum:
            require_adasum(process_set, mpi_ops.size())
        self._name = name
        self._groups = chosen_groups(num_groups, groups, variable_kinds(), stacklevel=4)
        self._process_set = process_set
        self._verbs = Verbs(device_dense, device_sparse)
        self._sparse_as_dense = sparse_as_dense

        def reducer(groups: Any) -> GradientReducer[Any]:
            return GradientReducer(
                self._verbs,
                op,
                gradient_predivide_factor,
                groups,
                reference,
                process_set,
                compression,
                sparse_as_dense,
                scale_local_gradients,
            )

        self._in_graphs = reducer(self._groups)
        self._at_once = reducer(self._groups or 1)

    def register_local(self, variable: Any) -> None:
        """Excludes this variable's gradient from reduction: each rank keeps its own."""
        self._in_graphs.register_local(reference(variable))
        self._at_once.register_local(reference(variable))

    def is_local(self, variable: Any) -> bool:
        """Whether this variable is registered as local."""
        return self._in_graphs.is_local(reference(variable))

    def __call__(
        self,
        gradients: Sequence[Any],
        variables: Sequence[Any],
        generic_names: bool = False,
        conditions: Optional[Conditions] = None,
    ) -> List[Any]:
        """Returns the reduced gradients. None stays None where no rank has a gradient.

        A graph does not know this when it is made. Without ``conditions``, None stays None there, and a step in which
        another rank has a gradient fails.

        :param conditions: in a graph, gets an entry for each gradient that only other ranks may have. The result holds
            a gradient there, to be applied under this condition.
        """
        keys = [reference(each) for each in variables]
        if tf.executing_eagerly():
            gradients = self._completed(gradients, variables)
            return self._at_once.reduce(gradients, keys, self._names(gradients, variables, generic_names))
        prefix = _generic_prefix() if generic_names else ""
        # Named by their variables, because a rank that lacks a gradient has no tensor after which to name it.
        names = [
            f"{prefix}_{place}" if generic_names else f"grad_{place}_{normalize_name(mpi_ops.name_of(each))}"
            for place, each in enumerate(variables)
        ]
        self._verbs.ignore_name_scope = generic_names
        with tf.name_scope(f"{self._name}_Allreduce"):
            if self._may_change():
                return self._where_included(list(gradients), keys, names)
            made = self._in_graphs.reduce(gradients, keys, names)
            self._add_absent(made, variables, names, conditions)
            return made

    def _add_absent(
        self, made: List[Any], variables: Sequence[Any], names: List[str], conditions: Optional[Conditions]
    ) -> None:
        """Takes part in the reductions of the gradients that this rank lacks in a graph, and others may have.

        Not for groups, whose names depend on their members, and not where XLA may compile the graph.
        """
        if not (self.takes_part() and adds(self._in_graphs.how.op)) or self._groups is not None or xla.is_wanted():
            return
        checks = []
        last = max((place for place, each in enumerate(made) if each is not None), default=None)
        for place, variable in enumerate(variables):
            if made[place] is not None or self.is_local(variable) or not _may_have_gradient(variable):
                continue
            reduced, is_reduced = self._verbs.absent_allreduce(
                variable, names[place], self._in_graphs.how, expects_none=conditions is None
            )
            if conditions is None:
                checks.append(is_reduced)
            else:
                made[place], conditions[id(of_backend(variable))] = reduced, is_reduced
        if checks and last is not None:  # a session runs only what its results need
            with tf.control_dependencies(checks):
                made[last] = _copied(made[last])

    def _completed(self, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
        """The gradients of this rank, completed by those that only other ranks have."""
        shared = [place for place, each in enumerate(variables) if not self.is_local(each)]
        made = list(gradients)
        if not (shared and self.takes_part() and adds(self._at_once.how.op)):
            return made
        found, of = [gradients[place] for place in shared], [variables[place] for place in shared]
        name = f"{self._name}_Allreduce/kinds"
        for place, each in zip(shared, completed(found, of, self._sparse_as_dense, name, self._process_set)):
            made[place] = each
        return made

    def _may_change(self) -> bool:
        """Whether this process may enter or leave the set while the graph is in use."""
        return membership.is_elastic() and self._process_set is not global_process_set

    def _where_included(self, gradients: List[Any], keys: List[Any], names: List[str]) -> List[Any]:
        there = [place for place, each in enumerate(gradients) if each is not None]
        included = mpi_ops.process_set_included_op(set_id("allreduce", None, self._process_set)) > 0

        def reduced() -> List[Any]:
            answer = self._in_graphs.reduced(gradients, keys, names)
            return [_copied(answer[place]) for place in there]

        chosen = tf.cond(included, reduced, lambda: [_copied(gradients[place]) for place in there])
        for place, each in zip(there, chosen if isinstance(chosen, (list, tuple)) else [chosen]):
            gradients[place] = each
        return gradients

    def _names(self, gradients: Sequence[Any], variables: Sequence[Any], generic_names: bool) -> List[str]:
        """The names by which ranks match gradients outside of graphs: the position of each variable, and its name for
        readability.

        Gradients that are reduced as one group share one text with a line for each, so that a stall warning can name
        the missing one.
        """
        names = []
        for place, variable in enumerate(variables):
            known = "" if generic_names else f"_{normalize_name(mpi_ops.name_of(variable))}"
            names.append(f"{self._name}_Allreduce/grad_{place}{known}")
        if self._groups is not None:
            return names
        dense = [place for place, each in enumerate(gradients) if self._is_reduced_dense(each, variables[place])]
        lines = "\n".join(names[place] for place in dense)
        return [lines if place in dense else name for place, name in enumerate(names)]

    def _is_reduced_dense(self, gradient: Any, variable: Any) -> bool:
        if gradient is None or self.is_local(variable):
            return False
        return self._sparse_as_dense or not self._verbs.is_sparse(gradient)

    def takes_part(self) -> bool:
        """Whether this process reduces gradients at all."""
        return takes_part(self._process_set)


def _may_have_gradient(variable: Any) -> bool:
    if not hasattr(variable, "assign") or not getattr(variable, "trainable", True):
        return False
    dtype = tf.as_dtype(variable.dtype)
    return bool(dtype.is_floating or dtype.is_complex) and tf.TensorShape(variable.shape).is_fully_defined()


def _generic_prefix() -> str:
    """Differs between the calls in one graph: their operations may run at the same time."""
    calls = tf.compat.v1.get_collection_ref("farandole_generic_names")
    calls.append(None)
    return f"grad{len(calls)}" if len(calls) > 1 else "grad"


def _copied(gradient: Any) -> Any:
    if not isinstance(gradient, tf.IndexedSlices):
        return tf.identity(gradient)
    shape = gradient.dense_shape
    return tf.IndexedSlices(
        tf.identity(gradient.values), tf.identity(gradient.indices), None if shape is None else tf.identity(shape)
    )
