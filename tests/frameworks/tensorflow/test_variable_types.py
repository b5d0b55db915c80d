"""Variables and gradients of types that no operation knows."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

OTHERS = [tf.complex64, tf.complex128, tf.uint32, tf.uint64]
OTHERS += [
    getattr(tf.dtypes.experimental, name)
    for name in ("float8_e4m3fn", "float8_e5m2")
    if hasattr(tf.dtypes.experimental, name)
]


@pytest.mark.parametrize("dtype", OTHERS, ids=lambda each: each.name)
def test_variables_of_types_without_operations_get_the_roots_bytes(run, rank, size, dtype):
    root = size - 1
    values = tf.cast(tf.constant([[1.0, 2.0, 0.5]]) * (rank + 1.0), dtype)
    if dtype.is_complex:
        values = values * tf.complex(tf.constant(1.0, dtype.real_dtype), tf.constant(-2.0, dtype.real_dtype))
    variable, scalar = tf.Variable(values), tf.Variable(values[0, 1])
    expected = hvd.broadcast_object(values.numpy(), root)

    @run
    def give():
        hvd.broadcast_variables([variable, scalar], root)

    give()
    assert variable.dtype == dtype and (variable.numpy() == expected).all() and scalar.numpy() == expected[0, 1]
    variable.assign(values)
    hvd.broadcast_([variable], root)
    assert (variable.numpy() == expected).all()


def test_variables_of_texts_get_the_roots_texts(run, rank, size):
    root = size - 1
    variable = tf.Variable([["a\0b" * (rank + 1), ""], [f"rank {rank}", "\u00e4\U0001f642"]])
    empty = tf.Variable(tf.zeros([0, 2], tf.string))
    expected = hvd.broadcast_object(variable.numpy().tolist(), root)

    @run
    def give():
        hvd.broadcast_variables([variable, empty], root)

    give()
    assert variable.numpy().tolist() == expected and empty.shape == [0, 2]


def test_texts_are_moved(run, rank, size):
    def texts(of):
        return [["a\0b" * (of + 1), ""], [f"rank {of}", "\u00e4\U0001f642"]][: of % 2 + 1]

    gathered = run(lambda own: hvd.allgather(own, name="texts"))(tf.constant(texts(rank)))
    assert gathered.numpy().tolist() == [[text.encode() for text in row] for of in range(size) for row in texts(of)]
    assert run(lambda own: hvd.broadcast(own, 0))(tf.constant(f"rank {rank}")).numpy() == b"rank 0"
    nothing = run(hvd.allgather)(tf.zeros([0, 2], tf.string))
    assert nothing.dtype == tf.string and nothing.shape == [0, 2]


def test_complex_numbers_are_moved_with_their_gradients(rank, size):
    own = tf.Variable([complex(rank + 1, -1)] * 2)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.abs(hvd.allgather(own)) ** 2)
    np.testing.assert_allclose(tape.gradient(loss, own).numpy(), 2 * own.numpy(), rtol=1e-6)


@pytest.mark.parametrize("dtype", OTHERS, ids=lambda each: each.name)
def test_types_without_operations_are_gathered(run, rank, size, dtype):
    own = tf.cast(tf.fill([rank + 1, 2], float(rank)), dtype)
    gathered, grouped = run(lambda own: (hvd.allgather(own), hvd.grouped_allgather([tf.ones([1]), own])[1]))(own)
    expected = np.concatenate([np.full((of + 1, 2), of) for of in range(size)])
    for each in (gathered, grouped):
        assert (
            each.dtype == dtype
            and (tf.cast(each, tf.float32 if not dtype.is_complex else dtype).numpy() == expected).all()
        )


@pytest.mark.parametrize("op", [hvd.Average, hvd.Sum])
def test_complex_gradients_are_reduced_as_pairs(run, rank, size, op):
    variables = [
        tf.Variable([1 + 2j, 3 - 1j], dtype=tf.complex64),
        tf.Variable([0.5]),
        tf.Variable([[1j], [2 + 0j]], dtype=tf.complex64),
    ]

    @run
    def gradients():
        with tf.GradientTape() as tape:
            rows = tf.reduce_sum(tf.gather(variables[2], [rank % 2]) * (1 - 1j))
            loss = tf.reduce_sum(tf.math.real(variables[0] * tf.complex(float(rank + 1), -2.0)))
            loss += tf.reduce_sum(variables[1]) + tf.math.real(rows)
        reduced = hvd.DistributedGradientTape(tape, op=op).gradient(loss, variables)
        return [tf.convert_to_tensor(each) for each in reduced]

    total = sum(range(1, size + 1))
    divisor = size if op == hvd.Average else 1
    own = np.zeros((2, 1), "complex128")
    for each in range(size):
        own[each % 2] += 1 + 1j
    dense, real, sparse = gradients()
    np.testing.assert_allclose(dense, [(total + 2j * size) / divisor] * 2)
    np.testing.assert_allclose(real, [size / divisor])
    np.testing.assert_allclose(sparse, own / divisor)


def test_tensors_are_sources_of_a_tape_as_variables_are(run, rank, size):
    @run
    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(x * x) * (rank + 1.0)
        return hvd.DistributedGradientTape(tape).gradient(y, [x])

    mean = sum(range(1, size + 1)) / size
    np.testing.assert_allclose(gradients(tf.constant([1.0, 3.0]))[0], [2 * mean, 6 * mean])


def test_autograph_finds_the_source_of_every_operation(size, messages_of):
    messages = messages_of("")

    @tf.function
    def all_of_them(x):
        if tf.reduce_sum(x) > 0:  # AutoGraph converts this function
            x = x + 1.0
        both = [x, x]
        hvd.barrier()
        moved = [hvd.allreduce(x), hvd.allgather(x), hvd.broadcast(x, 0), hvd.alltoall(x), hvd.reducescatter(x)]
        moved += hvd.grouped_allreduce(both) + hvd.grouped_allgather(both) + hvd.grouped_reducescatter(both)
        return moved, hvd.size_op(), hvd.rank_op(), hvd.process_set_included_op()

    assert len(all_of_them(tf.ones([size]))[0]) == 11
    assert [each for each in messages if "AutoGraph" in each] == []
