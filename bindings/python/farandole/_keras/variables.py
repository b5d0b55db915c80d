"""Variables of any Keras, as arrays in host memory: the verbs that state and broadcasts are written with."""

from __future__ import annotations

from typing import Any

import numpy


def to_numpy(variable: Any) -> Any:
    """Its values, on whatever device and backend; perhaps its own memory."""
    value = getattr(variable, "value", variable)
    if callable(value):  # a variable of TensorFlow's
        value = variable
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
    return numpy.asarray(value.numpy() if hasattr(value, "numpy") else value, order="C")


def assign(variable: Any, array: Any) -> None:
    """In place."""
    variable.assign(array)
