"""How often a feature is drawn. Most features are rare, so that a recipe has a few of them."""

from __future__ import annotations

import random
from dataclasses import field
from typing import Any, Callable, Dict, Iterable, Mapping, Sequence, Tuple

from recipe import Recipe, fields

Draw = Callable[[random.Random], Any]


def often(values: Iterable[Any], default: Any, share: float) -> Draw:
    """One of these values in this share of recipes, the default in the others."""
    choices = list(values)
    return lambda source: source.choice(choices) if source.random() < share else default


def some(values: Iterable[str], share: float) -> Draw:
    """Each of these names in this share of recipes."""
    choices = list(values)
    return lambda source: tuple(each for each in choices if source.random() < share)


def drawn(simplest: Any, share: float, values: Iterable[Any] = (True,)) -> Any:
    """A field of a recipe that has one of these values in this share of recipes."""
    return field(default=simplest, metadata={"draw": often(values, simplest, share)})


def names(share: float, values: Iterable[str]) -> Any:
    """A field with each of these names in this share of recipes."""
    return field(default=(), metadata={"draw": some(values, share)})


def drawn_recipe(kind: Any, seed: int) -> Recipe:
    """The recipe of a seed, of a class with such fields."""
    source = random.Random(seed)
    draws = {name: each.metadata["draw"] for name, each in fields(kind).items() if each.metadata}
    return kind(seed=seed, **{name: draw(source) for name, draw in draws.items()})


def chosen(kinds: Iterable[Tuple[Sequence[str], float]], source: random.Random) -> Tuple[str, ...]:
    """One of the names of each kind, in its share of recipes."""
    return tuple(source.choice(names) for names, share in kinds if source.random() < share)


Kinds = Iterable[Tuple[Sequence[str], float]]


def drawn_values(
    seed: int, draws: Mapping[str, Draw], options: Mapping[str, Iterable[Sequence[str]]], wrapping: Kinds = ()
) -> Dict[str, Any]:
    """The values of a recipe's fields. Of the drawn optimizer's options, one of each kind is had by two in five."""
    source = random.Random(seed)
    values = {name: draw(source) for name, draw in draws.items()}
    values["options"] = chosen(((names, 0.4) for names in options[values["optimizer"]]), source)
    if wrapping:
        values["wrapping"] = chosen(wrapping, source)
    return {"seed": seed, **values}
