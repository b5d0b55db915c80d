"""A small network and its data, the same on all ranks."""

from __future__ import annotations

from typing import Any, Tuple

import numpy as np

ROWS = 8
"""The number of rows of each rank in each step."""


def network(keras: Any, optimizer: Any, seed: int = 1, **compile_options: Any) -> Any:
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile(optimizer=optimizer, loss=keras.losses.MeanSquaredError(), **compile_options)
    return model


def data(size: int, steps: int = 2) -> Tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).standard_normal((steps * size * ROWS, 6)).astype("float32")
    return x, np.sin(x.sum(axis=1, keepdims=True))


def share(rows: np.ndarray, rank: int, size: int) -> np.ndarray:
    """This rank's part of each of the big batches."""
    return rows.reshape(-1, size, ROWS, rows.shape[1])[:, rank].reshape(-1, rows.shape[1])


def fit(model: Any, x: np.ndarray, y: np.ndarray, batch: int, epochs: int = 3, **options: Any) -> Any:
    return model.fit(x, y, batch_size=batch, epochs=epochs, shuffle=False, verbose=0, **options)


def furthest(one: Any, other: Any) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(one.get_weights(), other.get_weights()))


def tensor_of(keras: Any, array: np.ndarray) -> Any:
    if hasattr(keras, "ops"):
        return keras.ops.convert_to_tensor(array)
    import tensorflow as tf

    return tf.convert_to_tensor(array)


def variable_of(keras: Any, array: np.ndarray, name: str) -> Any:
    if hasattr(keras, "ops"):
        return keras.Variable(array, name=name)
    import tensorflow as tf

    return tf.Variable(array, name=name)


def array_of(keras: Any, tensor: Any) -> np.ndarray:
    return np.asarray(keras.ops.convert_to_numpy(tensor) if hasattr(keras, "ops") else tensor.numpy())
