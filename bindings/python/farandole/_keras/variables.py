"""Reads and writes variables of any Keras as arrays in host memory, for elastic states and broadcasts."""

from __future__ import annotations

from typing import Any

import numpy


def to_numpy(variable: Any) -> Any:
    """The values of a variable of any backend, on any device. The array may share the variable's memory."""
    value = of_backend(variable)
    if _is_of_torch(value):
        return _array_of(value.detach().cpu())
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
    value = of_backend(variable)
    variable.assign(_tensor_of(array) if _is_of_torch(value) else array)


# PyTorch does not convert bfloat16 and float8 to the types that NumPy has from ml_dtypes. Their bits are moved.


def _is_of_torch(value: Any) -> bool:
    return hasattr(value, "detach")


def _array_of(tensor: Any) -> Any:
    import ml_dtypes
    import torch

    name = str(tensor.dtype).partition(".")[2]
    if not hasattr(ml_dtypes, name):
        return numpy.asarray(tensor.numpy(), order="C")
    bits = tensor.view(torch.int16 if tensor.element_size() == 2 else torch.uint8)
    return numpy.asarray(bits.numpy(), order="C").view(name)


def _tensor_of(array: Any) -> Any:
    import ml_dtypes
    import torch

    name = array.dtype.name
    if not hasattr(ml_dtypes, name):
        return array
    return torch.from_numpy(array.view("int16" if array.itemsize == 2 else "uint8")).view(getattr(torch, name))
