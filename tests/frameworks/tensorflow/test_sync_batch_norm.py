"""Batch normalization over all ranks matches that of one big batch."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from farandole.common import membership
from farandole.tensorflow import mpi_ops

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def batch(size: int):
    return np.random.default_rng(5).normal(2.0, 3.0, size=(5 * size, 4, 3)).astype("f")


@pytest.mark.parametrize("parts", ["even", "uneven", "masked", "one is all padding"])
def test_sync_batch_normalization_matches_that_of_one_big_batch(run, rank, size, parts):
    whole = batch(size)
    bounds = [5 * each for each in range(size + 1)]
    if parts == "uneven" and size > 1:
        bounds[1] = 2
    own = slice(bounds[rank], bounds[rank + 1])
    mask = None
    if parts in ("masked", "one is all padding"):
        mask = np.random.default_rng(6).random(size=whole.shape[:-1]) < np.linspace(0.2, 0.9, len(whole))[:, np.newaxis]
        if parts != "masked" and size > 1:
            mask[: bounds[1]] = False

    layer, reference = hvd.SyncBatchNormalization(momentum=0.5), tf.keras.layers.BatchNormalization(momentum=0.5)
    assert layer.name == "sync_batch_normalization" and isinstance(layer, tf.keras.layers.BatchNormalization)
    layer.build(whole.shape), reference.build(whole.shape)
    target = tf.random.stateless_normal(whole.shape, seed=[1, 2])

    def differentiate(of, rows):
        x = tf.constant(whole[rows])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = of(x, training=True, mask=None if mask is None else tf.constant(mask[rows]))
            loss = tf.reduce_sum(y * target[rows])
        return y, tape.gradient(loss, [x, *of.trainable_variables])

    y, (dx, dgamma, dbeta) = run(lambda: differentiate(layer, own))()
    expected, (expected_dx, expected_dgamma, expected_dbeta) = differentiate(reference, slice(None))
    np.testing.assert_allclose(y.numpy(), expected.numpy()[own], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(dx.numpy(), expected_dx.numpy()[own], rtol=1e-3, atol=1e-4)
    # The gradients of the weights are this rank's own sums: the optimizer adds them up.
    total = hvd.grouped_allreduce([dgamma, dbeta], op=hvd.Sum)
    np.testing.assert_allclose(total[0].numpy(), expected_dgamma.numpy(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(total[1].numpy(), expected_dbeta.numpy(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(layer.moving_mean.numpy(), reference.moving_mean.numpy(), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(layer.moving_variance.numpy(), reference.moving_variance.numpy(), rtol=1e-3)


def test_inputs_that_are_far_from_zero_have_an_exact_variance(run, rank, size):
    whole = batch(size) + np.float32(1e4)
    layer, reference = hvd.SyncBatchNormalization(momentum=0.0), tf.keras.layers.BatchNormalization(momentum=0.0)
    run(lambda x: layer(x, training=True))(tf.constant(whole[5 * rank : 5 * rank + 5]))
    reference(tf.constant(whole), training=True)
    np.testing.assert_allclose(layer.moving_variance.numpy(), reference.moving_variance.numpy(), rtol=1e-3)


@several_ranks
def test_a_rank_without_samples_does_not_affect_the_statistics(rank, size):
    whole = batch(size)
    layer = hvd.SyncBatchNormalization()
    x = tf.constant(whole if rank == 0 else whole[:0])
    y = layer(x, training=True)
    if rank == 0:
        expected = tf.keras.layers.BatchNormalization()(tf.constant(whole), training=True)
        np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-3, atol=1e-4)
    assert np.isfinite(layer.moving_mean.numpy()).all()


@several_ranks
def test_a_graph_of_an_elastic_job_that_was_alone_reduces_later(rank, size, monkeypatch):
    whole = batch(size)
    layer, reference = hvd.SyncBatchNormalization(), tf.keras.layers.BatchNormalization()
    run = tf.function(lambda x: layer(x, training=True))
    mine = tf.constant(np.split(whole, size)[rank])
    layer.build(mine.shape)
    with monkeypatch.context() as alone:
        alone.setattr(membership, "is_elastic", lambda: True)
        alone.setattr(mpi_ops, "size", lambda: 1)
        graph = run.get_concrete_function(mine)
    expected = np.split(reference(tf.constant(whole), training=True).numpy(), size)[rank]
    np.testing.assert_allclose(graph(mine).numpy(), expected, rtol=1e-3, atol=1e-4)


def test_inference_does_not_communicate(rank):
    layer = hvd.SyncBatchNormalization()
    layer.build([None, 3])
    if rank == 0:
        assert layer(tf.ones([2, 3]), training=False).shape == [2, 3]


def test_fused_batch_normalization_is_refused():
    for fused in (True, None):
        with pytest.raises(ValueError, match="fused"):
            hvd.SyncBatchNormalization(fused=fused)
