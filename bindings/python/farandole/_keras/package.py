"""Makes the public functions of ``farandole.keras`` and ``farandole.tensorflow.keras`` for a given Keras."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, Dict, Optional, TypeVar

from farandole._keras import callbacks, elastic, models, values
from farandole._keras.library import library
from farandole._keras.optimizer import distributed
from farandole.common.basics import HorovodBasics
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set

Average = HorovodBasics.Average
Result = TypeVar("Result")


def functions_for(keras: Any) -> SimpleNamespace:
    """The public functions and ``Compression``, for one Keras."""
    used = library(keras)
    Compression = used.adapter.Compression

    @public
    def DistributedOptimizer(
        optimizer: Any,
        name: Optional[str] = None,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        op: int = Average,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        num_groups: int = 0,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> Any:
        return distributed(**locals())

    @public
    def PartialDistributedOptimizer(
        optimizer: Any,
        name: Optional[str] = None,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Any = Compression.none,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        op: int = Average,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        local_layers: Any = None,
        scale_local_gradients: bool = True,
    ) -> Any:
        return distributed(**locals())

    @public
    def broadcast_global_variables(root_rank: int) -> Any:
        return models.broadcast_global_variables(used, root_rank)

    @public
    def allreduce(
        value: Any,
        name: Optional[str] = None,
        average: Optional[bool] = None,
        prescale_factor: float = 1.0,
        postscale_factor: float = 1.0,
        op: Optional[int] = None,
        compression: Any = Compression.none,
    ) -> Any:
        return values.allreduce(used, value, name, average, prescale_factor, postscale_factor, op, compression)

    @public
    def allgather(value: Any, name: Optional[str] = None) -> Any:
        return values.allgather(used, value, name)

    @public
    def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Any:
        return values.broadcast(used, value, root_rank, name)

    @public
    def reducescatter(value: Any, name: Optional[str] = None, op: int = Average) -> Any:
        return values.reducescatter(used, value, name, op)

    @public
    def load_model(
        filepath: Any,
        custom_optimizers: Any = None,
        custom_objects: Optional[Dict[str, Any]] = None,
        compression: Any = Compression.none,
        legacy_opts: bool = False,
    ) -> Any:
        return models.load_model(used, filepath, custom_optimizers, custom_objects, compression, legacy_opts)

    made = [DistributedOptimizer, PartialDistributedOptimizer, broadcast_global_variables, allreduce, allgather]
    made += [broadcast, reducescatter, load_model]
    return SimpleNamespace(Compression=Compression, **{each.__name__: each for each in made})


def elastic_for(keras: Any) -> SimpleNamespace:
    """The contents of the module ``elastic``, for one Keras."""
    used = library(keras)
    made = callbacks.made_for(keras)

    def run(func: Callable[..., Result]) -> Callable[..., Result]:
        """Decorates a training function whose first argument is a state. The function starts from rank 0's state, and
        continues with the current members after the membership has changed."""
        return elastic.run_on(used, func)

    names = ("CommitStateCallback", "UpdateBatchStateCallback", "UpdateEpochStateCallback")
    return SimpleNamespace(run=run, KerasState=elastic.KerasState, **{name: getattr(made, name) for name in names})
