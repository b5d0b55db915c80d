"""Keras' optimizers, wrapped: instances of a class made for each, which derives from the optimizer's own."""

from __future__ import annotations

import enum
from typing import Any, Dict, List, Optional, Sequence, Tuple

from farandole._keras.library import Library, library_of, variables_of
from farandole._keras.reduction import Options, reduction_on
from farandole.common.arguments import require_reduction
from farandole.common.basics import HorovodBasics
from farandole.common.ledger import check_passes
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import chosen_groups, require_op, scales

Average, Sum = HorovodBasics.Average, HorovodBasics.Sum


class CallableList(List[Any]):
    """A list that can be called, too: older scripts do."""

    def __call__(self) -> List[Any]:
        """The list."""
        return self


class _Distributed:
    """What every wrapped optimizer has besides what its own class has."""

    _farandole: Any

    def register_local_var(self, var: Any) -> None:
        """This variable's gradient stays this rank's own."""
        self._farandole.register_local(var)

    def _farandole_begin_anew(self) -> None:
        """Forgets what backward passes have added up: members have changed."""
        self._farandole.begin_anew()


class _OfKeras3(_Distributed):
    """Every way to apply gradients ends in ``apply()``."""

    def build(self, variables: Sequence[Any]) -> None:
        super().build(variables)  # type: ignore[misc]
        if hasattr(self._farandole, "build"):
            self._farandole.build(self, variables)

    @property
    def variables(self) -> CallableList:
        """The optimizer's variables."""
        return CallableList(super().variables)  # type: ignore[misc]

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Reduces the gradients over all ranks, and applies them."""
        grads = list(grads)
        if not grads:
            return None
        if trainable_variables is None:
            variables = list(self._trainable_variables)  # type: ignore[attr-defined]
        else:
            variables = list(trainable_variables)
            if not self.built:  # type: ignore[has-type]
                # Before anything is conditional.
                self.build(variables)
                self.built = True
        reduced = self._farandole(grads, variables)
        return self._farandole.apply(lambda: super(_OfKeras3, self).apply(reduced, variables), self)  # type: ignore[misc]

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """On JAX: reduces the gradients over all ranks, and applies them."""
        if not _has_own_stateless_apply(type(self)):
            return super().stateless_apply(optimizer_variables, grads, trainable_variables)  # type: ignore[misc]
        reduced = self._farandole(list(grads), list(self._trainable_variables))  # type: ignore[attr-defined]
        return super().stateless_apply(optimizer_variables, reduced, trainable_variables)  # type: ignore[misc]

    def save_own_variables(self, store: Any) -> None:
        """As the wrapped optimizer's: what backward passes add up is not kept."""
        for place, variable in enumerate(variables_of(self)):
            store[str(place)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """As the wrapped optimizer's."""
        lasting = variables_of(self)
        if len(store.keys()) != len(lasting):
            super().load_own_variables(store)  # type: ignore[misc]  # warns
            return
        for place, variable in enumerate(lasting):
            variable.assign(store[str(place)])


def _has_own_stateless_apply(kind: type) -> bool:
    """Whether it does not come to ``apply()``, as that of a loss scale's optimizer."""
    definer = next(each for each in kind.__mro__ if "stateless_apply" in vars(each) and each is not _OfKeras3)
    return definer.__name__ != "BaseOptimizer"


class _Stage(enum.Enum):
    """How far gradients have come on their way through an optimizer of Keras 2."""

    FRESH = enum.auto()
    COMPUTED = enum.auto()
    AGGREGATED = enum.auto()
    APPLYING = enum.auto()


class _OfKeras2(_Distributed):
    """Gradients are computed, aggregated and applied by three calls, which wrappers and subclasses make one by one.
    The first of these calls that the caller makes reduces them; the others do not.

    A loss scale's optimizer does not apply gradients that overflow, so the stage may be that of a step that was
    skipped. Therefore computing always begins a new step, and so does aggregating, except after computing.
    """

    _farandole_stage = _Stage.FRESH

    @property
    def _agg_helper(self) -> Any:
        """What adds up the gradients of several backward passes; None with one pass."""
        return self._farandole.aggregation_helper

    def _farandole_begin_anew(self) -> None:
        super()._farandole_begin_anew()
        self._farandole_stage = _Stage.FRESH

    def _farandole_reduce(self, grads_and_vars: Any) -> List[Any]:
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        return list(zip(self._farandole([gradient for gradient, _ in pairs], variables), variables))

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> List[Any]:
        """Gradients of ``loss``, multiplied by ``grad_loss`` if it is given, and reduced over all ranks."""
        if hasattr(super(), "_compute_gradients"):
            pairs = super()._compute_gradients(loss, var_list, grad_loss=grad_loss, tape=tape)  # type: ignore[misc]
        else:
            pairs = super().compute_gradients(*_weighted(loss, grad_loss, tape, var_list))  # type: ignore[misc]
        reduced = self._farandole_reduce(pairs)
        self._farandole_stage = _Stage.COMPUTED
        return reduced

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduces the gradients over all ranks, if no call before has, and applies them."""
        import tensorflow as tf

        pairs = list(grads_and_vars)
        if pairs and hasattr(self, "build"):
            with tf.init_scope():
                self.build([variable for _, variable in pairs])
        elif pairs and hasattr(self, "_create_all_weights"):
            with tf.init_scope():
                self._create_all_weights([variable for _, variable in pairs])
        if self._farandole_stage is _Stage.FRESH:
            pairs = self._farandole_reduce(pairs)
        self._farandole_stage = _Stage.APPLYING
        try:
            return self._farandole.apply(
                lambda: super(_OfKeras2, self).apply_gradients(pairs, *args, **kwargs),  # type: ignore[misc]
                self,
            )
        finally:
            self._farandole_stage = _Stage.FRESH

    def _farandole_aggregate(self, grads_and_vars: Any) -> Any:
        """Reduces unless the gradients are reduced already."""
        if self._farandole_stage is _Stage.APPLYING:
            return grads_and_vars
        if self._farandole_stage is not _Stage.COMPUTED:
            grads_and_vars = self._farandole_reduce(grads_and_vars)
        self._farandole_stage = _Stage.AGGREGATED
        return grads_and_vars

    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        """Reduces the gradients over all ranks; ``apply_gradients`` then does not."""
        reduced = self._farandole_aggregate(grads_and_vars)
        if not hasattr(super(), "aggregate_gradients"):
            return reduced
        return super().aggregate_gradients(reduced)  # type: ignore[misc]

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        """As ``aggregate_gradients``: wrappers of older optimizers call it by this name."""
        reduced = self._farandole_aggregate(grads_and_vars)
        if not hasattr(super(), "_aggregate_gradients"):
            return reduced
        return super()._aggregate_gradients(reduced)  # type: ignore[misc]

    def get_gradients(self, loss: Any, params: Any) -> Any:
        """In graphs of TensorFlow 1: the gradients, reduced over all ranks."""
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        self._farandole_stage = _Stage.COMPUTED
        return self._farandole(gradients, list(params))


def _weighted(loss: Any, weight: Any, tape: Any, variables: Any) -> Tuple[Any, Any, Any]:
    """The arguments of ``compute_gradients``, which knows no weight for the loss, with the loss weighted."""
    if weight is None:
        return loss, variables, tape
    if callable(loss):
        return (lambda: loss() * weight), variables, tape
    if tape is not None:
        with tape:
            loss = loss * weight
    return loss, variables, tape


def distributed(
    optimizer: Any,
    name: Optional[str],
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: int,
    backward_passes_per_step: int,
    average_aggregated_gradients: bool,
    num_groups: int = 0,
    groups: Any = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """What ``DistributedOptimizer`` and ``PartialDistributedOptimizer`` return: the optimizer's configuration without
    its state, in an object whose class has the optimizer's name and derives from its class.
    """
    if isinstance(optimizer, _Distributed):
        raise ValueError(
            "DistributedOptimizer was given an optimizer that is distributed already; wrap each optimizer once"
        )
    require_reduction("DistributedOptimizer", compression, process_set)
    used = library_of(optimizer)
    require_op(op, (Average, Sum))
    check_passes(backward_passes_per_step)
    scales(op, gradient_predivide_factor)
    options = Options(
        name or f"Distributed{type(optimizer).__name__}",
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        gradient_predivide_factor,
        op,
        backward_passes_per_step,
        average_aggregated_gradients,
        chosen_groups(num_groups, groups, _variable_kinds(used), stacklevel=4),
        process_set,
        scale_local_gradients,
    )
    if used.backend == "jax" and backward_passes_per_step > 1 and _has_own_stateless_apply(type(optimizer)):
        raise ValueError(f"on JAX, backward_passes_per_step > 1 does not go together with {type(optimizer).__name__}")
    wrapped = _class_of(type(optimizer), used, options).from_config(optimizer.get_config())
    for variable in _variables_of_layers(used, local_layers):
        wrapped.register_local_var(variable)
    return wrapped


def _class_of(own: Any, used: Library, options: Options) -> Any:
    """A class for one optimizer. Saved models name its module and name, and find the optimizer's own class there."""

    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_farandole", reduction_on(used.backend, options))
        super(made, self).__init__(*args, **kwargs)
        object.__setattr__(self, "_name", options.name)

    members: Dict[str, Any] = {"__init__": initialize, "__doc__": own.__doc__, "__module__": _module_of(own, used)}
    made: Any = type(own.__name__, (_OfKeras3 if used.is_three else _OfKeras2, own), members)
    return made


def _module_of(own: Any, used: Library) -> str:
    public = getattr(used.keras.optimizers, own.__name__, None)
    return "keras.optimizers" if used.is_three and public in own.__mro__ else own.__module__


def _variable_kinds(used: Library) -> Any:
    if used.backend != "tensorflow":
        return used.keras.Variable
    from farandole.tensorflow.framework import variable_kinds

    return variable_kinds()


def _variables_of_layers(used: Library, layers: Any) -> List[Any]:
    if layers is None:
        return []
    listed = layers if isinstance(layers, (list, tuple)) else [layers]
    if not all(isinstance(each, used.keras.layers.Layer) for each in listed):
        raise ValueError(f"local_layers must be a layer of Keras or a list of layers, not {layers!r}")
    return [variable for layer in listed for variable in layer.trainable_weights]
