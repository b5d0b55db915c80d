"""NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy

from drivers import Driver

WITHOUT_BFLOAT16 = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "float32", "float64")


class FrameworkDriver(Driver):
    """The bfloat16 type is in a separate package, and ``tests/parallel/test_numpy.py`` tests it."""

    name = "numpy"
    reducible = WITHOUT_BFLOAT16
    movable = (*WITHOUT_BFLOAT16, "bool")
    prelude = """
import numpy
import horovod.numpy as hvd
make = lambda values: numpy.array(values, "float32")
read = lambda array: array.tolist()
"""

    def make(self, values: Any, dtype: str) -> Any:
        return numpy.array(values, dtype)

    def to_numpy(self, tensor: Any) -> Any:
        return tensor

    def dtype_of(self, tensor: Any) -> str:
        return str(tensor.dtype)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, numpy.ndarray)
