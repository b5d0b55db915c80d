"""Features that exclude each other, each with the reason, and what becomes of a recipe that has both."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

from recipe import Recipe, fields


class Exclusion(NamedTuple):
    """If `applies`, the recipe is changed: `changes` has new values, or functions of the recipe."""

    reason: str
    applies: Callable[[Recipe], Any]
    changes: Dict[str, Any]


def without(name: str, *dropped: str) -> Callable[[Recipe], Any]:
    """The field without these names."""
    return lambda recipe: tuple(each for each in getattr(recipe, name) if each not in dropped)


def default(*names: str) -> Dict[str, Any]:
    """The simplest values of these fields."""

    def of(name: str) -> Callable[[Recipe], Any]:
        return lambda recipe: fields(recipe)[name].default

    return {name: of(name) for name in names}


def known_options(recipe: Recipe, choices: Dict[str, Sequence[Sequence[str]]]) -> Tuple[str, ...]:
    """The options that the optimizer has, of each tuple of choices only one."""
    known = ([name for name in names if name in recipe.options] for names in choices[recipe.optimizer])
    return tuple(found[0] for found in known if found)


def repaired(recipe: Recipe, exclusions: Sequence[Exclusion]) -> Recipe:
    """The recipe without features that exclude each other. Legal recipes are returned as they are."""
    for _ in range(10):
        before = recipe
        for each in exclusions:
            if each.applies(recipe):
                changes = {name: new(recipe) if callable(new) else new for name, new in each.changes.items()}
                recipe = dataclasses.replace(recipe, **changes)
        if recipe == before:
            return recipe
    raise AssertionError(f"exclusions do not come to an end: {recipe}")
