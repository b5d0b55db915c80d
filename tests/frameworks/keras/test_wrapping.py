"""Optimizers that cannot be made anew from their configuration are wrapped as they are."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from nets import ROWS, data, fit, furthest, network, share


def schedule_without_configuration(keras):
    """As in the tutorial of the Transformer: it has no ``get_config()``."""

    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        factor = 1.0

        def __call__(self, step):
            if hasattr(keras, "ops"):
                return 0.1 * self.factor / (keras.ops.cast(step, "float32") + 1.0)
            import tensorflow as tf

            return 0.1 * self.factor / (tf.cast(step, tf.float32) + 1.0)

    return Schedule()


def own_class(keras):
    class Own(keras.optimizers.SGD):
        def __init__(self, factor, mode="slow", **options):
            super().__init__(**options)
            self.factor, self.mode = factor, mode

    return Own


MAKERS = {
    "schedule": lambda keras: keras.optimizers.Adam(schedule_without_configuration(keras)),
    "function": lambda keras: keras.optimizers.SGD(learning_rate=lambda: 0.05),
    "own constructor": lambda keras: own_class(keras)(3, mode="fast", learning_rate=0.05, momentum=0.5),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_an_optimizer_without_a_complete_configuration_trains_as_in_one_process(
    hvd, keras, rank: int, size: int, kind: str
) -> None:
    x, y = data(size)
    plain = MAKERS[kind](keras)
    wrapped = hvd.DistributedOptimizer(plain)
    model = network(keras, wrapped, jit_compile=False)
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    one = network(keras, MAKERS[kind](keras), jit_compile=False)
    fit(one, x, y, ROWS * size)
    assert furthest(model, one) < 1e-5
    assert int(np.asarray(plain.iterations)) == 0 and int(np.asarray(wrapped.iterations)) == 6
    if kind == "own constructor":
        assert (wrapped.factor, wrapped.mode) == (3, "fast")


@pytest.mark.parametrize("kind", MAKERS)
def test_an_optimizer_that_has_stepped_and_has_no_complete_configuration_keeps_its_state(hvd, keras, kind: str) -> None:
    if kind == "function" and not hasattr(keras, "ops"):
        pytest.skip("Keras 2 calls the function once, so the configuration is complete")
    x, y = data(1)
    model = network(keras, MAKERS[kind](keras), jit_compile=False)
    fit(model, x, y, ROWS)
    wrapped = hvd.DistributedOptimizer(model.optimizer)
    assert int(np.asarray(wrapped.iterations)) == int(np.asarray(model.optimizer.iterations)) == 6
    assert not {id(each) for each in _variables(wrapped)} & {id(each) for each in _variables(model.optimizer)}


def _variables(optimizer):
    variables = optimizer.variables
    return variables() if not isinstance(variables, list) and callable(variables) else variables


def test_a_schedule_is_shared_with_the_wrapped_optimizer(hvd, keras) -> None:
    schedule = schedule_without_configuration(keras)
    model = network(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(schedule)), jit_compile=False)
    schedule.factor = 0.0
    fit(model, *data(1), ROWS)
    assert furthest(model, network(keras, "sgd")) == 0


def test_the_optimizers_inside_of_a_multi_optimizer_are_those_that_step(
    hvd, keras, backend, rank: int, size: int
) -> None:
    if not hasattr(keras.optimizers, "MultiOptimizer") or backend == "jax":
        pytest.skip("there is none, or the rates of a running fit() are elsewhere")

    def optimizer():
        inner = keras.optimizers.SGD(0.1), keras.optimizers.Adam(0.02)
        return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(inner[0], {".*/bias": inner[1]}))

    x, y = data(size)
    plain = optimizer()
    model = network(keras, hvd.DistributedOptimizer(plain), jit_compile=False)
    one = network(keras, optimizer(), jit_compile=False)
    for each in (model, one):
        for inner in each.optimizer.optimizers:
            inner.learning_rate.assign(0.05)
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    fit(one, x, y, ROWS * size)
    assert furthest(model, one) < 1e-5
    assert len(model.optimizer.variables) == len(one.optimizer.variables)
    assert [len(each.variables) for each in plain.optimizers] == [2, 2], "the original has no state"


def test_an_optimizer_that_is_wrapped_twice_has_two_states(hvd, keras) -> None:
    plain = keras.optimizers.Adam(0.01)
    first, second = hvd.DistributedOptimizer(plain), hvd.DistributedOptimizer(plain)
    x, y = data(1)
    fit(network(keras, first, jit_compile=False), x, y, ROWS)
    assert int(np.asarray(first.iterations)) == 6 and int(np.asarray(second.iterations)) == 0
    assert len(_variables(second)) < len(_variables(first))


@pytest.mark.parametrize("passes", [1, 3])
def test_the_counter_of_keras_2_counts_batches_and_that_of_keras_3_counts_steps(hvd, keras, passes: int) -> None:
    seen = []

    class Watches(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if hasattr(self.model, "jax_state_sync"):
                self.model.jax_state_sync()
            seen.append(int(np.asarray(self.model.optimizer.iterations)))

    x, y = data(1, steps=6)
    for optimizer in optimizers(keras):
        seen.clear()
        wrapped = hvd.DistributedOptimizer(optimizer, backward_passes_per_step=passes)
        fit(network(keras, wrapped, jit_compile=False), x, y, ROWS, epochs=1, callbacks=[Watches()])
        counts_steps = hasattr(keras, "ops")
        assert seen == [(batch + 1) // passes if counts_steps else batch + 1 for batch in range(6)]


def optimizers(keras):
    made = [keras.optimizers.SGD(0.01)]
    if not hasattr(keras, "ops"):
        made.append(keras.optimizers.legacy.SGD(0.01))
    return made


def test_the_copy_holds_its_own_variables_and_not_the_numbers_of_the_originals(hvd, keras) -> None:
    if not hasattr(keras, "ops"):
        pytest.skip("Keras 2 has no tracker")
    wrapped = hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adafactor(0.1)))
    for each in (wrapped, wrapped.inner_optimizer):
        assert each._tracker.stored_ids["variables"] == {id(variable) for variable in each._variables}


def through_pickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [pytest.param(copy.deepcopy, marks=pytest.mark.slow), through_pickle])
def test_a_copy_of_a_wrapped_optimizer_is_plain_and_may_be_wrapped(hvd, keras, rank: int, size: int, copied) -> None:
    if not hasattr(keras, "ops"):
        pytest.skip("Keras 3 copies by its saved form")
    x, y = data(size)
    plain = copied(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.5)))
    assert type(plain) is type(keras.optimizers.SGD()) and plain.momentum == 0.5
    model = network(keras, hvd.DistributedOptimizer(plain), jit_compile=False)
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    one = network(keras, keras.optimizers.SGD(0.05, momentum=0.5), jit_compile=False)
    fit(one, x, y, ROWS * size)
    assert furthest(model, one) < 1e-5
    assert type(copied(model.optimizer)) is type(plain)


def test_a_deep_copy_of_a_legacy_optimizer_of_keras_2_is_distributed(hvd, keras, rank: int, size: int) -> None:
    if hasattr(keras, "ops"):
        pytest.skip("Keras 2 copies no other optimizers, wrapped or not")
    x, y = data(size)
    wrapped = hvd.DistributedOptimizer(keras.optimizers.legacy.SGD(0.05, momentum=0.5))
    model = network(keras, copy.deepcopy(wrapped), jit_compile=False)
    fit(model, share(x, rank, size), share(y, rank, size), ROWS)
    one = network(keras, keras.optimizers.legacy.SGD(0.05, momentum=0.5), jit_compile=False)
    fit(one, x, y, ROWS * size)
    assert furthest(model, one) < 1e-5 and len(_variables(wrapped)) < len(_variables(model.optimizer))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
def test_a_copy_of_a_model_has_a_plain_optimizer(hvd, keras, copied) -> None:
    if not hasattr(keras, "ops"):
        pytest.skip("Keras 3 copies by its saved form")
    model = network(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.5)), jit_compile=False)
    fit(model, *data(1), ROWS)
    other = copied(model)
    assert type(other.optimizer) is type(keras.optimizers.SGD()) and furthest(model, other) == 0
