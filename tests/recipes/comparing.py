"""Compares what a training has after a step: between ranks by the same bits, and with one process by a tolerance."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import numpy as np
from recipe import Recipe


class Tensor(NamedTuple):
    """A copy of a tensor. Types that NumPy lacks have become wider ones.

    :param start: what a weight was before the first step: differences are relative to its way from there
    """

    dtype: str
    array: Any
    start: Any = 0.0


ROUNDINGS = {"bfloat16": 2.0**-6, "float16": 2.0**-9}
"""Two units in the last place of short types, for numbers of 1 to 2: a difference that a weight may have, however short
its way was, and a gradient, however small a difference of its terms it is."""
DIVERGED = 1e6
"""A weight that is larger belongs to a training that diverges, and with it each rounding error."""
Snapshot = Dict[str, Any]
"""Values by name: those of class `Tensor`, and plain ones."""


class Rules(NamedTuple):
    """What a framework compares."""

    differs_from_one_process: Callable[[Recipe], str]
    """Why only rates and the like are compared with one process; empty if everything is."""
    is_compared_always: Callable[[Recipe, str], bool]
    """Whether the value of this name is compared nevertheless."""
    is_of_each_rank: Callable[[Recipe, str], bool]
    """Whether ranks have different values of this name."""
    is_rate: Callable[[str], bool]
    """Whether the value is a learning rate or the like, which has no rounding error."""
    tolerance: Callable[[Recipe], Tuple[float, float]]
    """The greatest difference from one process, relative to the greatest entry of a tensor, or that of a weight's way;
    and the least such entry, because a gradient may be the small difference of large terms."""


def from_start(values: Snapshot, start: Snapshot) -> Snapshot:
    """The values, those of the weights with the weights before the first step."""
    return {key: value._replace(start=start[key].array) if key in start else value for key, value in values.items()}


def digests(rules: Rules, recipe: Recipe, snapshot: Snapshot) -> Dict[str, str]:
    """A short hash of each value that all ranks must have with the same bits."""
    return {
        key: hashlib.blake2b(_bytes(value), digest_size=4).hexdigest()
        for key, value in snapshot.items()
        if not rules.is_of_each_rank(recipe, key)
    }


def _bytes(value: Any) -> bytes:
    if not isinstance(value, Tensor):
        return repr(value).encode()
    return f"{value.dtype} {value.array.shape}".encode() + value.array.tobytes()


def differences(rules: Rules, recipe: Recipe, found: Snapshot, expected: Snapshot) -> List[str]:
    """Describes the values that differ from those of one process."""
    lines = []
    differs = bool(rules.differs_from_one_process(recipe)) or _has_diverged(expected)
    tolerance = rules.tolerance(recipe)
    for key in {**expected, **found}:
        if differs and not rules.is_compared_always(recipe, key):
            continue
        if key not in found or key not in expected:
            lines.append(f"{key}: only {'in one process' if key in expected else 'on the ranks'}")
        elif isinstance(expected[key], Tensor) and isinstance(found[key], Tensor):
            lines += _difference(key, found[key], expected[key], tolerance)
        elif isinstance(expected[key], float) and isinstance(found[key], float):
            limit = 1e-9 if rules.is_rate(key) else tolerance[0]
            is_same = found[key] == expected[key] or (math.isnan(found[key]) and math.isnan(expected[key]))
            if not is_same and not abs(found[key] - expected[key]) <= limit * max(1, abs(expected[key])):
                lines.append(f"{key}: {found[key]} instead of {expected[key]}")
        elif type(found[key]) is not type(expected[key]) or found[key] != expected[key]:
            lines.append(f"{key}: {found[key]} instead of {expected[key]}")
    return lines


def _has_diverged(expected: Snapshot) -> bool:
    weights = [each.array for each in expected.values() if isinstance(each, Tensor) and np.ndim(each.start)]
    return any(float(np.abs(each).max(initial=0.0)) > DIVERGED for each in weights)


def _difference(key: str, found: Tensor, expected: Tensor, tolerance: Tuple[float, float]) -> List[str]:
    kinds = [(each.dtype, each.array.shape) for each in (found, expected)]
    if kinds[0] != kinds[1]:
        return [f"{key}: {' instead of '.join(f'{dtype} {shape}' for dtype, shape in kinds)}"]
    wide = np.complex128 if np.iscomplexobj(found.array) else np.float64
    first, second = (each.array.astype(wide) for each in (found, expected))
    finite = np.isfinite(second)
    if not np.array_equal(np.isfinite(first), finite):
        return [f"{key}: other entries are finite"]
    if not finite.any():
        return []
    error, size, way = (float(np.abs(each[finite]).max()) for each in (first - second, second, second - expected.start))
    rounding = ROUNDINGS.get(expected.dtype.removeprefix("torch."), 0.0)
    bound = tolerance[0] * max(way, tolerance[1]) + rounding * max(size, 1.0)
    return [f"{key}: differs by {error:.2g}, more than {bound:.2g}"] if error > bound else []
