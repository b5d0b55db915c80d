"""TensorFlow: every operation runs outside of graphs and in functions."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")

import numpy
import tensorflow as tf

from drivers import FLOATS, INTEGERS, Driver, Exceptions


class FrameworkDriver(Driver):
    name = "tensorflow"
    reducible = (*INTEGERS, "uint16", *FLOATS)
    movable = (*INTEGERS, "uint16", *FLOATS, "bool")
    refused = ("complex64", "uint32")
    modes = ("eager", "function")
    differentiates = True
    prelude = """
import os
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
import tensorflow as tf
import horovod.tensorflow as hvd

def make(values):
    return tf.constant(values, tf.float32)

def read(tensor):
    return tensor.numpy().tolist()
"""

    def make(self, values: Any, dtype: str) -> Any:
        return tf.cast(tf.constant(numpy.array(values)), getattr(tf, dtype))

    def to_numpy(self, tensor: Any) -> Any:
        return (tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy()

    def dtype_of(self, tensor: Any) -> str:
        return str(tensor.dtype.name)

    def is_tensor(self, value: Any) -> bool:
        return bool(tf.is_tensor(value))

    def run(self, mode: str, function: Callable[..., Any], *tensors: Any) -> Any:
        return tf.function(function, autograph=False)(*tensors) if mode == "function" else function(*tensors)

    def broadcast_in_place(self, tensors: Any, root_rank: int, name: str) -> Any:
        variables = [tf.Variable(each) for each in tensors]
        self.hvd.broadcast_(variables, root_rank, name=name)
        return [tf.convert_to_tensor(each) for each in variables]

    def gradient(self, function: Callable[[Any], Any], tensor: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            result = function(tensor)
            loss = tf.reduce_sum(result * tf.cast(tf.constant(weights), result.dtype))
        return tape.gradient(loss, tensor).numpy()

    def errors(self) -> Dict[str, Exceptions]:
        return {
            "precondition": tf.errors.FailedPreconditionError,
            "aborted": tf.errors.AbortedError,
            "invalid": (tf.errors.InvalidArgumentError, ValueError),
            "dtype": (tf.errors.InvalidArgumentError, tf.errors.NotFoundError, TypeError),
        }
