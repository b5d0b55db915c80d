"""TensorFlow differentiates through every operation, outside of graphs and in functions."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf


@pytest.fixture
def gradient(run):
    """The gradient of the weighted sum of ``operation(x)``, where the weights count up from 1."""

    def compute(operation, x):
        @run
        def differentiate(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = operation(x)
                weights = tf.reshape(tf.range(1, tf.size(y) + 1), tf.shape(y))
                loss = tf.reduce_sum(y * tf.cast(weights, y.dtype)) * float(hvd.rank() + 1)
            return tape.gradient(loss, x)

        return differentiate(x).numpy()

    return compute


def triangle(number: int) -> int:
    return number * (number + 1) // 2


def test_the_gradient_of_allreduce_is_the_scaled_reduction_of_all_gradients(gradient, size):
    weights = np.arange(1, 4)
    ranks = triangle(size)  # every rank's loss is weighted by rank + 1
    x = tf.ones([3])
    np.testing.assert_allclose(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum), x), weights * ranks)
    np.testing.assert_allclose(gradient(hvd.allreduce, x), weights * ranks / size)
    scaled = gradient(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), x)
    np.testing.assert_allclose(scaled, weights * ranks * 1.5)


def test_the_gradient_of_grouped_allreduce_is_the_sum_of_all_gradients(gradient, size):
    def both(x):
        one, other = hvd.grouped_allreduce([x, x * 10.0], op=hvd.Sum)
        return one + other

    np.testing.assert_allclose(gradient(both, tf.ones([2])), np.array([1, 2]) * 11.0 * triangle(size))


def test_the_gradient_of_allgather_is_the_mean_gradient_of_the_ranks_own_rows(gradient, rank, size):
    rows = [each + 1 for each in range(size)]
    begin = sum(rows[:rank])
    expected = np.arange(1, 2 * sum(rows) + 1).reshape(-1, 2)[begin : begin + rank + 1] * triangle(size) / size
    np.testing.assert_allclose(gradient(hvd.allgather, tf.ones([rank + 1, 2])), expected)


def test_the_gradient_of_grouped_allgather_is_the_mean_gradient_of_the_ranks_own_rows(gradient, rank, size):
    def both(x):
        uneven, even = hvd.grouped_allgather([x, x[:1] * 2.0], name="grouped_gradient")
        return tf.concat([uneven, even], 0)

    rows = [each + 1 for each in range(size)]
    total, begin = sum(rows), sum(rows[:rank])
    expected = np.arange(1, total + size + 1, dtype=float)[begin : begin + rank + 1]
    expected[0] += 2.0 * (total + 1 + rank)
    np.testing.assert_allclose(gradient(both, tf.ones([rank + 1])), expected * triangle(size) / size)


def test_the_gradient_of_broadcast_is_the_mean_on_the_root_and_zero_elsewhere(gradient, rank, size):
    expected = np.array([1.0, 2.0]) * triangle(size) / size if rank == size - 1 else np.zeros(2)
    np.testing.assert_allclose(gradient(lambda x: hvd.broadcast(x, size - 1), tf.ones([2])), expected)


def test_the_gradients_of_alltoall_return_to_the_rank_that_sent_the_rows(gradient, rank, size):
    # Row s of rank r is row r of rank s, whose weight is r + 1 and whose loss is weighted by s + 1.
    expected = np.array([(rank + 1.0) * (each + 1) for each in range(size)])
    np.testing.assert_allclose(gradient(hvd.alltoall, tf.ones([size])), expected)


def test_the_gradients_of_alltoall_with_splits_return_to_the_rank_that_sent_the_rows(gradient, rank, size):
    splits = tf.range(1, size + 1)

    # Rank s receives s + 1 rows from every rank.
    expected = [(rank * (each + 1) + row + 1.0) * (each + 1) for each in range(size) for row in range(each + 1)]
    rows = tf.ones([triangle(size)])
    np.testing.assert_allclose(gradient(lambda x: hvd.alltoall(x, splits, name="split")[0], rows), expected)


@pytest.mark.parametrize("mean", [True, False])
def test_the_gradient_of_reducescatter_gathers_the_gradients_of_all_shares(gradient, rank, size, mean):
    # Every rank has two rows, of the weights 1 and 2, and its loss is weighted by rank + 1.
    expected = np.array([weight * (each + 1.0) for each in range(size) for weight in (1, 2)])
    if not mean:
        expected *= size
    op = hvd.Average if mean else hvd.Sum
    found = gradient(lambda x: hvd.reducescatter(x, op=op, prescale_factor=0.5), tf.ones([2 * size]))
    np.testing.assert_allclose(found, expected * 0.5)


def test_the_gradient_of_grouped_reducescatter_gathers_the_gradients_of_all_shares(gradient, rank, size):
    def both(x):
        one, other = hvd.grouped_reducescatter([x, x * 3.0], op=hvd.Average)
        return one + other

    expected = np.array([each + 1.0 for each in range(size)]) * 4.0
    np.testing.assert_allclose(gradient(both, tf.ones([size])), expected)


def test_the_gradient_of_allgather_in_a_process_set_stays_within_the_set(gradient, rank, size):
    last = hvd.add_process_set([size - 1])
    try:
        if rank != size - 1:
            return
        np.testing.assert_allclose(
            gradient(lambda x: hvd.allgather(x, process_set=last), tf.ones([2])), np.array([1.0, 2.0]) * size
        )
    finally:
        hvd.barrier()
        hvd.remove_process_set(last)


@pytest.mark.parametrize("operation", ["grouped_allgather", "grouped_reducescatter", "grouped_allreduce", "allgather"])
def test_incoming_gradients_may_differ_in_type_from_the_outputs(run, operation, size):
    """The caller gives float32; TensorFlow itself gives float64 zeros for the output that nothing depends on."""
    call = getattr(hvd, operation)

    @run
    def differentiate(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            if operation.startswith("grouped"):
                used, _unused = call([x, x * 2.0], name=f"{operation}_of_two_types")
            else:
                used = call(x, name=f"{operation}_of_two_types")
        return tape.gradient(used, x, output_gradients=tf.ones(tf.shape(used), tf.float32))

    found = differentiate(tf.ones([size], tf.float64))
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found.numpy(), np.ones(size))
