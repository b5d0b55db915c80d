"""The estimator for Keras: from a DataFrame to a trained model, its predictions, and its persistence."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List

import keras
import keras_samples as samples
import numpy
import pytest
from farandole.spark.common.serialization import UnpicklingWarning
from farandole.spark.common.store import Store
from farandole.spark.keras import KerasEstimator, KerasModel
from farandole.spark.keras.estimator import KerasEstimatorParamsReadable, KerasEstimatorParamsWritable
from keras_samples import keras_2
from pyspark.ml.param import Param, Params


class OwnStage(Params, KerasEstimatorParamsWritable, KerasEstimatorParamsReadable):
    """A class of a user, which is derived from no class of estimators or models."""

    model: Any = Param(Params._dummy(), "model", "a model of Keras")


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    spark.sparkContext.addPyFile(samples.__file__)  # executors need the classes of the models
    return samples.frame_of(spark).persist()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Store.create(str(tmp_path_factory.mktemp("store")))


def predicted(model: Any, rows: List[Any]) -> Any:
    return numpy.asarray(model(numpy.array([row["features"].toArray() for row in rows], "float32"))).reshape(-1)


def outputs(model: Any, frame: Any) -> Any:
    return numpy.array([row["y__output"] for row in model.transform(frame).collect()])


@pytest.fixture(scope="module")
def fitted(frame: Any, store: Any) -> Any:
    """An estimator, its weights before the fit, and the model of a fit in two Spark tasks."""
    estimator = samples.binary(
        store, backend=None, num_proc=2, epochs=2, validation=0.3, run_id="two_tasks",
        metrics=[keras.metrics.BinaryAccuracy(name="accuracy")], optimizer=keras.optimizers.Adam(0.02),
    )  # fmt: skip
    before = estimator.getModel().get_weights()
    return estimator, before, estimator.fit(frame)


class TestTraining:
    def test_the_history_has_the_values_of_each_epoch(self, fitted: Any) -> None:
        history = fitted[2].getHistory()
        assert set(history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
        assert all(len(values) == 2 for values in history.values())
        assert history["loss"][1] < history["loss"][0]

    def test_the_model_and_the_optimizer_of_the_estimator_stay_unchanged(self, fitted: Any) -> None:
        estimator, before, model = fitted
        for one, other in zip(estimator.getModel().get_weights(), before):
            assert (one == other).all()
        optimizer = estimator.getOptimizer()
        assert float(numpy.asarray(optimizer.learning_rate)) == pytest.approx(0.02) and not optimizer.built
        assert model.getModel() is not estimator.getModel()

    def test_the_returned_model_is_compiled_with_the_rate_of_a_single_process(self, fitted: Any) -> None:
        model = fitted[2].getModel()
        assert float(numpy.asarray(model.optimizer.learning_rate)) == pytest.approx(0.02)
        assert int(numpy.asarray(model.optimizer.iterations)) > 0
        assert set(model.evaluate(numpy.zeros((2, 2)), numpy.zeros((2, 1)), verbose=0, return_dict=True)) == {
            "loss",
            "accuracy",
        }

    def test_the_checkpoint_of_the_run_is_in_the_store(self, fitted: Any, store: Any) -> None:
        path = store.get_localized_path(store.get_checkpoint_path("two_tasks"))
        with numpy.load(path, allow_pickle=False) as arrays:
            for index, weight in enumerate(fitted[2].getModel().get_weights()):
                assert (arrays[f"weight.{index}"] == weight).all()

    def test_predictions_are_added_row_for_row(self, fitted: Any, frame: Any) -> None:
        transformed = fitted[2].transform(frame)
        assert transformed.columns == [*frame.columns, "y__output"]
        assert transformed.schema["y__output"].dataType.typeName() == "double"
        rows, sources = transformed.collect(), frame.collect()
        assert [row["id"] for row in rows] == [row["id"] for row in sources]
        expected = predicted(fitted[2].getModel(), sources)
        assert numpy.array([row["y__output"] for row in rows]) == pytest.approx(expected, abs=1e-6)

    def test_the_processes_get_the_environment(self, frame: Any, store: Any) -> None:
        backend = samples.InProcess()
        samples.binary(store, backend=backend, backend_env={"COLOUR": "blue"}).fit(frame)
        assert backend.variables == {
            "KERAS_BACKEND": "tensorflow",
            "COLOUR": "blue",
            **{name: value for name, value in os.environ.items() if name == "TF_USE_LEGACY_KERAS"},
        }


class TestModels:
    def test_several_inputs_outputs_and_classes(self, frame: Any, store: Any) -> None:
        inputs = [keras.Input((2,), name="features"), keras.Input((1,), name="x")]
        hidden = keras.layers.Dense(4, activation="tanh")(keras.layers.Concatenate()(inputs))
        value = keras.layers.Dense(1, name="value")(hidden)
        model = keras.Model(inputs, [value, keras.layers.Dense(3, "softmax", name="classes")(hidden)])
        estimator = samples.binary(
            store, model=model, loss=["mse", "sparse_categorical_crossentropy"], loss_weights=[0.2, 0.8],
            feature_cols=["features", "x"], label_cols=["y", "kind"], sample_weight_col="weight",
            metrics=[["mae"], []],
        )  # fmt: skip
        assert estimator.get_model_shapes() == ([(None, 2), (None, 1)], [(None, 1), (None, 3)])
        trained = estimator.fit(frame)
        assert {"loss", "value_mae"} <= set(trained.getHistory())
        row = trained.transform(frame).first()
        given = [row["features"].toArray().reshape(1, 2).astype("float32"), numpy.array([[row["x"]]], "float32")]
        one, classes = trained.getModel()(given)
        assert row["y__output"] == pytest.approx(float(one[0, 0]), abs=1e-6)
        assert row["kind__output"].toArray() == pytest.approx(classes.numpy()[0], abs=1e-6)

    def test_a_model_of_a_class_of_the_user(self, frame: Any, store: Any, tmp_path: Path) -> None:
        trained = samples.binary(store, model=samples.Net(), loss="mse").fit(frame)
        expected = predicted(trained.getModel(), frame.collect())
        assert outputs(trained, frame) == pytest.approx(expected, abs=1e-6)
        trained.write().save(str(tmp_path / "model"))
        with pytest.warns(UnpicklingWarning, match=r"pickled values \(model\)"):
            loaded = KerasModel.load(str(tmp_path / "model"))
        assert type(loaded.getModel()) is samples.Net
        assert predicted(loaded.getModel(), frame.collect()) == pytest.approx(expected, abs=1e-6)

    def test_a_model_of_tf_keras(self, frame: Any, store: Any, tmp_path: Path) -> None:
        layers = [keras_2.layers.InputLayer((2,)), keras_2.layers.Dense(1, "sigmoid")]
        backend = samples.InProcess()
        model, rate = keras_2.Sequential(layers), keras_2.optimizers.legacy.SGD(0.2)
        trained = samples.binary(store, model=model, optimizer=rate, backend=backend, epochs=2).fit(frame)
        assert backend.variables is not None
        assert backend.variables.get("TF_USE_LEGACY_KERAS") == ("1" if keras_2.__name__ == "tf_keras" else None)
        trained.write().save(str(tmp_path / "model"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnpicklingWarning)
            loaded = KerasModel.load(str(tmp_path / "model"))
        assert isinstance(loaded.getModel(), keras_2.Model)
        expected = predicted(trained.getModel(), frame.collect())
        assert predicted(loaded.getModel(), frame.collect()) == pytest.approx(expected, abs=1e-6)

    def test_a_compiled_model_brings_its_optimizer_and_loss(self, frame: Any, store: Any) -> None:
        model = samples.binary_network()
        model.compile(keras.optimizers.Adam(0.03), "mse")
        trained = samples.binary(store, model=model, optimizer=None, loss=None).fit(frame)
        assert float(numpy.asarray(trained.getModel().optimizer.learning_rate)) == pytest.approx(0.03)


class TestResuming:
    def test_a_complete_run_is_trained_further(self, frame: Any, store: Any) -> None:
        first = samples.binary(store, run_id="further", epochs=2).fit(frame)
        second = samples.binary(store, run_id="further", epochs=1).fit(frame)
        assert len(second.getHistory()["loss"]) == 3
        assert second.getHistory()["loss"][:2] == first.getHistory()["loss"]

    @pytest.mark.parametrize(
        "params, message",
        [
            ({"model": samples.binary_network(5)}, r"dense.*/kernel has shape \(2, 4\), and .* has shape \(2, 5\)"),
            ({"model": samples.Net(5), "loss": "mse"}, r"has shape \(2, 4\), and .* has shape \(2, 5\)"),
            ({"optimizer": "adam"}, "with this optimizer, a Adam: in its checkpoint .*/other/checkpoint, it is a SGD"),
            ({"optimizer": keras.optimizers.SGD(0.1)}, "with this optimizer, a SGD: it has 2 variables, and 6"),
        ],
    )
    def test_a_run_of_another_model_or_optimizer_is_not_resumed(
        self, frame: Any, store: Any, params: Dict[str, Any], message: str
    ) -> None:
        if not store.exists(store.get_checkpoint_path("other")):
            samples.binary(store, run_id="other").fit(frame)
        with pytest.raises(ValueError, match=f"the run 'other' cannot be resumed.*{message}"):
            samples.binary(store, **{"run_id": "other", **params}).fit(frame)

    def test_a_torn_checkpoint_is_not_taken_for_a_complete_one(self, frame: Any, store: Any) -> None:
        samples.binary(store, run_id="torn").fit(frame)
        path = Path(store.get_localized_path(store.get_checkpoint_path("torn")))
        path.write_bytes(path.read_bytes()[:-100])
        backend = samples.InProcess()
        with pytest.raises(ValueError, match="runs/torn/checkpoint of the run 'torn' cannot be used.*delete it"):
            samples.binary(store, run_id="torn", backend=backend).fit(frame)
        assert backend.calls == 0


class TestPersistence:
    @pytest.fixture
    def no_pickles(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnpicklingWarning)
            yield

    def test_a_class_of_the_user_is_saved_in_the_formats_of_keras(
        self, fitted: Any, tmp_path: Path, no_pickles: None
    ) -> None:
        saved = OwnStage()
        saved._set(model=fitted[2].getModel())
        saved.write().save(str(tmp_path / "stage"))
        weights = [each.getOrDefault("model").get_weights() for each in (saved, OwnStage.load(str(tmp_path / "stage")))]
        assert len(weights[0]) > 0 and all(numpy.array_equal(*pair) for pair in zip(*weights))

    def test_a_model_of_layers_of_keras_is_loaded_without_pickles(
        self, fitted: Any, frame: Any, tmp_path: Path, no_pickles: None
    ) -> None:
        model = fitted[2]
        model.write().save(str(tmp_path / "model"))
        loaded = KerasModel.load(str(tmp_path / "model"))
        assert loaded.uid == model.uid
        assert loaded.getHistory() == model.getHistory() and loaded._get_metadata() == model._get_metadata()
        assert outputs(loaded, frame) == pytest.approx(outputs(model, frame))

    def test_a_pipeline_with_an_estimator(self, frame: Any, store: Any, tmp_path: Path) -> None:
        from pyspark.ml import Pipeline, PipelineModel
        from pyspark.ml.feature import VectorAssembler

        losses: Dict[str, Any] = {"loss": keras.losses.BinaryCrossentropy(), "metrics": [keras.metrics.AUC()]}
        stages = [
            VectorAssembler(inputCols=["x", "weight"], outputCol="both"),
            samples.binary(store, feature_cols=["both"], **losses),
        ]
        Pipeline(stages=stages).write().save(str(tmp_path / "pipeline"))
        with pytest.warns(UnpicklingWarning, match=r"pickled values \(backend, store\)"):
            fitted = Pipeline.load(str(tmp_path / "pipeline")).fit(frame)
        fitted.write().save(str(tmp_path / "model"))
        loaded = PipelineModel.load(str(tmp_path / "model"))
        assert isinstance(loaded.stages[1], KerasModel) and "auc" in loaded.stages[1].getHistory()
        assert outputs(loaded, frame) == pytest.approx(outputs(fitted, frame))

    def test_an_estimator_is_loaded_with_its_parameters(self, store: Any, tmp_path: Path) -> None:
        estimator = samples.binary(store, epochs=7, label_shapes=[[-1, 1]])
        estimator.write().overwrite().save(str(tmp_path / "estimator"))
        with pytest.warns(UnpicklingWarning):
            loaded = KerasEstimator.load(str(tmp_path / "estimator"))
        assert (loaded.uid, loaded.getEpochs(), loaded.getLabelShapes()) == (estimator.uid, 7, [[-1, 1]])
        assert loaded.getOptimizer().get_config() == estimator.getOptimizer().get_config()

    def test_a_model_is_used_in_a_process_without_farandole(self, fitted: Any, tmp_path: Path) -> None:
        model = fitted[2].getModel()
        model.save(tmp_path / "model.keras")
        code = (
            "import sys, numpy, keras\n"
            f"model = keras.models.load_model({str(tmp_path / 'model.keras')!r})\n"
            "assert not [name for name in sys.modules if name.startswith(('farandole', 'horovod', 'pyspark'))]\n"
            "print(float(model(numpy.ones((1, 2)))[0, 0]))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
        assert float(done.stdout) == pytest.approx(float(model(numpy.ones((1, 2)))[0, 0]))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"model": object()}, "it is a builtins.object, and must be a tf.keras.Model"),
        ({"model": keras.layers.Dense(1)}, "it is a keras.* and must be a tf.keras.Model"),
        ({"model": None}, "the estimator has no model: set the parameter model"),
        ({"optimizer": None}, "the estimator has no optimizer: set the parameter optimizer, or compile the model"),
        ({"optimizer": keras_2.optimizers.SGD()}, "the optimizer is a tf_keras.* and the model is one of keras"),
        ({"loss": None}, "the estimator has no loss: set the parameter loss, or compile the model"),
        ({"loss": ["mse", "mse"]}, "loss has 2 elements for the 1 label columns y"),
        ({"checkpoint_callback": "best"}, "checkpoint_callback='best': it must be a BestModelCheckpoint or"),
        ({"callbacks": [print]}, "callbacks contains <built-in function print>: it must be a Callback of keras"),
        ({"num_proc": 2}, "num_proc=2 and backend=InProcess exclude each other"),
        ({"feature_cols": ["features", "z"]}, "feature column z does not exist; the DataFrame has id"),
        ({"label_cols": ["z"]}, "label column z does not exist; the DataFrame has id"),
        ({"feature_cols": ["x"]}, r"feature column x has 1 elements in a row, and .* input_shapes is \(None, 2\)"),
        ({"label_cols": ["features"]}, r"label column features has 2 elements .* output_shapes is \(None, 1\)"),
        ({"label_cols": ["y", "kind"]}, "output_shapes has 1 shapes, .* and there are 2 label columns"),
        ({"run_id": "../other"}, "run_id is the name of a folder"),
    ],
)  # fmt: skip
def test_a_mistake_is_found_before_training(frame: Any, store: Any, params: Dict[str, Any], message: str) -> None:
    backend = samples.InProcess()
    with pytest.raises(ValueError, match=message):
        samples.binary(store, **{"backend": backend, **params}).fit(frame)
    assert backend.calls == 0


def test_a_process_loads_the_model_once_for_all_its_partitions(spark: Any, frame: Any, tmp_path: Path) -> None:
    path = tmp_path / "loads"
    path.touch()
    model = samples.CountsLoads(str(path))
    model(numpy.zeros((1, 1), "float32"))
    path.write_text("")
    many = samples.frame_of(spark, 400, 40)
    transformer = KerasModel(model=model, feature_columns=["x"], label_columns=["y"])
    assert transformer.transform(many).filter("y__output is not null").count() == 400
    processes = [line for line in path.read_text().split() if line != str(os.getpid())]
    assert 1 <= len(processes) == len(set(processes)) < 40
