"""MXNet arrays."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict

import numpy
from farandole.common import job
from farandole.mxnet.errors import MismatchError
from mxnet import nd
from mxnet.base import MXNetError
from mxnet.util import np_shape

from drivers import Driver, Exceptions

BFLOAT16 = numpy.dtype([("bfloat16", numpy.uint16)])  # MXNet's own type for bfloat16
DEADLINE_S = 240


class FrameworkDriver(Driver):
    """MXNet 1.9 has neither 16-bit integers nor complex numbers."""

    name = "mxnet"
    reducible = ("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")
    movable = (*reducible, "bool")
    as_bytes = ()
    prelude = """
import mxnet
import horovod.mxnet as hvd
make = lambda values: mxnet.nd.array(values)
read = lambda array: array.asnumpy().tolist()
"""

    def __init__(self) -> None:
        self._runtime: Any = None
        self._submitted = 0

    def make(self, values: Any, dtype: str) -> Any:
        with np_shape(True):  # makes extents of 0 and scalars possible
            if dtype == "bfloat16":
                return nd.array(numpy.array(values, "float32")).astype(BFLOAT16)
            return nd.array(numpy.array(values, dtype), dtype=dtype)

    def to_numpy(self, tensor: Any) -> Any:
        with np_shape(True):
            return (tensor.astype("float32") if tensor.dtype == BFLOAT16 else tensor).asnumpy()

    def dtype_of(self, tensor: Any) -> str:
        return "bfloat16" if tensor.dtype == BFLOAT16 else numpy.dtype(tensor.dtype).name

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, nd.NDArray)

    def start(self, tensor: Any, name: str) -> Callable[[], Any]:
        # The engine submits operations asynchronously: those that were started before must be in flight by now.
        if self._runtime is job.runtime:
            end = time.monotonic() + DEADLINE_S
            while job.runtime.submitted()[0] < self._submitted:
                assert time.monotonic() < end, "the engine has not submitted what was started"
        self._runtime, self._submitted = job.runtime, job.runtime.submitted()[0] + 1
        result = self.hvd.allreduce(tensor, name=name, op=self.hvd.Sum)
        return lambda: result

    def errors(self) -> Dict[str, Exceptions]:
        return {
            "mismatch": MismatchError,
            "precondition": MXNetError,
            "aborted": AssertionError,
            "invalid": MXNetError,
            "dtype": MXNetError,
        }
