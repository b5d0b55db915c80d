"""Sample values that every rank can compute for every other rank, and the expected results, computed by NumPy."""

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
    """A NumPy type that holds the values; NumPy has no bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def sample(rank: int, dtype: str, shape: Any = (5, 7)) -> Any:
    """Small whole numbers, so that sums and products of a few ranks are exact in every type."""
    low = 0 if dtype.startswith("u") or dtype == "bool" else -2
    return numpy.random.RandomState(1000 + rank).randint(low, 3, shape).astype(plain(dtype))


def samples(size: int, dtype: str, shape: Any = (5, 7)) -> List[Any]:
    return [sample(rank, dtype, shape) for rank in range(size)]


def reduced(op: str, inputs: Sequence[Any]) -> Any:
    """The exact result, in the type of the inputs."""
    if op == "Average":
        total = reduced("Sum", inputs).astype("float64") / len(inputs)
        return total.astype(inputs[0].dtype)  # integers are rounded toward zero
    return functools.reduce(EXACT[op], inputs).astype(inputs[0].dtype)


def shares(whole: Any, size: int) -> List[Any]:
    """The rows that each rank gets from a reducescatter: the first ranks have one row more."""
    return list(numpy.array_split(whole, size))
