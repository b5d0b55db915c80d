"""Operations on values."""

from __future__ import annotations

import numpy as np
import pytest


def test_operations_on_numbers_and_arrays_return_arrays(hvd, name: str, rank: int, size: int) -> None:
    mean = hvd.allreduce(float(rank), name=f"{name}.mean")
    assert isinstance(mean, np.ndarray) and mean == (size - 1) / 2
    total = hvd.allreduce(np.arange(3.0) + rank, name=f"{name}.sum", op=hvd.Sum, prescale_factor=2.0)
    assert total.tolist() == (2 * (np.arange(3.0) * size + size * (size - 1) / 2)).tolist()
    assert hvd.allgather(np.full((rank + 1, 2), rank), name=f"{name}.all").shape == (size * (size + 1) // 2, 2)
    assert hvd.broadcast(np.array([rank]), size - 1, name=f"{name}.root").tolist() == [size - 1]
    assert hvd.reducescatter(np.arange(2.0 * size), name=f"{name}.share").tolist() == [2.0 * rank, 2.0 * rank + 1]
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(1.0, name=f"{name}.old", average=False) == size


def test_allreduce_of_a_tensor_returns_a_tensor(hvd, keras, name: str, size: int) -> None:
    if hasattr(keras, "ops"):
        tensor, is_tensor = keras.ops.ones((2, 2)), keras.ops.is_tensor
    else:
        import tensorflow as tf

        tensor, is_tensor = tf.ones((2, 2)), tf.is_tensor
    reduced = hvd.allreduce(tensor, name=name, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert is_tensor(reduced) and np.asarray(reduced).tolist() == [[size] * 2] * 2
    assert "float32" in str(reduced.dtype)
