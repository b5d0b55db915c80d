"""The training of Keras models in this process and on two ranks, compared with Keras alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Sequence

import keras
import keras_samples as samples
import numpy
import pytest
from farandole._keras.library import all_variables_of, build
from farandole.spark.common.store import Store
from farandole.spark.keras.rates import ScaledRate
from keras_samples import keras_2

PACKAGES = pytest.mark.parametrize("package", [keras, keras_2], ids=["keras", "tf_keras"])


def equal(found: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-5) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        numpy.testing.assert_allclose(one, other, atol=tolerance)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    return Store.create(str(tmp_path))


@PACKAGES
def test_one_rank_trains_as_keras_does(package: Any) -> None:
    model = samples.network(package)
    optimizer = package.optimizers.Adam(0.01)
    before = model.get_weights()
    result, history = samples.trained(
        model, optimizer, metrics=["mae"], epochs=2, validates=True, sample_weight_col="w"
    )
    copy = package.models.clone_model(model)
    copy.set_weights(before)
    copy.compile(optimizer=package.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
    data = {"sample_weight": samples.WEIGHTS, "validation_data": (samples.ROWS, samples.LABELS, samples.WEIGHTS)}
    expected = copy.fit(
        samples.ROWS, samples.LABELS, batch_size=5, validation_batch_size=7, epochs=2, shuffle=False, verbose=0, **data
    )
    equal(result.get_weights(), copy.get_weights())
    assert set(history) == set(expected.history)
    for name, values in expected.history.items():
        assert history[name] == pytest.approx(values, abs=1e-5), name
    equal(model.get_weights(), before, 0.0)
    assert float(numpy.asarray(optimizer.iterations)) == 0


@PACKAGES
@pytest.mark.parametrize("passes", [1, 3])
def test_passes_make_up_a_step(package: Any, passes: int) -> None:
    model = samples.network(package)
    result, _ = samples.trained(model, package.optimizers.SGD(0.05), backward_passes_per_step=passes)
    steps = [range(start, min(start + 5 * passes, 64)) for start in range(0, 64, 5 * passes)]
    equal(result.get_weights(), samples.fitted_by_keras(model, package.optimizers.SGD(0.05), [list(s) for s in steps]))


def test_several_outputs_with_weights_for_their_losses() -> None:
    keras.utils.set_random_seed(2)
    x = keras.Input((3,))
    model = keras.Model(x, [keras.layers.Dense(1, name="value")(x), keras.layers.Dense(3, "softmax", name="kind")(x)])
    result, history = samples.trained(
        model,
        keras.optimizers.SGD(0.1),
        ["mse", "sparse_categorical_crossentropy"],
        [[keras.metrics.MeanAbsoluteError(name="mae")], ["accuracy"]],
        label_cols=["y", "kind"],
        loss_weights=[0.3, 0.7],
        batch_size=4,
    )
    copy = keras.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile("sgd", ["mse", "sparse_categorical_crossentropy"], [0.3, 0.7], [["mae"], ["accuracy"]])
    copy.optimizer.learning_rate = 0.1
    labels = [samples.LABELS.reshape(-1, 1), samples.CLASSES]
    expected = copy.fit(samples.ROWS, labels, batch_size=4, shuffle=False, verbose=0)
    equal(result.get_weights(), copy.get_weights())
    assert history == {name: pytest.approx(values, abs=1e-5) for name, values in expected.history.items()}


def test_a_single_list_of_metrics_is_for_all_labels() -> None:
    x = keras.Input((3,))
    model = keras.Model(x, [keras.layers.Dense(1, name="a")(x), keras.layers.Dense(1, name="b")(x)])
    _, history = samples.trained(model, "sgd", metrics=[keras.metrics.MeanSquaredError()], label_cols=["y", "y"])
    assert {"a_mean_squared_error", "b_mean_squared_error"} <= set(history)
    with pytest.raises(ValueError, match=r"returns 2 outputs for 1 label columns \(y\)"):
        samples.trained(model, "sgd")


def test_a_model_of_a_class_of_the_user_is_built_on_the_rank() -> None:
    model = samples.Net(5)
    result, history = samples.trained(model, "adam", epochs=2)
    assert not model.built and type(result) is samples.Net and result.units == 5
    assert history["loss"][1] < history["loss"][0]
    assert [tuple(each.shape) for each in result.weights] == [(3, 5), (5,), (5, 1), (1,)]


def test_values_of_a_step_of_the_user_are_means_over_rows() -> None:
    _, history = samples.trained(samples.OwnStep(), "adam")
    assert history["label"] == [pytest.approx(samples.LABELS.mean(), abs=1e-5)]


def test_functions_and_layers_of_the_user_are_custom_objects() -> None:
    def triple(x: Any) -> Any:
        return 3.0 * x

    def error(expected: Any, found: Any) -> Any:
        return keras.ops.mean(keras.ops.abs(expected - found), -1)

    layers = [keras.Input((3,)), samples.Doubled(), keras.layers.Dense(1, activation=triple)]
    model = keras.Sequential(layers)
    result, _ = samples.trained(model, "adam", error, [error], custom_objects={"triple": triple})
    bias = result.layers[-1].bias.numpy()
    row = numpy.ones((1, 3), "float32")
    assert result(row).numpy() == pytest.approx(3 * (2 * row @ result.layers[-1].kernel.numpy() + bias), abs=1e-5)


def test_the_rate_of_a_schedule_is_that_of_a_single_process() -> None:
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
    model = samples.network()
    result, _ = samples.trained(model, keras.optimizers.SGD(schedule))
    steps = [list(range(start, min(start + 5, 64))) for start in range(0, 64, 5)]
    equal(result.get_weights(), samples.fitted_by_keras(model, keras.optimizers.SGD(schedule), steps))
    assert result.optimizer.get_config()["learning_rate"]["config"]["initial_learning_rate"] == 0.1


def with_a_function(package: Any, rate: float = 0.05) -> Any:
    @keras.saving.register_keras_serializable()
    def constant() -> float:
        return rate

    return package.optimizers.SGD(constant)


def with_a_schedule(package: Any) -> Any:
    return package.optimizers.SGD(package.optimizers.schedules.ExponentialDecay(0.05, 5, 0.5))


def several(package: Any, rate: float = 0.05) -> Any:
    inner = [with_a_function(package, rate), package.optimizers.SGD(rate / 2)]
    return package.optimizers.MultiOptimizer(package.optimizers.OptimizerMap(inner[0], {".*/bias": inner[1]}))


def chosen_by_a_function(package: Any) -> Any:
    inner = [package.optimizers.SGD(0.025), with_a_function(package)]
    return package.optimizers.MultiOptimizer(lambda variable: inner["kernel" in variable.path])


def in_a_scaler(package: Any) -> Any:
    home = package.optimizers if package is keras else package.mixed_precision
    return home.LossScaleOptimizer(package.optimizers.SGD(0.05))


@pytest.mark.parametrize(
    "package, make, rates",
    [
        (keras, with_a_schedule, [0.05]),
        *((package, in_a_scaler, [0.05]) for package in (keras, keras_2)),
        *((package, with_a_function, [0.05]) for package in (keras, keras_2, keras_2.optimizers.legacy)),
        (keras, several, [0.025, 0.05]),
        (keras, chosen_by_a_function, [0.05, 0.025]),
    ],
)
def test_rates_are_those_of_a_single_process_while_a_checkpoint_is_written(
    package: Any, make: Any, rates: List[float]
) -> None:
    home = SimpleNamespace(optimizers=package) if package is keras_2.optimizers.legacy else package
    optimizer = make(home)
    build(optimizer, samples.network(keras if package is keras else keras_2).trainable_variables)

    def found() -> List[float]:
        given = [each.learning_rate for each in getattr(optimizer, "optimizers", None) or [optimizer]]
        numbers = [each(0) if isinstance(each, schedules) else each for each in given]
        return [float(numpy.asarray(each)) for each in numbers]

    library = keras if package is keras else keras_2
    schedules: Any = library.optimizers.schedules.LearningRateSchedule
    rate = ScaledRate(library, optimizer, 2)
    for _ in range(2):
        assert found() == pytest.approx([2 * each for each in rates])
        with rate.unscaled():
            assert found() == pytest.approx(rates)


class Records(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes the names of its methods to a file, and ends the training within the second epoch."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def _write(self, name: str) -> None:
        with open(self.path, "a") as file:
            file.write(f"{name}\n")

    def on_train_begin(self, logs: Any = None) -> None:
        self._write("train begins")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.epoch, batch) == (1, 3):
            self.model.stop_training = True

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._write(f"epoch {epoch} ends with {' '.join(sorted(logs))}")

    def on_train_end(self, logs: Any = None) -> None:
        self._write("train ends")


def test_callbacks_are_called_and_may_end_the_training(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    _, history = samples.trained(samples.network(), "sgd", epochs=5, validates=True, callbacks=[Records(str(path))])
    ends = [f"epoch {epoch} ends with loss val_loss" for epoch in (0, 1)]
    assert path.read_text().splitlines() == ["train begins", *ends, "train ends"]
    assert len(history["loss"]) == 2


def checkpoint_callback(package: Any, name: str, weights_only: bool) -> Any:
    """Saves the best model, where best is the largest loss: the first epoch."""
    from farandole._keras.callbacks import made_for_tensorflow

    made = made_for_tensorflow(package).BestModelCheckpoint(
        monitor="val_loss", mode="max", save_weights_only=weights_only
    )
    made.filepath = name or None
    return made


@pytest.mark.parametrize(
    "package, name, weights_only",
    [
        (keras, "", False),
        (keras, "", True),
        (keras, "best-{epoch:02d}.keras", False),
        (keras_2, "", False),
        (keras_2, "", True),
        (keras_2, "saved_model", False),
        (keras_2, "weights", True),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_best_checkpoint_is_returned(package: Any, name: str, weights_only: bool, store: Any) -> None:
    model, callback = samples.network(package), checkpoint_callback(package, name, weights_only)
    result, history = samples.trained(
        model, package.optimizers.SGD(0.05), store=store, epochs=3, validates=True, checkpoint_callback=callback
    )
    first, _ = samples.trained(model, package.optimizers.SGD(0.05), epochs=1)
    assert history["val_loss"][0] == max(history["val_loss"]) and len(history["val_loss"]) == 3
    equal(result.get_weights(), first.get_weights())
    folder = Path(store.get_localized_path(store.get_run_path("run"))) / "checkpoints"
    expected = {"": "best.weights.h5" if weights_only else "best.keras", "weights": "weights.index"}
    assert (folder / expected.get(name, name.format(epoch=1))).exists()
    assert callback.filepath == (name or None)


def test_the_best_model_is_returned_if_the_store_keeps_no_runs() -> None:
    callback = checkpoint_callback(keras, "", False)
    options: Dict[str, Any] = {"validates": True, "checkpoint_callback": callback}
    result, _ = samples.trained(samples.network(), "sgd", epochs=3, **options)
    first, _ = samples.trained(samples.network(), "sgd")
    equal(result.get_weights(), first.get_weights())


@PACKAGES
@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_an_interrupted_run_continues_as_if_it_had_not_been(package: Any, policy: str, tmp_path: Path) -> None:
    def runs(name: str, *epochs: int) -> Any:
        own = Store.create(str(tmp_path / name))
        halves = package.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        results = [
            samples.trained(
                samples.network(package), package.optimizers.Adam(0.02), store=own, epochs=each, callbacks=[halves]
            )
            for each in epochs
        ]
        return results[-1]

    package.mixed_precision.set_global_policy(policy)
    try:
        (whole, history), (resumed, continued) = runs("whole", 3), runs("parts", 1, 2)
    finally:
        package.mixed_precision.set_global_policy("float32")
    equal(resumed.get_weights(), whole.get_weights())
    assert continued == {name: pytest.approx(values, abs=1e-5) for name, values in history.items()}
    assert float(numpy.asarray(resumed.optimizer.learning_rate)) == pytest.approx(0.02 / 8)
    states = [[numpy.asarray(each) for each in all_variables_of(model.optimizer)] for model in (resumed, whole)]
    equal(*states)


@pytest.fixture(scope="module")
def results() -> Dict[str, Any]:
    """The results of all trainings on two ranks, which run in one job."""
    from farandole.runner import run

    found: List[Any] = run(train_on_two_ranks, num_proc=2)
    return found[0]  # type: ignore[no-any-return]


class TestTwoRanks:
    @pytest.mark.parametrize("kind", ["uneven", "empty", "tf_keras", "function", "several"])
    def test_each_row_counts_once(self, results: Dict[str, Any], kind: str) -> None:
        weights, history = results[kind]
        package = keras_2 if kind == "tf_keras" else keras
        bounds = (samples.EmptyRankModule if kind == "empty" else samples.UnevenModule).bounds
        make = {"function": with_a_function, "several": several}.get(kind)
        optimizer = package.optimizers.SGD(0.1, momentum=0.5) if make is None else make(package, 0.1)
        expected = samples.fitted_by_keras(samples.network(package), optimizer, steps_of(bounds), 2)
        equal(weights, expected)
        assert history["val_loss"][1] == pytest.approx(loss_of(package, expected), abs=1e-5)

    def test_gradients_are_compressed(self, results: Dict[str, Any]) -> None:
        (exact, _), (compressed, _) = results["uneven"], results["compressed"]
        equal(compressed, exact, 0.01)
        assert any((one != other).any() for one, other in zip(compressed, exact))

    def test_sparse_gradients_are_reduced_in_the_given_number_of_steps(self, results: Dict[str, Any]) -> None:
        model = embedding()
        model.compile(keras.optimizers.SGD(0.1), "mse")
        again = [*range(5), *range(28, 33)]  # rank 0 has rows for three steps, and starts again in the fourth
        for rows in [*steps_of(samples.UnevenModule.bounds)[:3], again]:
            model.train_on_batch(samples.CLASSES[rows], samples.LABELS[rows])
        equal(results["embedding"][0], model.get_weights())

    def test_the_metrics_are_means_over_the_rows_of_all_ranks(self, results: Dict[str, Any]) -> None:
        history = results["still"][1]
        model = samples.network()
        errors = numpy.abs(model(samples.ROWS).numpy().reshape(-1) - samples.LABELS)
        for part in ("", "val_"):
            assert history[f"{part}mae"][0] == pytest.approx(errors.mean(), abs=1e-5)
            assert history[f"{part}loss"][0] == pytest.approx((errors**2).mean(), abs=1e-5)

    def test_the_rate_is_scaled_once_and_unscaled(self, results: Dict[str, Any]) -> None:
        assert results["rates"] == {"seen": [pytest.approx(0.1)] * 2, "returned": pytest.approx(0.05)}

    def test_a_rank_without_rows_leaves_batch_normalisation_alone(self, results: Dict[str, Any]) -> None:
        model = normalised_network()
        model.compile(keras.optimizers.SGD(0.1), "mse")
        for rows in steps_of(samples.EmptyRankModule.bounds):
            model.train_on_batch(samples.ROWS[rows], samples.LABELS[rows])
        own, other = results["normalised"]
        equal(own, model.get_weights())
        equal(other, normalised_network().get_weights()[2:4])  # of rank 1: the moving statistics

    def test_a_model_that_each_rank_builds_starts_with_the_same_weights(self, results: Dict[str, Any]) -> None:
        own, other = results["built"]
        equal(own, other, 0.0)

    def test_a_rank_that_ends_the_training_ends_that_of_all(self, results: Dict[str, Any]) -> None:
        assert results["stopped"] == [2, 2]


def embedding() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input((1,), dtype="int64"), keras.layers.Embedding(3, 4), keras.layers.Flatten()]
    return keras.Sequential([*layers, keras.layers.Dense(1)])


def normalised_network() -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.Input((3,)), keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dense(1)]
    return keras.Sequential(layers)


def steps_of(bounds: Sequence[int]) -> List[List[int]]:
    """The rows of each step of all ranks together."""
    ranks = [range(start, stop) for start, stop in zip(bounds, bounds[1:])]
    return [[row for rows in ranks for row in rows[start : start + 5]] for start in range(0, max(map(len, ranks)), 5)]


def loss_of(package: Any, weights: Sequence[Any]) -> float:
    model = samples.network(package)
    model.set_weights(weights)
    return float(numpy.mean((numpy.asarray(model(samples.ROWS)).reshape(-1) - samples.LABELS) ** 2))


class StopsOnRank1(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends the training on rank 1 in the second epoch, and counts the epochs of its rank."""

    epochs = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        import farandole.tensorflow as hvd

        if hvd.rank() == 1 and self.epochs == 1:
            self.model.stop_training = True

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        type(self).epochs = self.epochs + 1


class SeesRate(keras.callbacks.Callback):  # type: ignore[misc]
    """Remembers the learning rates and the weights at the end of each epoch."""

    rates: List[float] = []
    weights: List[Any] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        type(self).rates.append(float(numpy.asarray(self.model.optimizer.learning_rate)))
        type(self).weights = self.model.get_weights()


def train_on_two_ranks() -> Dict[str, Any]:
    import farandole.tensorflow as hvd

    hvd.init()
    results: Dict[str, Any] = {}

    def run(name: str, model: Any, optimizer: Any, *args: Any, **params: Any) -> Any:
        found = samples.trained(model, optimizer, *args, validates=True, **params)
        if found is not None:
            results[name] = (found[0].get_weights(), found[1])
        return found

    for name, package, module in [
        ("uneven", keras, samples.UnevenModule),
        ("empty", keras, samples.EmptyRankModule),
        ("tf_keras", keras_2, samples.UnevenModule),
    ]:
        # Two ranks double the rate.
        optimizer = package.optimizers.SGD(0.05, momentum=0.5)
        callbacks = [SeesRate()] if name == "uneven" else []
        found = run(name, samples.network(package), optimizer, epochs=2, data_module=module, callbacks=callbacks)
        if name == "uneven" and found is not None:
            rate = float(numpy.asarray(found[0].optimizer.learning_rate))
            results["rates"] = {"seen": list(SeesRate.rates), "returned": rate}
    for name, make in (("function", with_a_function), ("several", several)) if keras_2 is not keras else ():
        run(name, samples.network(), make(keras), epochs=2, data_module=samples.UnevenModule)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.5)
    fp16: Any = {"gradient_compression": hvd.Compression.fp16, "data_module": samples.UnevenModule}
    run("compressed", samples.network(), optimizer, epochs=2, **fp16)
    first: Any = {"train_steps_per_epoch": 2, "data_module": samples.UnevenModule, "feature_cols": ["kind"]}
    run("embedding", embedding(), keras.optimizers.SGD(0.05), epochs=2, **first)
    still = keras.optimizers.SGD(0.0)
    run("still", samples.network(), still, "mse", ["mae"], data_module=samples.UnevenModule)
    run(
        "normal", normalised_network(), keras.optimizers.SGD(0.05), data_module=samples.EmptyRankModule,
        callbacks=[SeesRate()],
    )  # fmt: skip
    own = hvd.allgather_object([SeesRate.weights[0], *SeesRate.weights[1:]])
    results["normalised"] = (results.pop("normal", [None])[0], own[1][2:4])
    run("stops", samples.network(), "sgd", epochs=5, data_module=samples.UnevenModule, callbacks=[StopsOnRank1()])
    results["stopped"] = hvd.allgather_object(StopsOnRank1.epochs)
    # The last one: its result has new layers on rank 0, after which the names of layers differ between ranks.
    keras.utils.set_random_seed(hvd.rank())
    run("own", samples.Net(), "sgd", data_module=samples.UnevenModule, callbacks=[SeesRate()])
    results["built"] = hvd.allgather_object(SeesRate.weights)
    return results
