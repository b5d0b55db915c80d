"""Copies of values that refer to others which each rank has itself, such as a model: these are neither copied nor sent.

Each of them has a label that is the same on all ranks.
"""

from __future__ import annotations

import copy
from typing import Any, Dict, Hashable

OwnValues = Dict[Hashable, Any]


def copied(value: Any, own: OwnValues) -> Any:
    """A deep copy that refers to the same own values."""
    return copy.deepcopy(value, {id(each): each for each in own.values()})


def with_references(value: Any, own: OwnValues) -> Any:
    """For sending: a deep copy with references instead of own values; the value itself if it cannot be copied so. Of
    several labels the first is sent."""
    if not own:
        return value
    try:
        return Copy(copy.deepcopy(value, {id(own[label]): Reference(label) for label in reversed(own)}))
    except Exception:
        return value


def with_own_values(value: Any, own: OwnValues) -> Any:
    """A received value with this rank's own values instead of references.

    :raises ValueError: if this rank has no value of a reference's label
    """
    return copy.deepcopy(value.value, {Reference.MEMO: own}) if isinstance(value, Copy) else value


class Copy:
    """A copy with references."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Reference:
    """Stands for an own value. A deep copy with ``MEMO`` in its memo replaces it by that of this rank."""

    MEMO: Any = "own values"

    def __init__(self, label: Hashable) -> None:
        self.label = label

    def __deepcopy__(self, memo: Dict[Any, Any]) -> Any:
        if self.label not in memo[self.MEMO]:
            raise ValueError(
                f"a value of rank 0 refers to {self.label}, which this rank's state does not have; make models and "
                "variables the same on all ranks, also on those that join, before sync()"
            )
        return memo[self.MEMO][self.label]
