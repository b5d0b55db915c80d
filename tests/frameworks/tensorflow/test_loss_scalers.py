"""Loss scalers of TensorFlow 1: ranks skip a step together, or the combination is refused."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf


def scaled(place, op, plain):
    """A distributed optimizer of TensorFlow 1 with a loss scaler inside or around it."""
    scaler = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer
    if place == "inside":
        return hvd.DistributedOptimizer(scaler(plain, "dynamic"), op=op)
    return scaler(hvd.DistributedOptimizer(plain, op=op), "dynamic")


@pytest.mark.parametrize("place", ["inside", "around"])
def test_all_ranks_skip_a_step_in_which_the_gradients_of_one_are_not_finite(run, place, rank, size):
    variable = tf.Variable([1.0])
    optimizer = scaled(place, hvd.Average, tf.compat.v1.train.GradientDescentOptimizer(0.5))

    @run
    def step(factor):
        optimizer.minimize(lambda: tf.reduce_sum(variable * factor), var_list=[variable])

    for factor, expected in ((np.inf if rank == 0 else 1.0, 1.0), (rank + 1.0, 1.0 - 0.25 * (size + 1))):
        step(tf.constant(factor, tf.float32))
        np.testing.assert_allclose(variable.numpy(), [expected])


@pytest.mark.parametrize("place", ["inside", "around"])
def test_adasum_refuses_a_loss_scaler(size, place):
    if not hvd.check_num_rank_power_of_2(size):
        pytest.skip("needs a number of ranks that is a power of two")
    with pytest.raises(ValueError, match="op=Adasum does not go together with a loss scaler.*pass op=Average"):
        scaled(place, hvd.Adasum, tf.compat.v1.train.GradientDescentOptimizer(0.5))


@pytest.mark.parametrize("place", ["inside", "around"])
def test_a_checkpoint_has_the_scale_and_the_state_of_the_scaled_optimizer(tmp_path, place):
    def made():
        variable = tf.Variable([1.0])
        optimizer = scaled(place, hvd.Average, tf.compat.v1.train.AdamOptimizer(0.5))
        return variable, optimizer, tf.train.Checkpoint(variable=variable, optimizer=optimizer)

    def step(variable, optimizer, factor):
        optimizer.minimize(lambda: tf.reduce_sum(variable * factor), var_list=[variable])
        return [each.numpy().tolist() for each in [variable, *optimizer.variables()]]

    variable, optimizer, checkpoint = made()
    step(variable, optimizer, 3.0)
    step(variable, optimizer, np.inf)
    path = checkpoint.write(str(tmp_path / "saved"))
    expected = step(variable, optimizer, 5.0)
    variable, optimizer, checkpoint = made()
    status = checkpoint.read(path)
    assert step(variable, optimizer, 5.0) == expected
    status.assert_consumed()
