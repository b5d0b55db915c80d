"""TensorFlow, as the player and its workers see it."""

from __future__ import annotations

import gc
from typing import Tuple

from comparing import Rules
from frameworks import Framework

from with_tensorflow.drawing import EXCLUSIONS, drawn
from with_tensorflow.recipe import Recipe
from with_tensorflow.seats import LOSSY, OneProcess, Rank
from with_tensorflow.training import play


def tolerance(recipe: Recipe) -> Tuple[float, float]:
    if recipe.policy or {"half", "bfloat"} & {*recipe.extras}:
        return 0.1, 0.05
    return 1e-3 if recipe.dtype == "float32" or "wide" in recipe.extras else 1e-6, 0.1


RULES = Rules(
    differs_from_one_process=lambda recipe: "lossy compression" if {*recipe.wrapping} & {*LOSSY} else "",
    is_compared_always=lambda recipe, key: key == "rate0",
    is_of_each_rank=lambda recipe, key: False,
    is_rate=lambda key: key == "rate0",
    tolerance=tolerance,
)
# The many objects of TensorFlow are frozen: they need not be looked through after each recipe.
FRAMEWORK = Framework(Recipe, drawn, EXCLUSIONS, lambda recipe, _: recipe, gc.freeze, play, OneProcess, Rank, RULES)
