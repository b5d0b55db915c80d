"""Reads and writes variables of any Keras as arrays in host memory, for elastic states and broadcasts."""

from __future__ import annotations

from typing import Any

import numpy


def to_numpy(variable: Any) -> Any:
    """The values of a variable of any backend, on any device. The array may share the variable's memory."""
    value = getattr(variable, "value", variable)
    if callable(value):  # in a tf.Variable, value is a method
        value = variable
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
    return numpy.asarray(value.numpy() if hasattr(value, "numpy") else value, order="C")


def assign(variable: Any, array: Any) -> None:
    """Writes the array to the variable, in place."""
    variable.assign(array)
