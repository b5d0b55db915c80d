"""Estimators and models are saved and loaded, by themselves and inside Spark's pipelines and validators."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator

import estimator_samples as samples
import numpy
import pytest
import torch
from farandole.spark.common.serialization import UnpicklingWarning
from farandole.spark.common.store import Store
from farandole.spark.torch import TorchEstimator, TorchModel
from farandole.spark.torch.estimator import TorchEstimatorParamsReadable, TorchEstimatorParamsWritable
from pyspark.ml.param import Param, Params


class OwnStage(Params, TorchEstimatorParamsWritable, TorchEstimatorParamsReadable):
    """A class of a user, which is derived from no class of estimators or models."""

    model = Param(Params._dummy(), "model", "a model of PyTorch")


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    spark.sparkContext.addPyFile(samples.__file__)  # executors need the classes of the models
    return samples.frame_of(spark).persist()


@pytest.fixture
def no_pickles() -> Iterator[None]:
    """Fails if a pickle is loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnpicklingWarning)
        yield


def linear(store: Any, **params: Any) -> TorchEstimator:
    torch.manual_seed(4)
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    defaults: Dict[str, Any] = {
        "backend": samples.InProcess(), "model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=0.05),
        "loss": torch.nn.MSELoss(), "store": store, "feature_cols": ["x"], "label_cols": ["y"],
        "input_shapes": [[-1, 1]], "batch_size": 16, "verbose": 0, "partitions_per_process": 1,
    }  # fmt: skip
    return TorchEstimator(**{**defaults, **params})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Store.create(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def model(frame: Any, store: Any) -> TorchModel:
    return linear(store).fit(frame)


def outputs(model: Any, frame: Any) -> Any:
    return numpy.array([row["y__output"] for row in model.transform(frame).collect()])


@pytest.mark.slow
def test_a_model_of_layers_of_pytorch_is_loaded_without_pickles(
    model: TorchModel, frame: Any, tmp_path: Path, no_pickles: None
) -> None:
    model.write().save(str(tmp_path / "model"))
    loaded = TorchModel.load(str(tmp_path / "model"))
    assert loaded.uid == model.uid
    assert loaded.getHistory() == model.getHistory() and loaded._get_metadata() == model._get_metadata()
    assert not loaded.getModel().training
    assert loaded.getOptimizer().param_groups[0]["params"][0] is loaded.getModel()[0].weight
    assert type(loaded.getLoss()) is torch.nn.MSELoss
    assert outputs(loaded, frame) == pytest.approx(outputs(model, frame))


@pytest.mark.slow
def test_a_class_of_the_user_is_saved_in_the_formats_of_pytorch(spark: Any, tmp_path: Path, no_pickles: None) -> None:
    saved = OwnStage()
    saved._set(model=torch.nn.Sequential(torch.nn.Linear(3, 2)))
    saved.write().save(str(tmp_path / "stage"))
    loaded = OwnStage.load(str(tmp_path / "stage"))
    weights = [each.getOrDefault("model")[0].weight for each in (saved, loaded)]
    assert torch.equal(*weights) and loaded.uid == saved.uid


@pytest.mark.slow
def test_an_estimator_is_loaded_and_trains(frame: Any, store: Any, tmp_path: Path) -> None:
    estimator = linear(store, epochs=2, metrics=[samples.absolute_error])
    path = str(tmp_path / "estimator")
    estimator.write().overwrite().save(path)
    with pytest.warns(UnpicklingWarning, match=r"estimator holds pickled values \(backend, metrics, store\): loading"):
        loaded = TorchEstimator.load(path)
    assert (loaded.uid, loaded.getEpochs(), loaded.getInputShapes()) == (estimator.uid, 2, [[-1, 1]])
    parameters = list(loaded.getModel().parameters())
    assert [each for group in loaded.getOptimizer().param_groups for each in group["params"]] == parameters
    assert len(loaded.fit(frame).getHistory()) == 2
    assert TorchEstimator(num_proc=2, epochs=5).getEpochs() == 5  # the defaults of the class are as they were


def test_a_saved_object_of_another_class_is_refused(model: TorchModel, tmp_path: Path) -> None:
    model.write().save(str(tmp_path / "model"))
    with pytest.raises(ValueError, match="holds a farandole.spark.torch.estimator.TorchModel, not a"):
        TorchEstimator.load(str(tmp_path / "model"))


@pytest.mark.slow
def test_a_model_of_a_class_of_the_user_is_pickled(spark: Any, frame: Any, tmp_path: Path) -> None:
    saved = TorchModel(
        model=samples.TwoInputs(),
        feature_columns=["features", "x"],
        label_columns=["y", "kind"],
        input_shapes=[[-1, 2], [-1, 1]],
    )
    saved.write().save(str(tmp_path / "model"))
    with pytest.warns(UnpicklingWarning, match=r"pickled values \(model\)"):
        loaded = TorchModel.load(str(tmp_path / "model"))
    assert outputs(loaded, frame) == pytest.approx(outputs(saved, frame))


def test_a_value_that_cannot_be_saved_is_named(store: Any, tmp_path: Path) -> None:
    lock = threading.Lock()
    estimator = linear(store, callbacks=[lambda epoch, record: lock.locked()])
    with pytest.raises(pickle.PicklingError, match=r"callbacks\[0\]: its variable lock .*cannot be pickled"):
        estimator.write().save(str(tmp_path / "estimator"))
    assert not (tmp_path / "estimator").exists()


@pytest.mark.slow
def test_a_pipeline_with_an_estimator(spark: Any, frame: Any, store: Any, tmp_path: Path) -> None:
    from pyspark.ml import Pipeline, PipelineModel
    from pyspark.ml.feature import VectorAssembler

    net = torch.nn.Sequential(torch.nn.Linear(2, 1))
    stages = [
        VectorAssembler(inputCols=["x", "weight"], outputCol="both"),
        linear(
            store, model=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.01), feature_cols=["both"],
            input_shapes=[[-1, 2]],
        ),
    ]  # fmt: skip
    pipeline = Pipeline(stages=stages)
    pipeline.write().save(str(tmp_path / "pipeline"))
    with pytest.warns(UnpicklingWarning):
        fitted = Pipeline.load(str(tmp_path / "pipeline")).fit(frame)
    fitted.write().save(str(tmp_path / "model"))
    loaded = PipelineModel.load(str(tmp_path / "model"))
    assert outputs(loaded, frame) == pytest.approx(outputs(fitted, frame))


@pytest.mark.slow
def test_a_cross_validator_chooses_among_parameters(frame: Any, store: Any, tmp_path: Path) -> None:
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.tuning import CrossValidator, CrossValidatorModel, ParamGridBuilder

    estimator = linear(store)
    validator = CrossValidator(
        estimator=estimator,
        estimatorParamMaps=ParamGridBuilder().addGrid(estimator.epochs, [1, 30]).build(),
        evaluator=RegressionEvaluator(predictionCol="y__output", labelCol="y"),
        numFolds=2,
        seed=1,
    )
    fitted = validator.fit(frame)
    assert len(fitted.bestModel.getHistory()) == 30
    assert fitted.avgMetrics[1] < fitted.avgMetrics[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnpicklingWarning)
        fitted.write().save(str(tmp_path / "validated"))
        loaded = CrossValidatorModel.load(str(tmp_path / "validated"))
    assert outputs(loaded, frame) == pytest.approx(outputs(fitted, frame))
    assert loaded.avgMetrics == fitted.avgMetrics


def test_a_checkpoint_is_read_by_pytorch_alone(model: TorchModel, store: Any) -> None:
    path = store.get_localized_path(store.get_checkpoint_path(model.getRunId()))
    code = (
        "import sys, torch\n"
        f"state = torch.load({path!r}, weights_only=True)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(1, 1))\n"
        "net.load_state_dict(state['model'])\n"
        "assert not [each for each in sys.modules if each.startswith(('farandole', 'horovod', 'pyspark'))]\n"
        "print(net(torch.ones(1, 1)).item())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert float(done.stdout) == pytest.approx(model.getModel()(torch.ones(1, 1)).item())
