"""The reduction of all gradients of a step, for optimizers and tapes.

In a graph every gradient has its own node, so that its reduction starts as soon as it is computed, while others are
still being computed. Outside of graphs all gradients are ready already, and are reduced as one group.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from farandole._keras.library import variable_kinds
from farandole._keras.variables import of_backend
from farandole.common import membership
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import GradientReducer, adds, chosen_groups, require_adasum, takes_part
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.absent_gradients import completed
from farandole.tensorflow.compression import Compression
from farandole.tensorflow.conditional import Conditions, copied, reduced_if
from farandole.tensorflow.framework import Verbs
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Adasum, Average
from farandole.tensorflow.nodes import normalize_name, set_id
from farandole.tensorflow.util import reference


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
        groups = chosen_groups(num_groups, groups, variable_kinds(), stacklevel=4)
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

        self._in_graphs = reducer(groups)
        self._at_once = reducer(groups or 1)

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
            return self._at_once.reduce(gradients, keys, self._names(variables, generic_names))
        prefix = _generic_prefix() if generic_names else ""
        # Named by their variables, because a rank that lacks a gradient has no tensor after which to name it.
        names = [
            f"{prefix}_{place}" if generic_names else f"grad_{place}_{normalize_name(mpi_ops.name_of(each))}"
            for place, each in enumerate(variables)
        ]
        self._verbs.ignore_name_scope = generic_names
        with tf.name_scope(f"{self._name}_Allreduce"):

            def reduced(found: Optional[Conditions]) -> List[Any]:
                made = self._in_graphs.reduced(gradients, keys, names)
                self._add_absent(made, variables, names, found)
                return made

            if self._may_change():
                included = mpi_ops.process_set_included_op(set_id("allreduce", None, self._process_set)) > 0
                return reduced_if(included, reduced, lambda: list(gradients), variables, conditions)
            return reduced(conditions) if self.takes_part() else list(gradients)

    def _add_absent(
        self, made: List[Any], variables: Sequence[Any], names: List[str], conditions: Optional[Conditions]
    ) -> None:
        """Takes part in the reductions of the gradients that this rank lacks in a graph, and others may have; each by
        itself, also where it is in a group on other ranks."""
        if not adds(self._in_graphs.how.op):
            return
        checks = []
        last = max((place for place, each in enumerate(made) if each is not None), default=None)
        for place, variable in enumerate(variables):
            if made[place] is not None or self.is_local(variable) or not may_have_gradient(variable):
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
                made[last] = copied(made[last])

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

    def _names(self, variables: Sequence[Any], generic_names: bool) -> List[str]:
        """The names by which ranks match gradients outside of graphs: the position of each variable, and its name for
        readability."""
        names = []
        for place, variable in enumerate(variables):
            known = "" if generic_names else f"_{normalize_name(mpi_ops.name_of(variable))}"
            names.append(f"{self._name}_Allreduce/grad_{place}{known}")
        return names

    def takes_part(self) -> bool:
        """Whether this process reduces gradients at all."""
        return takes_part(self._process_set)


def may_have_gradient(variable: Any) -> bool:
    """Whether a rank or a step other than this one may have a gradient of this variable."""
    if not hasattr(variable, "assign") or not getattr(variable, "trainable", True):
        return False
    dtype = tf.as_dtype(variable.dtype)
    return bool(dtype.is_floating or dtype.is_complex) and tf.TensorShape(variable.shape).is_fully_defined()


def _generic_prefix() -> str:
    """Differs between the calls in one graph: their operations may run at the same time."""
    calls = tf.compat.v1.get_collection_ref("farandole_generic_names")
    calls.append(None)
    return f"grad{len(calls)}" if len(calls) > 1 else "grad"
