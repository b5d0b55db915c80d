"""What a training has after a step, as values by name, and how two of them are compared."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Tuple

import torch

from with_torch.recipe import Recipe
from with_torch.seats import LOSSY

if TYPE_CHECKING:
    from with_torch.training import Training

Snapshot = Dict[str, Any]
"""Tensors are copies; all other values are plain."""


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
    if training.average is not None:
        values["average"] = dict(training.average.state_dict())
    return dict(_flattened("", values))


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


def _flattened(key: str, value: Any) -> Iterator[Tuple[str, Any]]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "differentiable":
                continue  # PyTorch adds it to groups that are made after a state was loaded
            yield from _flattened(f"{key}.{name}" if key else str(name), each)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _flattened(f"{key}.{index}", each)
    elif isinstance(value, torch.Tensor):
        yield key, _dense(value.detach()).clone()
    else:
        yield key, value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


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


def is_of_each_rank(recipe: Recipe, key: str) -> bool:
    """Whether ranks have different values of this kind."""
    if recipe.norm == "batch" and "running_" in key:
        return True
    return recipe.op == "Adasum" and key.startswith(("optimizer", "gradient")) and ".param_groups." not in key


def digests(recipe: Recipe, snapshot: Snapshot) -> Dict[str, str]:
    """A short hash of each value that all ranks must have with the same bits."""
    return {
        key: hashlib.blake2b(_bytes(value), digest_size=4).hexdigest()
        for key, value in snapshot.items()
        if not is_of_each_rank(recipe, key)
    }


def _bytes(value: Any) -> bytes:
    if not isinstance(value, torch.Tensor):
        return repr(value).encode()
    plain = value.contiguous().resolve_conj().resolve_neg().reshape(-1)
    described = f"{value.dtype} {tuple(value.shape)}".encode()
    return described + (plain.view(torch.uint8).numpy().tobytes() if plain.numel() else b"")


def computes_in_halves(recipe: Recipe) -> bool:
    return recipe.dtype in ("bfloat16", "float16") or "mixed" in recipe.extras or recipe.is_autocast


def tolerance(recipe: Recipe) -> float:
    """The greatest difference from one process, relative to the greatest entry of a tensor."""
    if computes_in_halves(recipe):
        return 0.1
    if recipe.optimizer == "Muon":  # it computes in bfloat16
        return 0.05
    if recipe.optimizer == "Adafactor":  # it divides a gradient by its size, even one that is only a rounding error
        return 1e-3
    return 1e-3 if recipe.dtype == "float32" else 1e-6


def differences(recipe: Recipe, found: Snapshot, expected: Snapshot) -> List[str]:
    """Describes the values that differ from those of one process."""
    lines = []
    reason = differs_from_one_process(recipe)
    for key in {**expected, **found}:
        if reason and not (is_rate(key) and recipe.scheduler != "ReduceLROnPlateau"):
            continue
        if key not in found or key not in expected:
            lines.append(f"{key}: only {'in one process' if key in expected else 'on the ranks'}")
        elif isinstance(expected[key], torch.Tensor) and isinstance(found[key], torch.Tensor):
            lines += _difference(recipe, key, found[key], expected[key])
        elif isinstance(expected[key], float) and isinstance(found[key], float):
            limit = 1e-9 if is_rate(key) else tolerance(recipe)
            if abs(found[key] - expected[key]) > limit * max(1, abs(expected[key])):
                lines.append(f"{key}: {found[key]} instead of {expected[key]}")
        elif type(found[key]) is not type(expected[key]) or found[key] != expected[key]:
            lines.append(f"{key}: {found[key]} instead of {expected[key]}")
    return lines


def _difference(recipe: Recipe, key: str, found: torch.Tensor, expected: torch.Tensor) -> List[str]:
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return [f"{key}: {found.dtype} {tuple(found.shape)} instead of {expected.dtype} {tuple(expected.shape)}"]
    if not found.numel():
        return []
    wide = torch.complex128 if found.is_complex() else torch.float64
    first, second = found.to(wide), expected.to(wide)
    finite = torch.isfinite(second)
    if not torch.equal(torch.isfinite(first), finite):
        return [f"{key}: other entries are finite"]
    first, second = first[finite], second[finite]
    if not first.numel():
        return []
    error = float((first - second).abs().max())
    least = 1.0 if computes_in_halves(recipe) else 0.1  # a gradient may be the small difference of large terms
    bound = tolerance(recipe) * max(float(second.abs().max()), least)
    return [f"{key}: differs by {error:.2g}, more than {bound:.2g}"] if error > bound else []
