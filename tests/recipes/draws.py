"""How often a feature is drawn. Most features are rare, so that a recipe has a few of them."""

from __future__ import annotations

import random
from typing import Any, Callable, Iterable

Draw = Callable[[random.Random], Any]


def often(values: Iterable[Any], default: Any, share: float) -> Draw:
    """One of these values in this share of recipes, the default in the others."""
    choices = list(values)
    return lambda source: source.choice(choices) if source.random() < share else default


def some(values: Iterable[str], share: float) -> Draw:
    """Each of these names in this share of recipes."""
    choices = list(values)
    return lambda source: tuple(each for each in choices if source.random() < share)
