"""Reduces a recipe that fails to the smallest one that fails."""

from __future__ import annotations

import time
from typing import Callable, Set, Tuple

from recipe import Recipe, simpler, weight

BUDGET_S = 900.0


def reduced(
    recipe: Recipe,
    problem: str,
    play: Callable[[Recipe], str],
    repaired: Callable[[Recipe], Recipe],
    budget_s: float = BUDGET_S,
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
