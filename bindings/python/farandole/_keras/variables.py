"""Reads and writes variables of any Keras as arrays in host memory, for elastic states and broadcasts."""

from __future__ import annotations

from typing import Any

import numpy


def to_numpy(variable: Any) -> Any:
    """The values of a variable of any backend, on any device. The array may share the variable's memory."""
    value = of_backend(variable)
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
    return numpy.asarray(value.numpy() if hasattr(value, "numpy") else value, order="C")


def of_backend(variable: Any) -> Any:
    """The backend's own variable or tensor, which a variable of Keras 3 holds."""
    value = getattr(variable, "value", variable)
    return variable if callable(value) else value  # in a tf.Variable, value is a method


def is_random_state(variable: Any) -> bool:
    """Whether it is the state of a generator of random numbers, a ``SeedGenerator`` of Keras 3.

    Ranks must not share these: the same units would be dropped for all parts of a batch.
    """
    return getattr(variable, "name", "") == "seed_generator_state"


def assign(variable: Any, array: Any) -> None:
    """Writes the array to the variable, in place."""
    variable.assign(array)
