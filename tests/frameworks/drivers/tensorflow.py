"""TensorFlow's tensors on the CPU, eagerly and in graphs."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy  # noqa: E402
import tensorflow as tf  # noqa: E402
from farandole.tensorflow.errors import MismatchError  # noqa: E402

from drivers import FLOATS, INTEGERS, Driver, Exceptions  # noqa: E402


class FrameworkDriver(Driver):
    name = "tensorflow"
    reducible = (*INTEGERS, "uint16", *FLOATS)
    movable = (*INTEGERS, "uint16", *FLOATS, "bool")
    modes = ("eager", "graph")
    differentiates = True
    prelude = """
import tensorflow as tf
import horovod.tensorflow as hvd
make = lambda values: tf.constant(values, tf.float32)
read = lambda tensor: tensor.numpy().tolist()
"""

    def make(self, values: Any, dtype: str) -> Any:
        return tf.cast(tf.constant(numpy.array(values)), dtype)

    def to_numpy(self, tensor: Any) -> Any:
        return (tf.cast(tensor, tf.float32) if tensor.dtype == tf.bfloat16 else tensor).numpy()

    def dtype_of(self, tensor: Any) -> str:
        name: str = tensor.dtype.name
        return name

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, (tf.Tensor, tf.Variable))

    def run(self, mode: str, function: Callable[..., Any], *tensors: Any) -> Any:
        return function(*tensors) if mode == "eager" else tf.function(function)(*tensors)

    def broadcast_in_place(self, tensors: List[Any], root_rank: int, name: str) -> List[Any]:
        variables = [tf.Variable(each) for each in tensors]
        self.hvd.broadcast_(variables, root_rank, name=name)
        return variables

    def gradient(self, function: Callable[[Any], Any], tensor: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            total = tf.reduce_sum(function(tensor) * weights)
        return tf.convert_to_tensor(tape.gradient(total, tensor)).numpy()

    def errors(self) -> Dict[str, Exceptions]:
        return {
            "mismatch": MismatchError,
            "precondition": tf.errors.FailedPreconditionError,
            "aborted": tf.errors.AbortedError,
            "invalid": tf.errors.InvalidArgumentError,
            "dtype": (tf.errors.InvalidArgumentError, TypeError),
        }
