"""Splits a group of tensors by element type, because a TensorFlow node takes tensors of one type only."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence


def by_type(tensors: Sequence[Any]) -> List[List[int]]:
    """The positions of the tensors of each type; one node takes the tensors of one list."""
    places: Dict[Any, List[int]] = {}
    for place, tensor in enumerate(tensors):
        places.setdefault(tensor.dtype, []).append(place)
    return list(places.values())


def group_name(name: Optional[str], places: Sequence[int], several: bool) -> Optional[str]:
    """The name of the part of a group that has one type: selected lines if ``name`` has several, else ``name``
    itself, with a suffix if the group has several types."""
    if name is None:
        return None
    lines = name.split("\n")
    if len(lines) > 1:
        return "\n".join(lines[place] for place in places)
    return f"{name}_{places[0]}" if several else name
