"""What a training has after a step, as values by name, and what of it is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator, Tuple

import mxnet as mx
from comparing import Rules, Snapshot, Tensor, from_start

from with_mxnet.recipe import Recipe

if TYPE_CHECKING:
    from with_mxnet.training import Training


def take(training: Training) -> Snapshot:
    """The state of all that a step may change. Gradients are divided as the trainers do."""
    values: Snapshot = {"loss": training.loss}
    overflows = training.recipe.scaler == "overflow" and training.step == 1  # of all rows, or of the last rank's
    for name, each in training.model._collect_params_with_prefix().items():
        values[f"model.{name}"] = _copied(each.data())
        if each.grad_req != "null" and not overflows:
            values[f"gradient.{name}"] = _copied(each.grad(), training.divisor)
    for place, trainer in enumerate(training.trainers):
        values[f"rate{place}"] = float(trainer.learning_rate)
        values[f"updates{place}"] = trainer.optimizer.num_update
        for index, state in trainer._updaters[0].states.items():
            values.update(_flattened(f"optimizer{place}.{trainer._params[index].name}", state))
        if hasattr(trainer, "_amp_loss_scaler"):
            values[f"scale{place}"] = trainer._amp_loss_scaler.loss_scale
    return from_start(values, training.start)


def take_weights(training: Training) -> Snapshot:
    """The parameters of the model whose shapes are known."""
    parameters = training.model._collect_params_with_prefix()
    return {f"model.{name}": _copied(each.data()) for name, each in parameters.items() if each._data is not None}


def _flattened(key: str, value: Any) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, (tuple, list)):
        for place, each in enumerate(value):
            yield from _flattened(f"{key}.{place}", each)
    else:
        yield key, _copied(value) if isinstance(value, mx.nd.NDArray) else value


def _copied(array: Any, divisor: float = 1.0) -> Tensor:
    values = array.asnumpy()
    return Tensor(str(values.dtype), values / values.dtype.type(divisor))


def differs_from_one_process(recipe: Recipe) -> str:
    """Why only rates are compared with one process. docs/guides/same-as-one-process.md has the reasons."""
    if recipe.dropout or recipe.norm == "batch":
        return "random numbers, or batch normalization"
    return "lossy compression" if {*recipe.wrapping} & {"fp16", "bf16"} else ""


def is_rate(key: str) -> bool:
    return key.startswith(("rate", "updates"))


def tolerance(recipe: Recipe) -> Tuple[float, float]:
    if "half" in recipe.extras:
        return 0.1, 0.05
    return 1e-3 if recipe.dtype == "float32" else 1e-6, 0.1


RULES = Rules(
    differs_from_one_process,
    is_compared_always=lambda recipe, key: is_rate(key),
    is_of_each_rank=lambda recipe, key: ".running_" in key,
    is_rate=is_rate,
    tolerance=tolerance,
)
