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
    """For sending: a deep copy with references instead of own values; the value itself if it cannot be copied so."""
    return _copied_or_shared(value, {id(each): Reference(label) for label, each in own.items()}) if own else value


def with_own_values(value: Any, own: OwnValues) -> Any:
    """A received value with this rank's own values instead of references."""
    return _copied_or_shared(value, {Reference.MEMO: own}) if own else value


def _copied_or_shared(value: Any, memo: Dict[Any, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:
        return value


class Reference:
    """Stands for an own value. A deep copy with ``MEMO`` in its memo replaces it by that of this rank."""

    MEMO: Any = "own values"

    def __init__(self, label: Hashable) -> None:
        self.label = label

    def __deepcopy__(self, memo: Dict[Any, Any]) -> Any:
        return memo[self.MEMO][self.label] if self.MEMO in memo else self
