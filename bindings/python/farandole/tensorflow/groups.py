"""Groups of tensors of several types: a node of TensorFlow's takes those of one."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence


def by_type(tensors: Sequence[Any]) -> List[List[int]]:
    """Places of the tensors that one node can take: those of one type."""
    places: Dict[Any, List[int]] = {}
    for place, tensor in enumerate(tensors):
        places.setdefault(tensor.dtype, []).append(place)
    return list(places.values())


def group_name(name: Optional[str], places: Sequence[int], several: bool) -> Optional[str]:
    """The name, or the lines of names, of those of a group that have one type."""
    if name is None:
        return None
    lines = name.split("\n")
    if len(lines) > 1:
        return "\n".join(lines[place] for place in places)
    return f"{name}_{places[0]}" if several else name
