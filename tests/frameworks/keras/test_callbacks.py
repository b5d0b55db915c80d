"""The callbacks of training."""

from __future__ import annotations

import numpy as np
import pytest
from farandole._keras import variables
from nets import ROWS, array_of, data, fit, furthest, network, share, tensor_of


def test_the_broadcast_callback_gives_all_ranks_the_roots_variables(hvd, keras, rank: int, size: int) -> None:
    root = size - 1
    x, y = data(1)
    model = network(keras, keras.optimizers.Adam(0.01), seed=rank)
    kept = model.layers[-1].bias
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(root, local_variables=[kept])
    fit(model, x, y, 2 * ROWS, epochs=1, callbacks=[broadcast])
    roots = network(keras, keras.optimizers.Adam(0.01), seed=root)
    fit(roots, x, y, 2 * ROWS, epochs=1)
    weights = zip(model.get_weights()[:3], roots.get_weights()[:3])
    assert all(np.allclose(a, b, atol=1e-6) for a, b in weights)
    states = zip(_state(model), _state(roots))
    assert all(np.allclose(a, b, atol=1e-6) for a, b in states)
    for wrong in ("bias", ["bias"]):
        with pytest.raises(ValueError):
            hvd.callbacks.BroadcastGlobalVariablesCallback(root, local_variables=wrong)


def test_the_broadcast_callback_moves_variables_of_rare_types(hvd, keras, rank: int, size: int) -> None:
    if not hasattr(keras, "ops"):
        pytest.skip("layers of Keras 2 have no such weights")
    kinds = ["complex64", "uint32", "float8_e4m3fn", "bfloat16"]

    def rank_in_elements(shape, dtype):
        return keras.ops.cast(keras.ops.full(shape, rank + 1.0, "float32"), dtype)

    class Rare(keras.layers.Layer):
        def build(self, shape):
            options = {"shape": (3,), "initializer": rank_in_elements, "trainable": False}
            self.rare = [self.add_weight(dtype=each, name=f"of_{each}", **options) for each in kinds]

        def call(self, x):
            return x

    layer = Rare()
    model = keras.Sequential([keras.Input((6,)), layer])
    model.compile("sgd", "mse")
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(size - 1)
    callback.set_model(model)
    callback.on_batch_end(0)
    for each in layer.rare:
        assert array_of(keras, keras.ops.cast(each, "float32")).tolist() == [size] * 3


def test_an_array_of_another_type_is_converted_to_the_variables(keras) -> None:
    if not hasattr(keras, "ops"):
        pytest.skip("variables of Keras 2 take arrays of their own type only")
    variable = keras.Variable(np.zeros(2, "float32"))
    ml_dtypes = pytest.importorskip("ml_dtypes")
    variables.assign(variable, np.array([1.5, -2.0], ml_dtypes.bfloat16))
    assert array_of(keras, variable).tolist() == [1.5, -2.0]


@pytest.mark.parametrize("is_shared", [False, True])
def test_each_rank_keeps_its_random_state_unless_it_asks_for_the_roots(
    hvd, keras, rank: int, size: int, is_shared: bool
) -> None:
    if not hasattr(keras, "ops"):
        pytest.skip("the generators of Keras 2 are no variables")
    layer = keras.layers.Dropout(0.5, seed=100 + rank)
    model = keras.Sequential([keras.Input((64,)), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    broadcast.shares_random_state = is_shared
    fit(model, np.ones((ROWS, 64)), np.ones((ROWS, 1)), ROWS, epochs=1, callbacks=[broadcast])
    assert np.ptp(hvd.allgather(np.asarray(model.get_weights()[0])[None]), axis=0).max() == 0
    assert _are_shared(hvd, layer) == is_shared
    state = hvd.elastic.KerasState(model)
    state.sync()
    assert _are_shared(hvd, layer) == is_shared
    dropped = np.asarray(keras.ops.convert_to_numpy(layer(np.ones((1, 64), "float32"), training=True)))
    state.restore()
    assert (np.asarray(keras.ops.convert_to_numpy(layer(np.ones((1, 64), "float32"), training=True))) == dropped).all()
    assert (np.ptp(hvd.allgather(dropped), axis=0).max() == 0) == (is_shared or size == 1)


class _Watcher:
    def __init__(self, model) -> None:
        self.model, self.seen = model, [1]


def test_values_that_refer_to_the_model_are_saved_without_it(hvd, keras) -> None:
    model = network(keras, "sgd")
    state = hvd.elastic.KerasState(model, watcher=_Watcher(model), kernel=(model.weights[0], []))
    state.save()
    state.watcher.seen.append(2)
    state.restore()
    assert state.watcher.model is model and state.watcher.seen == [1] and state.kernel[0] is model.weights[0]


def _are_shared(hvd, layer) -> bool:
    states = hvd.allgather(np.asarray(layer.seed_generator.state.numpy()).astype("int64")[None])
    return bool(np.ptp(states, axis=0).max() == 0)


def _state(model):
    variables = model.optimizer.variables
    return [np.array(each.numpy()) for each in (variables() if callable(variables) else variables)]


def test_the_metric_callback_averages_metrics_over_ranks(hvd, keras, rank: int, size: int) -> None:
    class Own(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logs["own"] = float(rank + epoch)

    x, y = data(size)
    model = network(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)))
    averages = [Own(), hvd.callbacks.MetricAverageCallback()]
    history = fit(model, share(x, rank, size), share(y, rank, size), ROWS, callbacks=averages).history
    assert history["own"] == [epoch + (size - 1) / 2 for epoch in range(3)]
    assert np.ptp(hvd.allgather(np.array(history["loss"])).reshape(size, -1), axis=0).max() == 0


def test_arrays_are_averaged_by_element_and_what_is_no_number_is_left_alone(hvd, keras, rank: int, size: int) -> None:
    mean = (size - 1) / 2
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    kept = {"none": None, "text": "warm", "texts": ["a", "b"], "uneven": [[1], [2, 3]], "object": {"a": 1}}
    logs = {
        "per_class": np.array([0.0, 1.0, 2.0]) + rank,
        "matrix": matrix * (rank + 1),
        "list": [rank, 2 * rank],
        "scalar": np.float32(rank),
        "integer": rank,
        "flag": rank == 0,
        "tensor": tensor_of(keras, np.array([1.0 + rank, 2.0], "float32")),
        **kept,
    }
    hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
    expected = {
        "per_class": np.array([0.0, 1.0, 2.0]) + mean,
        "matrix": matrix * (size + 1) / 2,
        "list": [mean, 2 * mean],
        "scalar": mean,
        "integer": mean,
        "flag": 1 / size,
        "tensor": [1 + mean, 2.0],
    }
    if size > 1:
        for name, value in expected.items():
            np.testing.assert_allclose(logs[name], value, err_msg=name)
        assert isinstance(logs["scalar"], float) and logs["matrix"].shape == (2, 2)
    assert all(logs[name] is value for name, value in kept.items())


def test_a_metric_with_a_value_for_each_class_is_averaged_by_fit(hvd, keras, rank: int, size: int) -> None:
    logged = []

    class Watches(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            logged.append(np.asarray(logs["f1_score"]))

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "categorical_crossentropy", metrics=[keras.metrics.F1Score(average=None)])
    x, labels = data(size)[0], np.eye(3, dtype="float32")[np.arange(2 * size * ROWS) % 3]
    watches = [Watches(), hvd.callbacks.MetricAverageCallback()]
    history = fit(model, share(x, rank, size), share(labels, rank, size), ROWS, 1, callbacks=watches).history
    mean = hvd.allgather(logged[0][None]).mean(axis=0)
    assert mean.shape == (3,) and np.ptp(hvd.allgather(logged[0][None]), axis=0).max() > 0
    np.testing.assert_allclose(history["f1_score"][0], mean, rtol=1e-6)


def test_a_metric_that_cannot_be_averaged_leaves_nothing_in_flight(hvd, keras, rank: int, size: int) -> None:
    logs = {"a": 1.0, "shapes differ": np.zeros(2 + rank), "z": float(rank)}
    if size > 1:
        with pytest.raises(Exception, match="metric.shapes differ"):
            hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
    again = {"a": float(rank), "shapes differ": np.full(3, float(rank)), "z": float(rank)}
    hvd.callbacks.MetricAverageCallback().on_epoch_end(0, again)
    assert again["z"] == (size - 1) / 2 and again["shapes differ"].tolist() == [(size - 1) / 2] * 3


class Rates:
    """Records the learning rate of each batch."""

    def __init__(self, keras) -> None:
        outer = self
        self.seen = []

        class Watches(keras.callbacks.Callback):
            def on_train_batch_begin(self, batch, logs=None):
                rate = self.model.optimizer.learning_rate
                outer.seen.append(round(float(rate.numpy() if hasattr(rate, "numpy") else rate), 6))

        self.callback = Watches()


def test_a_staircase_schedule_changes_the_rate_by_epoch(hvd, keras, rank: int) -> None:
    x, y = data(1)
    rates = Rates(keras)
    schedule = hvd.callbacks.LearningRateScheduleCallback(
        0.1, lambda epoch: 0.5**epoch, start_epoch=1, end_epoch=3, momentum_correction=False
    )
    model = network(keras, keras.optimizers.SGD(0.2))
    history = fit(model, x, y, ROWS, epochs=4, callbacks=[schedule, rates.callback]).history
    assert rates.seen == [0.2, 0.2, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025]
    assert np.allclose(history["lr"], [0.2, 0.05, 0.025, 0.025])
    by_number = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.1, start_epoch=1)
    assert [by_number.schedule.multiplier(epoch) for epoch in (1, 2)] == [1.0, 0.1]
    with pytest.raises(ValueError, match="initial_lr"):
        hvd.callbacks.LearningRateScheduleCallback(None, 0.1)


def test_training_uses_the_rate_that_a_schedule_sets(hvd, keras) -> None:
    x, y = data(1)
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.0, momentum_correction=False)
    still = network(keras, keras.optimizers.SGD(0.2))
    fit(still, x, y, ROWS, callbacks=[schedule])
    assert furthest(still, network(keras, "sgd")) == 0


def test_the_warmup_callback_raises_the_rate_batch_by_batch(
    hvd, keras, rank: int, size: int, capfd: pytest.CaptureFixture
) -> None:
    x, y = data(1)
    rates = Rates(keras)
    warm = hvd.callbacks.LearningRateWarmupCallback(0.4, warmup_epochs=2, momentum_correction=False, verbose=1)
    fit(network(keras, keras.optimizers.SGD(0.4)), x, y, ROWS, epochs=3, callbacks=[warm, rates.callback])
    when = [(step + 1) / 2 for step in range(4)]
    expected = [0.4 / size * (each * (size - 1) / 2 + 1) for each in when]
    assert np.allclose(rates.seen, [*expected, 0.4, 0.4], atol=1e-5)
    assert ("warmup to 0.4" in capfd.readouterr().out) == (rank == 0)


def test_momentum_is_corrected_for_one_batch_after_a_change_of_rate(hvd, keras) -> None:
    seen = []

    class Watches(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            momentum = self.model.optimizer.momentum
            seen.append(round(float(momentum.numpy() if hasattr(momentum, "numpy") else momentum), 6))

    x, y = data(1)
    schedule = hvd.callbacks.LearningRateScheduleCallback(0.1, lambda epoch: 0.5**epoch)
    model = network(keras, keras.optimizers.SGD(0.1, momentum=0.8))
    fit(model, x, y, ROWS, epochs=2, callbacks=[schedule, Watches()])
    assert seen == [0.8, 0.8, 0.4, 0.8]


def test_the_checkpoint_callback_saves_the_best_model(hvd, keras, tmp_path) -> None:
    best = hvd.callbacks.BestModelCheckpoint(monitor="loss")
    assert best.filepath is None and best.save_best_only
    best.filepath = str(tmp_path / "best.keras")
    x, y = data(1)
    fit(network(keras, "sgd"), x, y, ROWS, callbacks=[best])
    assert (tmp_path / "best.keras").exists()
