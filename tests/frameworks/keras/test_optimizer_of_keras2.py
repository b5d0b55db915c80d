"""Optimizers of Keras 2. Their gradients are computed, aggregated and applied by three calls, which mixed-precision
wrappers and subclasses of users make one by one."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np
import pytest
from nets import ROWS, data, fit, furthest, network, share

Make = Callable[[float], Any]


@pytest.fixture(params=["current", "legacy"])
def sgd(request: pytest.FixtureRequest, keras: Any) -> Make:
    """The class of the optimizer: the current one, or an ``OptimizerV2``."""
    if hasattr(keras, "ops"):
        pytest.skip("Keras 3 has one call for all of it")
    home = keras.optimizers.legacy if request.param == "legacy" else keras.optimizers
    return home.SGD


@pytest.fixture
def variable() -> Any:
    import tensorflow as tf

    return tf.Variable([5.0, 5.0])


def ranks(size: int) -> int:
    """The sum of rank + 1 over all ranks."""
    return size * (size + 1) // 2


def gradients_of(pairs: Any) -> List[float]:
    return [float(gradient.numpy()[0]) for gradient, _ in pairs]


def test_computed_gradients_are_reduced_once(hvd, sgd: Make, variable, rank: int, size: int):
    import tensorflow as tf

    optimizer = hvd.DistributedOptimizer(sgd(1.0), op=hvd.Sum)

    def loss():
        return tf.reduce_sum(variable) * (rank + 1.0)

    pairs = optimizer._compute_gradients(loss, [variable])
    assert gradients_of(pairs) == [ranks(size)]
    # Wrappers aggregate next; neither aggregating nor applying reduces the gradients again.
    pairs = optimizer._aggregate_gradients(pairs)
    assert gradients_of(pairs) == [ranks(size)]
    optimizer.apply_gradients(pairs)
    np.testing.assert_allclose(variable.numpy(), 5.0 - ranks(size))
    # Gradients that are computed and not applied do not affect the next step.
    optimizer._compute_gradients(loss, [variable])
    with tf.GradientTape() as tape:
        value = loss()
    pairs = optimizer._compute_gradients(value, [variable], tf.constant(3.0), tape)
    assert gradients_of(pairs) == [3.0 * ranks(size)]
    assert gradients_of(optimizer._compute_gradients(loss, [variable], grad_loss=2.0)) == [2.0 * ranks(size)]
    optimizer.apply_gradients(pairs)
    np.testing.assert_allclose(variable.numpy(), 5.0 - 4.0 * ranks(size))
    optimizer.minimize(loss, [variable])
    np.testing.assert_allclose(variable.numpy(), 5.0 - 5.0 * ranks(size))


def test_aggregated_gradients_are_reduced_once(hvd, sgd: Make, variable, rank: int, size: int):
    import tensorflow as tf

    optimizer = hvd.DistributedOptimizer(sgd(1.0), op=hvd.Sum)
    own = [(tf.fill([2], rank + 1.0), variable)]
    # The first result is not applied, as by a loss-scale optimizer after an overflow.
    assert gradients_of(optimizer._aggregate_gradients(own)) == [ranks(size)]
    pairs = optimizer._aggregate_gradients(own)
    assert gradients_of(pairs) == [ranks(size)]
    optimizer.apply_gradients(pairs)
    np.testing.assert_allclose(variable.numpy(), 5.0 - ranks(size))
    optimizer.apply_gradients(own)
    np.testing.assert_allclose(variable.numpy(), 5.0 - 2.0 * ranks(size))


@pytest.mark.parametrize("compiled", [True, False])
def test_steps_inside_a_loss_scale_optimizer_match_those_of_one_big_batch(
    hvd, keras, sgd: Make, compiled: bool, rank: int, size: int
) -> None:
    x, y = data(size)
    model = network(keras, "sgd", run_eagerly=not compiled)
    weights = model.get_weights()
    scaled = keras.mixed_precision.LossScaleOptimizer(hvd.DistributedOptimizer(sgd(0.1)), initial_scale=8.0)
    model.compile(optimizer=scaled, loss="mse", run_eagerly=not compiled)
    model.set_weights(weights)
    overflow = np.where(rank == 0, np.inf, 1.0) * np.ones((ROWS, 1), "float32")
    # After an overflow on one rank, all ranks skip the step, and the next step is reduced as usual.
    fit(model, x[:ROWS], overflow, ROWS, epochs=1)
    np.testing.assert_array_equal(model.get_weights()[0], weights[0])
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    one = network(keras, sgd(0.1))
    fit(one, x, y, ROWS * size)
    assert furthest(model, one) < 1e-5


def test_the_aggregation_helper_has_the_same_attribute_name_as_in_horovod(hvd, sgd: Make) -> None:
    from farandole.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager

    assert hvd.DistributedOptimizer(sgd(1.0))._agg_helper is None
    helper = hvd.DistributedOptimizer(sgd(1.0), backward_passes_per_step=2)._agg_helper
    assert isinstance(helper, LocalGradientAggregationHelperEager) and helper.backward_passes_per_step == 2


def test_several_passes_of_computed_gradients_make_one_step(hvd, sgd: Make, variable, rank: int, size: int) -> None:
    import tensorflow as tf

    optimizer = hvd.DistributedOptimizer(sgd(1.0), op=hvd.Sum, backward_passes_per_step=2)
    for expected in (5.0, 5.0 - 2.0 * ranks(size)):
        pairs = optimizer._compute_gradients(lambda: tf.reduce_sum(variable) * (rank + 1.0), [variable])
        optimizer.apply_gradients(optimizer._aggregate_gradients(pairs))
        np.testing.assert_allclose(variable.numpy(), expected)


def test_a_wrapped_user_class_calls_the_methods_that_it_overrides(
    hvd, sgd: Make, variable, rank: int, size: int
) -> None:
    import tensorflow as tf

    class Doubled(sgd):  # type: ignore[valid-type, misc]
        def _aggregate_gradients(self, grads_and_vars):
            return [(2.0 * gradient, variable) for gradient, variable in grads_and_vars]

    optimizer = hvd.DistributedOptimizer(Doubled(1.0), op=hvd.Sum)
    pairs = optimizer._aggregate_gradients([(tf.fill([2], rank + 1.0), variable)])
    assert gradients_of(pairs) == [2.0 * ranks(size)]


@pytest.fixture(params=["keras", "tensorflow"])
def elastic_state(request: pytest.FixtureRequest, hvd) -> Any:
    """The class of the elastic state."""
    import horovod.tensorflow

    return hvd.elastic.KerasState if request.param == "keras" else horovod.tensorflow.elastic.TensorFlowKerasState


def test_ranks_that_join_get_the_rate_the_scale_and_the_slots_of_the_root(
    hvd, keras, sgd: Make, elastic_state, rank: int, size: int
) -> None:
    x, y = data(1)
    optimizer = sgd(0.1 * (rank + 1), momentum=0.9)
    scaler = keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=8.0 * (rank + 1))
    model = network(keras, scaler)
    if rank == 0:
        fit(model, x, y, ROWS)
    state = elastic_state(model)
    state.sync()
    assert_equal_on_all_ranks(
        hvd, [*model.get_weights(), *(each.numpy() for each in scaler.variables()), state_of(scaler)]
    )
    kept = state_of(scaler)
    assert kept[:2] == pytest.approx([0.1, 8.0])
    optimizer.learning_rate = 1.0
    fit(model, x, y, ROWS)
    assert state_of(scaler) != kept
    state.restore()
    assert state_of(scaler) == kept


def test_the_broadcast_callback_sends_the_rate_and_the_scale_of_the_root(
    hvd, keras, sgd: Make, rank: int, size: int
) -> None:
    x, y = data(1)
    optimizer = hvd.DistributedOptimizer(sgd(0.1 * (rank + 1)))
    scaler = keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=8.0 * (rank + 1))
    model = network(keras, scaler)
    fit(model, x, y, len(x), epochs=1, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(size - 1)])
    assert state_of(scaler) == pytest.approx([0.1 * size, 8.0 * size, 1])


def state_of(scaler: Any) -> List[float]:
    """The rate, the scale and the number of steps since it has changed."""
    return [float(each.numpy()) for each in (scaler.learning_rate, scaler.loss_scale, scaler.dynamic_counter)]


def assert_equal_on_all_ranks(hvd, values: List[Any]) -> None:
    for each in values:
        assert np.ptp(hvd.allgather(np.asarray(each, "float64")[None]), axis=0).max(initial=0) == 0
