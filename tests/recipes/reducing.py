"""Reduces a recipe that fails to the smallest one that fails."""

from __future__ import annotations

import time
from typing import Callable, Set, Tuple

from with_torch.exclusions import repaired
from with_torch.recipe import Recipe, features, simpler

BUDGET_S = 900.0


def weight(recipe: Recipe) -> int:
    """The number of features, each name in a list as one, and of steps."""
    values = [getattr(recipe, name) for name in features(recipe) if name not in ("seed", "steps")]
    return recipe.steps + sum(len(value) if isinstance(value, tuple) else 10 for value in values)


def reduced(
    recipe: Recipe, problem: str, play: Callable[[Recipe], str], budget_s: float = BUDGET_S
) -> Tuple[Recipe, str]:
    """Drops features one by one while the recipe still fails. Returns the smallest one found in this time, and its
    problem."""
    deadline = time.monotonic() + budget_s
    tried: Set[Recipe] = {recipe}
    is_smallest = False
    while not is_smallest:
        is_smallest = True
        for candidate in map(repaired, simpler(recipe)):
            if candidate in tried or weight(candidate) >= weight(recipe) or time.monotonic() > deadline:
                continue
            tried.add(candidate)
            found = play(candidate)
            if found:
                recipe, problem, is_smallest = candidate, found, False
                break
    return recipe, problem
