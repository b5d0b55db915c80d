"""What a training has after a step, as values by name, and what of it is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Iterator, Tuple

import torch
from comparing import Snapshot, Tensor, from_start

from with_torch.recipe import Recipe
from with_torch.seats import LOSSY

if TYPE_CHECKING:
    from with_torch.training import Training


LEFT_OUT = ("differentiable", "al", "ro")
"""Of the state: PyTorch adds the first to groups that are made after a state was loaded; the others L-BFGS computes by
dividing by small differences."""


def take(training: Training) -> Snapshot:
    """The state of all that a step may change."""
    values: Dict[str, Any] = {"loss": training.loss, "calls": dict(training.calls)}
    values["model"] = dict(training.model.state_dict())
    values["gradient"] = dict(_gradients(training))
    values["frozen"] = {name: not each.requires_grad for name, each in training.model.named_parameters()}
    for index, optimizer in enumerate(training.optimizers):
        values[f"optimizer{index}"] = optimizer.state_dict()
    for index, scheduler in enumerate(training.schedulers):
        values[f"rates{index}"] = scheduler.get_last_lr()
    if training.scaler is not None:
        values["scaler"] = training.scaler.state_dict()
    if training.sampler is not None:
        values["sampler"] = training.sampler.state_dict()
    if training.average is not None:
        values["average"] = dict(training.average.state_dict())
    averages = {f"average.module.{name.removeprefix('model.')}": each for name, each in training.start.items()}
    return from_start(dict(flattened("", values)), {**averages, **training.start})


def take_weights(training: Training) -> Snapshot:
    """The tensors of the model."""
    return {key: value for key, value in flattened("model", training.model.state_dict()) if isinstance(value, Tensor)}


def take_broadcast(training: Training) -> Snapshot:
    """What ranks broadcast after `join()`. That of L-BFGS lacks its state."""
    kinds = ("model.",) if training.recipe.optimizer == "LBFGS" else ("model.", "optimizer")
    return {key: value for key, value in take(training).items() if key.startswith(kinds)}


def _gradients(training: Training) -> Iterator[Tuple[str, Any]]:
    """Those that the optimizers have reduced. If they take turns, passes for one have reached parameters of another."""
    if training.recipe.second == "turns":
        return
    if training.recipe.scaler == "overflow" and training.step == 1:
        return  # in one process all rows overflow, and on the ranks those of the last
    groups = [group["params"] for optimizer in training.optimizers for group in optimizer.param_groups]
    reduced = {id(parameter) for group in groups for parameter in group}
    for name, parameter in training.model.named_parameters():
        if id(parameter) in reduced:
            yield name, _dense(parameter.grad)


def _dense(gradient: Any) -> Any:
    return gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient


def flattened(key: str, value: Any) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name in LEFT_OUT:
                continue
            yield from flattened(f"{key}.{name}" if key else str(name), each)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from flattened(f"{key}.{index}", each)
    elif isinstance(value, torch.Tensor):
        yield key, _copied(_dense(value.detach()))
    else:
        yield key, value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def _copied(tensor: torch.Tensor) -> Tensor:
    plain = tensor.resolve_conj().resolve_neg()
    plain = plain.double() if tensor.dtype == torch.bfloat16 else plain
    return Tensor(str(tensor.dtype), plain.numpy().copy())


def differs_from_one_process(recipe: Recipe) -> str:
    """Why only rates and the like are compared with one process; empty if everything is.
    docs/guides/same-as-one-process.md has the reasons."""
    if recipe.op == "Adasum":
        return "Adasum"
    if recipe.dropout:
        return "random numbers"
    if recipe.norm == "batch":
        return "batch normalization"
    return "lossy compression" if set(recipe.wrapping) & {*LOSSY} else ""


def is_rate(key: str) -> bool:
    """Whether the value is one of a scheduler or of a parameter group."""
    return ".param_groups." in key or key.startswith("rates")


def is_compared_always(recipe: Recipe, key: str) -> bool:
    """Rates do not depend on the gradients, except those of `ReduceLROnPlateau`."""
    return is_rate(key) and recipe.scheduler != "ReduceLROnPlateau"


def is_of_each_rank(recipe: Recipe, key: str) -> bool:
    """Whether ranks have different values of this kind."""
    if recipe.norm == "batch" and "running_" in key:
        return True
    return recipe.op == "Adasum" and key.startswith(("optimizer", "gradient")) and ".param_groups." not in key


def tolerance(recipe: Recipe) -> Tuple[float, float]:
    if recipe.computes_in_halves:
        return 0.1, 0.1
    if recipe.optimizer == "Muon":  # it computes in bfloat16
        return 0.05, 0.1
    if recipe.optimizer == "Adafactor":  # it divides a gradient by its size, even one that is only a rounding error
        return 1e-3, 0.1
    # L-BFGS divides by differences of gradients, which may be as small as rounding errors.
    is_coarse = recipe.dtype == "float32" or recipe.optimizer == "LBFGS"
    return 1e-3 if is_coarse else 1e-6, 0.1
