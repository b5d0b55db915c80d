"""JAX arrays, and values of compiled programs."""

from __future__ import annotations

from typing import Any, Callable, Dict

import jax
import jax.numpy as jnp
import numpy
import pytest

from drivers import FLOATS, INTEGERS, Driver, Exceptions

jax.config.update("jax_enable_x64", True)


class FrameworkDriver(Driver):
    """Inside a compiled program, a mismatch between ranks raises an exception of JAX's runtime."""

    name = "jax"
    reducible = (*INTEGERS, "uint16", *FLOATS)
    movable = (*INTEGERS, "uint16", *FLOATS, "bool")
    modes = ("eager", "jit")
    static_modes = ("jit",)
    differentiates = True
    prelude = """
import jax.numpy as jnp
import horovod.jax as hvd
make = lambda values: jnp.array(values, "float32")
read = lambda array: array.tolist()
"""

    def make(self, values: Any, dtype: str) -> Any:
        return jnp.array(numpy.array(values), dtype)

    def to_numpy(self, tensor: Any) -> Any:
        return numpy.asarray(tensor.astype("float32") if tensor.dtype == "bfloat16" else tensor)

    def dtype_of(self, tensor: Any) -> str:
        return str(tensor.dtype)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, jax.Array)

    def run(self, mode: str, function: Callable[..., Any], *tensors: Any) -> Any:
        if mode == "eager":
            return function(*tensors)
        try:
            return jax.block_until_ready(jax.jit(function)(*tensors))
        except (ValueError, jax.errors.JaxRuntimeError) as refused:
            # Every rank gets this error.
            if "nside jit shapes are fixed" not in str(refused):
                raise
            pytest.skip("the inputs of the other ranks decide the shape")

    def gradient(self, function: Callable[[Any], Any], tensor: Any, weights: Any) -> Any:
        return numpy.asarray(jax.grad(lambda leaf: (function(leaf) * weights).sum())(tensor))

    def errors(self) -> Dict[str, Exceptions]:
        return {**super().errors(), "mismatch": RuntimeError, "precondition": RuntimeError, "aborted": RuntimeError}
