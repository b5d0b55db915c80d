"""Recipes of any framework: frozen dataclasses whose fields have the simplest value by default.

Each has the fields `seed`, `steps` and `fault`. A recipe is written as words for a command line, and reduced by giving
fields their defaults.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterator, List, Sequence, Tuple

Recipe = Any


def fields(kind: Any) -> Dict[str, Any]:
    """The fields of a class of recipes, or of one recipe, by name."""
    return {each.name: each for each in dataclasses.fields(kind)}


def features(recipe: Recipe) -> List[str]:
    """The fields that differ from their defaults."""
    return [name for name, field in fields(recipe).items() if getattr(recipe, name) != field.default]


def values(recipe: Recipe) -> Iterator[Tuple[str, Any]]:
    """What the recipe has in each field: a value, an order, or several names. An option belongs to its optimizer."""
    for name, field in fields(recipe).items():
        value = getattr(recipe, name)
        if field.default == ():
            yield from ((f"{name} of {recipe.optimizer}" if name == "options" else name, each) for each in value)
        elif name != "seed":
            yield name, value


def to_words(recipe: Recipe) -> str:
    """The recipe as words for a command line, such as ``optimizer=Adam options=amsgrad,foreach``."""
    return " ".join(f"{name}={_to_word(getattr(recipe, name))}" for name in features(recipe))


def from_words(kind: type, words: Sequence[str]) -> Recipe:
    """The recipe of words that `to_words` has written. `ValueError` names a word that it does not know."""
    values: Dict[str, Any] = {}
    known = fields(kind)
    for word in words:
        name, _, text = word.partition("=")
        if name not in known:
            raise ValueError(f"{word}: a recipe has no field {name}")
        values[name] = _from_word(text, known[name].default)
    return kind(**values)


def _to_word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(int(value)) if isinstance(value, bool) else str(value)


def _from_word(text: str, default: Any) -> Any:
    if isinstance(default, tuple):
        return tuple(filter(None, text.split(",")))
    return text if isinstance(default, str) else type(default)(int(text))


def weight(recipe: Recipe) -> int:
    """The number of features, each name in a list as one, and of steps."""
    values = [getattr(recipe, name) for name in features(recipe) if name not in ("seed", "steps")]
    return recipe.steps + sum(len(value) if isinstance(value, tuple) else 10 for value in values)


def simpler(recipe: Recipe) -> Iterator[Recipe]:
    """Recipes that have one feature less. Fewer steps come last, because most features need some."""
    known = fields(recipe)
    for name in features(recipe):
        if name not in ("seed", "steps", "fault"):
            yield dataclasses.replace(recipe, **{name: known[name].default})
    for name in features(recipe):
        value = getattr(recipe, name)
        if isinstance(value, tuple) and name != "order":
            for left_out in value if len(value) > 1 else ():
                yield dataclasses.replace(recipe, **{name: tuple(each for each in value if each != left_out)})
    if recipe.steps > 1:
        yield dataclasses.replace(recipe, steps=recipe.steps - 1)
