"""Variables of any Keras, as arrays in host memory."""

from __future__ import annotations

from typing import Any, List, Sequence

import numpy

from farandole.common.handles import synchronize
from farandole.numpy import ops


def read(variables: Sequence[Any]) -> List[Any]:
    """Copies."""
    return [numpy.array(_host(each)) for each in variables]


def write(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """In place."""
    for variable, value in zip(variables, values):
        variable.assign(value)


def broadcast(variables: Sequence[Any], root_rank: int, name: str) -> None:
    """Gives one rank's values to all, in place."""
    # Of types that cannot travel there are only some numbers; nothing is computed with them.
    values = [_as_bytes(_host(each)) for each in variables]
    handles = [ops.broadcast_async(value, root_rank, f"{name}.{i}") for i, value in enumerate(values)]
    for variable, handle in zip(variables, handles):
        before = _host(variable)
        received = synchronize(handle)
        if received.dtype != before.dtype:
            received = received.view(before.dtype).reshape(before.shape)
        variable.assign(received)


def _host(variable: Any) -> Any:
    value = getattr(variable, "value", variable)
    if callable(value):  # a variable of TensorFlow's
        value = variable
    if hasattr(value, "detach"):  # PyTorch
        value = value.detach().cpu()
    return numpy.asarray(value.numpy() if hasattr(value, "numpy") else value, order="C")


def _as_bytes(array: Any) -> Any:
    if array.dtype.name in ("uint32", "uint64"):
        return array.reshape(-1).view(numpy.uint8)
    return array
