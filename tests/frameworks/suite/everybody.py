"""Numbers that every rank can make for every other rank, and what comes of them, told by NumPy."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Sequence

import numpy

EXACT: Dict[str, Callable[[Any, Any], Any]] = {
    "Sum": numpy.add,
    "Min": numpy.minimum,
    "Max": numpy.maximum,
    "Product": numpy.multiply,
}


def plain(dtype: str) -> str:
    """A type of NumPy that holds the values; it has no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def sample(rank: int, dtype: str, shape: Any = (5, 7)) -> Any:
    """Small whole numbers, so that sums and products of a few ranks are exact in every type."""
    low = 0 if dtype.startswith("u") or dtype == "bool" else -2
    return numpy.random.RandomState(1000 + rank).randint(low, 3, shape).astype(plain(dtype))


def samples(size: int, dtype: str, shape: Any = (5, 7)) -> List[Any]:
    return [sample(rank, dtype, shape) for rank in range(size)]


def reduced(op: str, everybody: Sequence[Any]) -> Any:
    """The exact result, of the type that went in."""
    if op == "Average":
        total = reduced("Sum", everybody).astype("float64") / len(everybody)
        return total.astype(everybody[0].dtype)  # integers: toward zero
    return functools.reduce(EXACT[op], everybody).astype(everybody[0].dtype)


def shares(whole: Any, size: int) -> List[Any]:
    """What a reducescatter leaves each rank with: the first ranks have one row more."""
    return list(numpy.array_split(whole, size))
