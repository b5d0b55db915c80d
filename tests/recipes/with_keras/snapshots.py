"""What a training has after a step, as values by name, and what of it is compared."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Tuple

import numpy as np
from comparing import Snapshot, Tensor, from_start
from farandole._keras.library import all_variables_of, bring_home
from farandole._keras.variables import is_random_state

from with_keras.recipe import Recipe
from with_keras.seats import LOSSY
from with_keras.versions import BACKEND, array_of, path_of, rate_of, type_of

if TYPE_CHECKING:
    from with_keras.training import Training


def take(training: Training) -> Snapshot:
    """The state of all that a step may change."""
    bring_home(training.model)
    optimizer = training.model.optimizer
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    values: Snapshot = {}
    for place, each in enumerate(getattr(inner, "_inner_optimizers", [inner])):
        values[f"rate{place}"] = rate_of(each)
    values.update(take_weights(training))
    for place, each in enumerate(all_variables_of(optimizer)):
        name = re.sub(r"_\d+$", "", path_of(each).rpartition("/")[2])  # counted in the process
        values[f"optimizer.{place}.{name}"] = _copied(each)
    return from_start(values, training.start)


def take_weights(training: Training) -> Snapshot:
    """The variables of the model."""
    variables = [each for each in training.model.variables if not is_random_state(each)]
    return {f"model.{path_of(each)}": _copied(each) for each in variables}


def _copied(variable: Any) -> Tensor:
    array = array_of(variable)
    dtype = type_of(variable)
    return Tensor(dtype, np.array(array, "float64" if dtype == "bfloat16" else None))


def differs_from_one_process(recipe: Recipe) -> str:
    """Why only rates are compared with one process; empty if everything is. docs/guides/same-as-one-process.md has the
    reasons."""
    if recipe.dropout:
        return "random numbers"
    if recipe.norm == "batch":
        return "batch normalization"
    return "lossy compression" if {*recipe.wrapping} & {*LOSSY} else ""


def is_compared_always(recipe: Recipe, key: str) -> bool:
    """Rates do not depend on the gradients, except those of `ReduceLROnPlateau`."""
    return is_rate(key) and recipe.callback != "plateau"


def is_rate(key: str) -> bool:
    return key.startswith("rate")


def is_of_each_rank(recipe: Recipe, key: str) -> bool:
    """Whether ranks have different values of this name."""
    return recipe.norm == "batch" and "/moving_" in key


def tolerance(recipe: Recipe) -> Tuple[float, float]:
    if recipe.dtype.startswith("mixed"):
        return 0.1, 0.05
    is_double = recipe.dtype == "float64" and BACKEND != "jax"  # which has float32 in its place
    return 1e-6 if is_double else 1e-3, 0.1
