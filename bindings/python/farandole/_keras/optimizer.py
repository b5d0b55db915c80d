"""Wraps Keras optimizers: each becomes an instance of a generated class that derives from the optimizer's own."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from farandole._keras import keras2_optimizer, keras3_optimizer
from farandole._keras.distributed import Distributed
from farandole._keras.keras2_optimizer import OfKeras2
from farandole._keras.keras3_optimizer import OfKeras3, is_own_stateless_apply
from farandole._keras.library import Library, library_of
from farandole._keras.options import Options
from farandole._keras.unused_variables import OfKeras3OnTensorFlow
from farandole._keras.wrapping import wrapped_in
from farandole.common.arguments import require_reduction
from farandole.common.basics import HorovodBasics
from farandole.common.gradient_accumulator import check_passes
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import chosen_groups, require_op, scales

Average, Sum = HorovodBasics.Average, HorovodBasics.Sum


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
    """The implementation of ``DistributedOptimizer`` and ``PartialDistributedOptimizer``. The class of the result has
    the name of the optimizer's class and derives from it."""
    if isinstance(optimizer, Distributed):
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
        chosen_groups(num_groups, groups, used.variable_kinds, stacklevel=4),
        process_set,
        scale_local_gradients,
    )
    own_apply = used.backend == "jax" and is_own_stateless_apply(type(optimizer).stateless_apply)
    if own_apply and backward_passes_per_step > 1:
        raise ValueError(f"on JAX, backward_passes_per_step > 1 does not go together with {type(optimizer).__name__}")
    wrapped = wrapped_in(_class_of(type(optimizer), used, options), optimizer)
    object.__setattr__(wrapped, "_farandole", used.reduction(options))
    object.__setattr__(wrapped, "_name", options.name)
    if getattr(wrapped, "built", False) and hasattr(wrapped._farandole, "build"):
        wrapped._farandole.build(wrapped, wrapped._trainable_variables)
    if used.is_three:
        keras3_optimizer.let_ranks_agree(used.keras.optimizers.LossScaleOptimizer)
    else:
        for scaler in used.keras.mixed_precision.LossScaleOptimizer.__subclasses__():
            keras2_optimizer.let_ranks_agree(scaler)
    for variable in _variables_of_layers(used, local_layers):
        wrapped.register_local_var(variable)
    return wrapped


def _class_of(own: Any, used: Library, options: Options) -> Any:
    """The generated class of one optimizer. It has the module and the name of the optimizer's own class: a saved
    model refers to these, so it loads with the optimizer's own class."""

    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_farandole", used.reduction(options))
        super(made, self).__init__(*args, **kwargs)

    members: Dict[str, Any] = {"__init__": initialize, "__doc__": own.__doc__, "__module__": _module_of(own, used)}
    base = OfKeras2 if not used.is_three else OfKeras3OnTensorFlow if used.backend == "tensorflow" else OfKeras3
    made: Any = type(own.__name__, (base, own), members)
    return made


def _module_of(own: Any, used: Library) -> str:
    public = getattr(used.keras.optimizers, own.__name__, None)
    return "keras.optimizers" if used.is_three and public in own.__mro__ else own.__module__


def _variables_of_layers(used: Library, layers: Any) -> List[Any]:
    if layers is None:
        return []
    listed = layers if isinstance(layers, (list, tuple)) else [layers]
    if not all(isinstance(each, used.keras.layers.Layer) for each in listed):
        raise ValueError(f"local_layers must be a layer of Keras or a list of layers, not {layers!r}")
    return [variable for layer in listed for variable in layer.trainable_weights]
