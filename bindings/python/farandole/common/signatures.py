"""The interface of every framework's package: names, order and defaults of parameters, as they are written in code.

The operations are made from their rows by ``wrappers``; the types are in ``parameter_types``. A class stands for its
constructor, without ``self``. The documentation of the functions is in ``operations``; functions that are listed only
here are documented where they are defined. ``differences`` compares a package with its table.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
from typing import Any, Callable, Dict, List, Tuple

Parameters = List[Tuple[str, str]]
"""Name and default; an empty default means that there is none."""

_SCALES = "prescale_factor=1.0, postscale_factor=1.0"
_SET = "process_set=global_process_set"
_PACKED = "compression=Compression.none"
_DEVICES = "device_dense='', device_sparse=''"


def _arrays() -> Dict[str, str]:
    """Of PyTorch and NumPy; ``packed`` where a compressor may be given."""
    reduced = f"average=None, name=None, op=None, {_SCALES}, {_SET}"
    scattered = f"name=None, op=Average, {_SET}, {_SCALES}"
    return {
        "allreduce": f"tensor, {reduced}",
        "allreduce_async": f"tensor, {reduced}",
        "allreduce_": f"tensor, {reduced}",
        "allreduce_async_": f"tensor, {reduced}",
        "grouped_allreduce": f"tensors, {reduced}",
        "grouped_allreduce_async": f"tensors, {reduced}",
        "grouped_allreduce_": f"tensors, {reduced}",
        "grouped_allreduce_async_": f"tensors, {reduced}",
        "allgather": f"tensor, name=None, {_SET}",
        "allgather_async": f"tensor, name=None, {_SET}",
        "grouped_allgather": f"tensors, name=None, {_SET}",
        "grouped_allgather_async": f"tensors, name=None, {_SET}",
        "broadcast": f"tensor, root_rank, name=None, {_SET}",
        "broadcast_async": f"tensor, root_rank, name=None, {_SET}",
        "broadcast_": f"tensor, root_rank, name=None, {_SET}",
        "broadcast_async_": f"tensor, root_rank, name=None, {_SET}",
        "alltoall": f"tensor, splits=None, name=None, {_SET}",
        "alltoall_async": f"tensor, splits=None, name=None, {_SET}",
        "reducescatter": f"tensor, {scattered}",
        "reducescatter_async": f"tensor, {scattered}",
        "grouped_reducescatter": f"tensors, {scattered}",
        "grouped_reducescatter_async": f"tensors, {scattered}",
        "poll": "handle",
        "synchronize": "handle",
        "join": "device=-1",
        "barrier": _SET,
        "broadcast_object": f"obj, root_rank=0, name=None, {_SET}",
        "allgather_object": f"obj, name=None, {_SET}",
    }


NUMPY = _arrays()

TORCH = {
    **_arrays(),
    "allreduce": f"tensor, average=None, name=None, {_PACKED}, op=None, {_SCALES}, {_SET}",
    "grouped_allreduce": f"tensors, average=None, name=None, {_PACKED}, op=None, {_SCALES}, {_SET}",
    "sparse_allreduce_async": f"tensor, name, op, {_SET}",
    "reducescatter": f"tensor, name=None, {_PACKED}, op=Average, {_SET}, {_SCALES}",
    "grouped_reducescatter": f"tensors, name=None, {_PACKED}, op=Average, {_SET}, {_SCALES}",
    "broadcast_parameters": f"params, root_rank, {_SET}",
    "broadcast_optimizer_state": f"optimizer, root_rank, model=None, {_SET}",
    "DistributedOptimizer": (
        f"optimizer, named_parameters=None, {_PACKED}, backward_passes_per_step=1, op=Average, "
        f"gradient_predivide_factor=1.0, num_groups=0, groups=None, sparse_as_dense=False, {_SET}"
    ),
    "SyncBatchNorm": "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True",
}

# JAX arrays are never written to, and its own runtime makes every call asynchronous.
JAX = {name: text for name, text in _arrays().items() if not name.endswith(("_", "_async"))}
JAX = {
    **{name: text for name, text in JAX.items() if name not in ("poll", "synchronize")},
    **{name: TORCH[name] for name in ("allreduce", "grouped_allreduce", "reducescatter", "grouped_reducescatter")},
    "broadcast_parameters": f"params, root_rank=0, {_SET}",
    "DistributedOptimizer": (
        f"optimizer, name=None, {_PACKED}, backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, "
        f"average_aggregated_gradients=False, groups=None, {_SET}"
    ),
}

MXNET = {
    "allreduce": f"tensor, average=None, name=None, priority=0, {_SCALES}, {_SET}, op=None",
    "allreduce_": f"tensor, average=None, name=None, priority=0, {_SCALES}, {_SET}, op=None",
    "grouped_allreduce": f"tensors, average=None, name=None, priority=0, {_SCALES}, {_SET}, op=None",
    "grouped_allreduce_": f"tensors, average=None, name=None, priority=0, {_SCALES}, {_SET}, op=None",
    "allgather": f"tensor, name=None, priority=0, {_SET}",
    "grouped_allgather": f"tensors, name=None, priority=0, {_SET}",
    "broadcast": f"tensor, root_rank, name=None, priority=0, {_SET}",
    "broadcast_": f"tensor, root_rank, name=None, priority=0, {_SET}",
    "alltoall": f"tensor, splits=None, name=None, priority=0, {_SET}",
    "reducescatter": f"tensor, op=Average, name=None, priority=0, {_SET}, {_SCALES}",
    "grouped_reducescatter": f"tensors, op=Average, name=None, priority=0, {_SET}, {_SCALES}",
    "barrier": _SET,
    "broadcast_object": "obj, root_rank=0, name=None",
    "allgather_object": "obj, name=None",
    "broadcast_parameters": "params, root_rank=0, prefix=None",
    "DistributedOptimizer": f"optimizer, gradient_predivide_factor=1.0, num_groups=0, {_SET}",
    "DistributedTrainer": (
        f"params, optimizer, optimizer_params=None, {_PACKED}, gradient_predivide_factor=1.0, prefix=None, "
        f"num_groups=0, {_SET}"
    ),
}


def _tensorflow() -> Dict[str, str]:
    scope = "ignore_name_scope=False"
    reduced = f"average=None, {_DEVICES}, {_PACKED}, op=None, {_SCALES}"
    taped = f"{_DEVICES}, {_PACKED}, sparse_as_dense=False, op=Average, gradient_predivide_factor=1.0, num_groups=0"
    return {
        "allreduce": f"tensor, {reduced}, name=None, {_SET}, {scope}",
        "grouped_allreduce": f"tensors, {reduced}, {_SET}, {scope}, name=None",
        "reducescatter": f"tensor, device_dense='', {_PACKED}, op=Average, name=None, {_SET}, {scope}, {_SCALES}",
        "grouped_reducescatter": f"tensors, device_dense='', {_PACKED}, op=Average, {_SET}, {_SCALES}, name=None",
        "allgather": f"tensor, name=None, {scope}, {_SET}",
        "grouped_allgather": f"tensors, name=None, {scope}, {_SET}",
        "broadcast": f"tensor, root_rank, name=None, {scope}, {_SET}",
        "broadcast_": f"variables, root_rank, name=None, {_SET}",
        "alltoall": f"tensor, splits=None, name=None, {scope}, {_SET}",
        "join": "",
        "barrier": _SET,
        "size_op": "process_set_id=0, name=None",
        "process_set_included_op": "process_set_id=0, name=None",
        "local_size_op": "name=None",
        "rank_op": "name=None",
        "local_rank_op": "name=None",
        "_allreduce": f"tensor, name=None, op=Sum, {_SCALES}, {scope}, {_SET}",
        "broadcast_variables": f"variables, root_rank, {_SET}, inplace=False",
        "broadcast_global_variables": "root_rank",
        "broadcast_object": f"obj, root_rank=0, session=None, name=None, {_SET}",
        "broadcast_object_fn": f"root_rank=0, session=None, name=None, {_SET}",
        "allgather_object": f"obj, session=None, name=None, {_SET}",
        "BroadcastGlobalVariablesHook": "root_rank, device=''",
        "DistributedOptimizer": (
            f"optimizer, name=None, use_locking=False, {_DEVICES}, {_PACKED}, sparse_as_dense=False, "
            "backward_passes_per_step=1, op=Average, gradient_predivide_factor=1.0, "
            f"average_aggregated_gradients=False, num_groups=0, groups=None, {_SET}, scale_local_gradients=True"
        ),
        "DistributedGradientTape": f"gradtape, {taped}, groups=None, {_SET}, scale_local_gradients=True",
        "PartialDistributedGradientTape": (
            f"gradtape, {taped}, groups=None, {_SET}, local_layers=None, scale_local_gradients=True"
        ),
        "SyncBatchNormalization": "fused=False, **kwargs",
        "LocalGradientAggregationHelper": (
            "backward_passes_per_step, allreduce_func, sparse_as_dense, average_aggregated_gradients, rank, "
            f"optimizer_type, {_SET}, scale_local_gradients=True, name=''"
        ),
    }


TENSORFLOW = _tensorflow()

_KERAS_OPTIMIZER = (
    f"optimizer, name=None, {_DEVICES}, {_PACKED}, sparse_as_dense=False, gradient_predivide_factor=1.0, op=Average, "
    "backward_passes_per_step=1, average_aggregated_gradients=False"
)

KERAS = {
    "DistributedOptimizer": f"{_KERAS_OPTIMIZER}, num_groups=0, groups=None, {_SET}, scale_local_gradients=True",
    "PartialDistributedOptimizer": (
        f"{_KERAS_OPTIMIZER}, groups=None, {_SET}, local_layers=None, scale_local_gradients=True"
    ),
    "broadcast_global_variables": "root_rank",
    "allreduce": f"value, name=None, average=None, {_SCALES}, op=None, {_PACKED}",
    "allgather": "value, name=None",
    "broadcast": "value, root_rank, name=None",
    "reducescatter": "value, name=None, op=Average",
    "load_model": f"filepath, custom_optimizers=None, custom_objects=None, {_PACKED}, legacy_opts=False",
}

CALLBACKS = {
    "BroadcastGlobalVariablesCallback": "root_rank, device='', local_variables=None",
    "MetricAverageCallback": "device=''",
    "LearningRateScheduleCallback": (
        "initial_lr, multiplier, start_epoch=0, end_epoch=None, staircase=True, momentum_correction=True, "
        "steps_per_epoch=None"
    ),
    "LearningRateWarmupCallback": (
        "initial_lr, warmup_epochs=5, momentum_correction=True, steps_per_epoch=None, verbose=0"
    ),
    "BestModelCheckpoint": "monitor='val_loss', verbose=0, mode='auto', save_freq='epoch'",
}

KERAS_ELASTIC = {
    "KerasState": "model, optimizer=None, **kwargs",
    "CommitStateCallback": "state, batches_per_commit=1",
    "UpdateBatchStateCallback": "state",
    "UpdateEpochStateCallback": "state",
    "run": "func",
}

PACKAGES: Dict[str, Dict[str, str]] = {
    "numpy": NUMPY,
    "numpy.elastic": {"run": "func", "NumPyState": "**kwargs"},
    "torch": TORCH,
    "torch.elastic": {
        "run": "func",
        "TorchState": "model=None, optimizer=None, **kwargs",
        "ElasticSampler": "dataset, shuffle=True, seed=0",
    },
    "jax": JAX,
    "jax.elastic": {"run": "func", "JaxState": "**kwargs"},
    "mxnet": MXNET,
    "tensorflow": TENSORFLOW,
    "tensorflow.elastic": {
        "run": "func",
        "TensorFlowKerasState": "model, optimizer=None, backend=None, **kwargs",
        "TensorFlowState": "variables=None, session=None, **kwargs",
    },
    "tensorflow.keras": KERAS,
    "tensorflow.keras.callbacks": {
        **CALLBACKS,
        "BestModelCheckpoint": "monitor='val_loss', verbose=0, save_weights_only=False, mode='auto', save_freq='epoch'",
    },
    "tensorflow.keras.elastic": KERAS_ELASTIC,
    "keras": KERAS,
    "keras.callbacks": CALLBACKS,
    "keras.elastic": KERAS_ELASTIC,
}
"""By the name of the package below ``farandole``."""


@functools.cache
def row(package: str, name: str) -> Parameters:
    """The parameters of one function."""
    return read(PACKAGES[package][name])


def read(text: str) -> Parameters:
    """The parameters of a row; ``**kwargs`` keeps its stars."""
    arguments = ast.parse(f"lambda {text}: 0", mode="eval").body.args  # type: ignore[attr-defined]
    names = [each.arg for each in arguments.args]
    defaults = [ast.unparse(each) for each in arguments.defaults]
    rest = [(f"**{arguments.kwarg.arg}", "")] if arguments.kwarg else []
    return [*zip(names, [""] * (len(names) - len(defaults)) + defaults), *rest]


def parameters_of(function: Callable[..., Any]) -> List[Tuple[str, Any]]:
    """The parameters of a function as it is; ``inspect.Parameter.empty`` where there is no default."""
    return [
        (f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name, each.default)
        for each in inspect.signature(function).parameters.values()
    ]


def _same(wanted: Parameters, actual: List[Tuple[str, Any]], module: Any) -> bool:
    if [name for name, _ in wanted] != [name for name, _ in actual]:
        return False
    for (_, text), (_, default) in zip(wanted, actual):
        if not text:
            if default is not inspect.Parameter.empty:
                return False
            continue
        value = eval(text, {**constants(), **vars(module)})
        if type(value) is not type(default) or value != default:
            return False
    return True


def constants() -> Dict[str, Any]:
    """The names that defaults are written in, except those that a package defines itself."""
    from farandole.common.basics import HorovodBasics
    from farandole.common.process_sets import global_process_set

    return {"Average": HorovodBasics.Average, "Sum": HorovodBasics.Sum, "global_process_set": global_process_set}


def differences(package: str) -> List[str]:
    """The deviations of a package from its table, one sentence each. Imports the package."""
    module = importlib.import_module(f"farandole.{package}")
    found = []
    for name, text in PACKAGES[package].items():
        function = getattr(module, name, None)
        if function is None:
            found.append(f"farandole.{package} has no {name}")
        elif not _same(read(text), parameters_of(function), module):
            found.append(f"farandole.{package}.{name}{inspect.signature(function)} should be ({text})")
    return found
