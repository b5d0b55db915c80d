"""The Keras whose recipes are played, and what scripts of Keras 2 write in another way than those of Keras 3.

``FARANDOLE_TEST_KERAS`` names the binding, as in ``tests/frameworks/keras``: ``keras``, or ``tensorflow.keras``, which
is Keras 2 with ``TF_USE_LEGACY_KERAS=1``.
"""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable, List

BINDING = os.environ.get("FARANDOLE_TEST_KERAS", "keras")
keras: Any = importlib.import_module("keras") if BINDING == "keras" else importlib.import_module("tensorflow").keras
hvd: Any = importlib.import_module(f"horovod.{BINDING}")
IS_THREE = hasattr(keras, "ops")
BACKEND: str = keras.backend.backend()

if not IS_THREE:
    import tensorflow as tf

cast = keras.ops.cast if IS_THREE else tf.cast
total = keras.ops.sum if IS_THREE else tf.reduce_sum
array_of = keras.ops.convert_to_numpy if IS_THREE else lambda tensor: tensor.numpy()
floatx = keras.backend.floatx
Scaler = (keras.optimizers if IS_THREE else keras.mixed_precision).LossScaleOptimizer
STATE_FILE = "saved.weights.h5" if IS_THREE else "saved"
"""The file of `save_weights()` that has the state of the optimizer, too: that of Keras 2 is a checkpoint of TensorFlow,
because its other files leave out rates and scales."""


def clear_session() -> None:
    if IS_THREE:
        keras.utils.clear_session(free_memory=False)
    else:
        keras.backend.clear_session()


def set_types(floatx: str, policy: str) -> None:
    keras.backend.set_floatx(floatx)
    (keras.config.set_dtype_policy if IS_THREE else keras.mixed_precision.set_global_policy)(policy)


def path_of(variable: Any) -> str:
    return variable.path if IS_THREE else variable.name.partition(":")[0]


def type_of(variable: Any) -> str:
    return keras.backend.standardize_dtype(variable.dtype) if IS_THREE else variable.dtype.name


def rate_of(optimizer: Any) -> float:
    if hasattr(optimizer, "_decayed_lr"):  # a legacy optimizer of Keras 2, whose rate may be a schedule
        return float(optimizer._decayed_lr("float64"))
    return float(array_of(optimizer.learning_rate))


def set_scale(scaler: Any, scale: float) -> None:
    """The scale of a scaler that has not stepped yet."""
    if IS_THREE:
        scaler.initial_scale = scale
    else:
        scaler._loss_scale.current_loss_scale.assign(scale)


def scaled(optimizer: Any, loss: Any) -> Any:
    """The loss whose gradients a loop of one's own computes."""
    if IS_THREE:
        return optimizer.scale_loss(loss)
    return optimizer.get_scaled_loss(loss) if isinstance(optimizer, Scaler) else loss


def apply(optimizer: Any, gradients: List[Any], variables: List[Any]) -> None:
    """Applies the gradients of a scaled loss."""
    if not IS_THREE and isinstance(optimizer, Scaler):
        gradients = optimizer.get_unscaled_gradients(gradients)
    optimizer.apply_gradients(zip(gradients, variables))


def change_gradients(optimizer: Any, change: Callable[[Any], Any]) -> None:
    """Makes the optimizer change each gradient before it applies them."""
    if IS_THREE:
        apply = optimizer.apply
        optimizer.apply = lambda gradients, *others, **named: apply([*map(change, gradients)], *others, **named)
    else:
        apply = optimizer.apply_gradients
        optimizer.apply_gradients = lambda pairs, *others, **named: apply(
            [(change(gradient), variable) for gradient, variable in pairs], *others, **named
        )


def count_batches(optimizer: Any, passes: int) -> None:
    """Makes an optimizer of Keras 2 count the batches of several passes, as a distributed one does."""
    if IS_THREE or passes == 1:
        return
    apply, iterations = optimizer.apply_gradients, optimizer.iterations

    def counted(*arguments: Any, **named: Any) -> Any:
        iterations.assign_add(passes - 1)
        return apply(*arguments, **named)

    optimizer.apply_gradients = counted
