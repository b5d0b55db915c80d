"""The operations on tensors of the Keras backend, arrays and numbers. The result is a tensor if the input is one, and
an array otherwise.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import numpy

from farandole._keras.library import Library
from farandole.common.calls import handle_average_backwards_compatibility


def _is_tensor(used: Library, value: Any) -> bool:
    if used.is_three:
        return bool(used.keras.ops.is_tensor(value)) or isinstance(value, used.keras.Variable)
    import tensorflow as tf

    return bool(tf.is_tensor(value)) or isinstance(value, tf.Variable)


def _tensor(used: Library, value: Any) -> Any:
    if used.is_three:
        return used.keras.ops.convert_to_tensor(value)
    import tensorflow as tf

    return tf.convert_to_tensor(value)


def _through(used: Library, value: Any, operation: Callable[[Any], Any]) -> Any:
    result = operation(_tensor(used, value))
    return result if _is_tensor(used, value) else numpy.asarray(result)


def allreduce(
    used: Library,
    value: Any,
    name: Optional[str],
    average: Optional[bool],
    prescale_factor: float,
    postscale_factor: float,
    op: Optional[int],
    compression: Any,
) -> Any:
    """Reduces a value over all ranks."""
    chosen = handle_average_backwards_compatibility(op, average)
    return _through(
        used,
        value,
        lambda tensor: used.adapter.allreduce(
            tensor,
            name=name,
            op=chosen,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            compression=compression,
        ),
    )


def allgather(used: Library, value: Any, name: Optional[str]) -> Any:
    """Concatenates the values of all ranks."""
    return _through(used, value, lambda tensor: used.adapter.allgather(tensor, name=name))


def broadcast(used: Library, value: Any, root_rank: int, name: Optional[str]) -> Any:
    """The value of the root rank."""
    return _through(used, value, lambda tensor: used.adapter.broadcast(tensor, root_rank, name=name))


def reducescatter(used: Library, value: Any, name: Optional[str], op: int) -> Any:
    """Reduces a value over all ranks, and returns this rank's share of the rows."""
    return _through(used, value, lambda tensor: used.adapter.reducescatter(tensor, name=name, op=op))
