"""The estimator for PyTorch: from a DataFrame to a trained model and its predictions."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from typing import Any, List

import estimator_samples as samples
import numpy
import pytest
import torch
from farandole.spark.common.backend import LocalBackend
from farandole.spark.common.store import Store
from farandole.spark.torch import TorchModel
from farandole.spark.torch.minibatch import OptimizerOfPasses


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    spark.sparkContext.addPyFile(samples.__file__)  # executors need the classes of the models
    return samples.frame_of(spark).persist()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Store.create(str(tmp_path_factory.mktemp("store")))


def read_checkpoint(store: Any, run_id: str) -> Any:
    return torch.load(io.BytesIO(store.read(store.get_checkpoint_path(run_id))), weights_only=True)


def predicted(model: torch.nn.Module, rows: List[Any]) -> Any:
    inputs = torch.tensor(numpy.array([row["features"].toArray() for row in rows])).float()
    return model(inputs).detach().numpy()


@pytest.fixture(scope="module")
def fitted(frame: Any, store: Any) -> Any:
    """An estimator, its state before the fit, and the model of a fit in two Spark tasks."""
    estimator = samples.binary(
        store,
        backend=None,
        num_proc=2,
        epochs=2,
        validation=0.3,
        run_id="two_tasks",
        metrics=[samples.absolute_error],
    )
    before = {
        "weights": {name: value.clone() for name, value in estimator.getModel().state_dict().items()},
        "optimizer": json.dumps(estimator.getOptimizer().state_dict()),
    }
    return estimator, before, estimator.fit(frame)


class TestTraining:
    def test_the_history_has_losses_and_metrics_of_each_epoch(self, fitted: Any) -> None:
        history = fitted[2].getHistory()
        assert [each["epoch"] for each in history] == [0, 1]
        assert all(set(each["train"]) == set(each["validation"]) == {"loss", "absolute_error"} for each in history)
        assert history[1]["train"]["loss"] < history[0]["train"]["loss"]

    def test_the_model_and_the_optimizer_of_the_estimator_stay_unchanged(self, fitted: Any) -> None:
        estimator, before, model = fitted
        own = estimator.getModel()
        assert all(torch.equal(value, before["weights"][name]) for name, value in own.state_dict().items())
        assert json.dumps(estimator.getOptimizer().state_dict()) == before["optimizer"]
        assert own.training and model.getModel() is not own
        assert not torch.equal(model.getModel()[0].weight, own[0].weight)

    def test_the_returned_model_is_in_evaluation_mode_with_its_optimizer(self, fitted: Any) -> None:
        model = fitted[2]
        assert not model.getModel().training
        assert model.getOptimizer().param_groups[0]["lr"] == pytest.approx(0.1)
        assert model.getOptimizer().param_groups[0]["params"][0] is model.getModel()[0].weight
        assert "momentum_buffer" in model.getOptimizer().state[model.getModel()[0].weight]

    def test_the_run_is_in_the_store(self, fitted: Any, store: Any) -> None:
        checkpoint = read_checkpoint(store, "two_tasks")
        assert (checkpoint["epoch"], checkpoint["epochs"]) == (2, 2)
        assert checkpoint["optimizer"]["param_groups"][0]["lr"] == pytest.approx(0.1)  # that of one process
        assert checkpoint["history"] == fitted[2].getHistory()
        assert torch.equal(checkpoint["model"]["0.weight"], fitted[2].getModel()[0].weight)
        logs = list(Path(store.get_localized_path(store.get_logs_path("two_tasks"))).iterdir())
        assert [each.name.startswith("events.out.tfevents") for each in logs] == [True]
        assert fitted[2].getRunId() == "two_tasks"

    def test_predictions_are_added_row_for_row(self, fitted: Any, frame: Any) -> None:
        transformed = fitted[2].transform(frame)
        assert transformed.columns == [*frame.columns, "y__output"]
        assert transformed.schema["y__output"].dataType.typeName() == "double"
        rows, sources = transformed.collect(), frame.collect()
        assert [row["id"] for row in rows] == [row["id"] for row in sources]
        assert [row["features"] for row in rows] == [row["features"] for row in sources]
        expected = predicted(fitted[2].getModel(), sources).reshape(-1)
        assert numpy.array([row["y__output"] for row in rows]) == pytest.approx(expected, abs=1e-6)

    def test_output_columns_have_the_given_names(self, fitted: Any, frame: Any) -> None:
        model = fitted[2].copy().setOutputCols(["probability"])
        assert model.transform(frame).columns == [*frame.columns, "probability"]
        with pytest.raises(ValueError, match=r"outputCols=\['a', 'b'\] does not fit the labels \['y'\]"):
            model.setOutputCols(["a", "b"]).transform(frame)

    def test_a_missing_feature_column_is_named(self, fitted: Any, frame: Any) -> None:
        with pytest.raises(ValueError, match="feature columns are missing in the DataFrame: features; it has"):
            fitted[2].transform(frame.select("id", "x"))


class TestResuming:
    @pytest.mark.slow
    def test_a_complete_run_is_trained_further(
        self, frame: Any, store: Any, capsys: pytest.CaptureFixture[str]
    ) -> None:
        first = samples.binary(store, run_id="further", epochs=2).fit(frame)
        assert capsys.readouterr().out == ""
        second = samples.binary(store, run_id="further", epochs=1, verbose=1).fit(frame)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"preparing the rows of the DataFrame in {store.get_train_data_path()}"
        assert re.fullmatch(r"run further: starting 1 processes to train on \d+ rows", lines[1])
        assert [each["epoch"] for each in second.getHistory()] == [0, 1, 2]
        assert second.getHistory()[:2] == first.getHistory()
        assert read_checkpoint(store, "further")["epoch"] == 3
        assert second.getOptimizer().param_groups[0]["lr"] == pytest.approx(0.1)

    @pytest.mark.slow
    def test_an_interrupted_run_is_completed_as_if_it_had_not_been(self, frame: Any, store: Any) -> None:
        def interrupt(epoch: int, record: Any) -> None:
            if epoch == 1:
                raise RuntimeError("interrupted")

        no_dropout = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid())
        model = {"model": no_dropout, "optimizer": torch.optim.Adam(no_dropout.parameters(), lr=0.05), "shuffle": False}
        with pytest.raises(RuntimeError, match="interrupted"):
            samples.binary(store, run_id="interrupted", epochs=3, callbacks=[interrupt], **model).fit(frame)
        assert read_checkpoint(store, "interrupted")["epoch"] == 2
        resumed = samples.binary(store, run_id="interrupted", epochs=3, **model).fit(frame)
        whole = samples.binary(store, run_id="whole", epochs=3, **model).fit(frame)
        assert [each["epoch"] for each in resumed.getHistory()] == [0, 1, 2]
        torch.testing.assert_close(resumed.getModel()[0].weight, whole.getModel()[0].weight)

    @pytest.mark.slow
    def test_a_run_of_another_model_is_not_resumed(self, frame: Any, store: Any) -> None:
        samples.binary(store, run_id="other").fit(frame)
        wider = torch.nn.Sequential(
            torch.nn.Linear(2, 5), torch.nn.Dropout(), torch.nn.Linear(5, 1), torch.nn.Sigmoid()
        )
        with pytest.raises(
            ValueError, match=r"the run 'other' cannot be resumed.*0.weight has shape \(4, 2\), and \(5, 2\)"
        ):
            samples.binary(store, run_id="other", model=wider, optimizer=torch.optim.SGD(wider.parameters())).fit(frame)

    @pytest.mark.slow
    def test_a_torn_checkpoint_is_not_taken_for_a_complete_one(self, frame: Any, store: Any) -> None:
        samples.binary(store, run_id="torn").fit(frame)
        path = Path(store.get_localized_path(store.get_checkpoint_path("torn")))
        path.write_bytes(path.read_bytes()[:-100])
        with pytest.raises(ValueError, match="runs/torn/checkpoint of the run 'torn' cannot be used.*delete it"):
            samples.binary(store, run_id="torn").fit(frame)


class TestModels:
    @pytest.mark.slow
    def test_several_inputs_outputs_and_classes(self, frame: Any, store: Any) -> None:
        model = samples.TwoInputs()
        estimator = samples.binary(
            store,
            model=model,
            optimizer=torch.optim.Adam(model.parameters(), lr=0.01),
            loss=[torch.nn.MSELoss(), torch.nn.CrossEntropyLoss()],
            loss_weights=[0.2, 0.8],
            feature_cols=["features", "x"],
            label_cols=["y", "kind"],
            input_shapes=[[-1, 2], [-1, 1]],
            sample_weight_col="weight",
            metrics=[[samples.absolute_error], []],
        )
        trained = estimator.fit(frame)
        assert set(trained.getHistory()[0]["train"]) == {"loss", "y_absolute_error"}
        transformed = trained.transform(frame)
        assert transformed.columns[-2:] == ["y__output", "kind__output"]
        row = transformed.first()
        inputs = torch.tensor(row["features"].toArray()).float().reshape(1, 2), torch.tensor([[row["x"]]])
        value, classes = trained.getModel()(*inputs)
        assert row["y__output"] == pytest.approx(value.item(), abs=1e-6)
        assert row["kind__output"].toArray() == pytest.approx(classes[0].detach().numpy(), abs=1e-6)

    @pytest.mark.slow
    def test_a_prediction_for_an_integer_label_is_an_integer(self, frame: Any) -> None:
        model = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(model.weight, 0.0)
        torch.nn.init.constant_(model.bias, 1.7)
        transformer = TorchModel(model=model, feature_columns=["x"], label_columns=["kind"], input_shapes=[[-1, 1]])
        assert transformer.transform(frame).schema["kind__output"].dataType.typeName() == "long"
        assert transformer.transform(frame).first()["kind__output"] == 2

    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning", "ignore:.torch.jit:DeprecationWarning")
    def test_a_torchscript_module(self, frame: Any, store: Any) -> None:
        model = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Sigmoid()))
        before = model.state_dict()["0.weight"].clone()
        trained = samples.binary(store, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)).fit(frame)
        assert isinstance(trained.getModel(), torch.jit.ScriptModule)
        assert torch.equal(model.state_dict()["0.weight"], before)
        expected = predicted(trained.getModel(), frame.collect()).reshape(-1)
        found = [row["y__output"] for row in trained.transform(frame).collect()]
        assert numpy.array(found) == pytest.approx(expected, abs=1e-6)

    @pytest.mark.slow
    def test_a_process_loads_the_model_once_for_all_its_partitions(
        self, spark: Any, frame: Any, tmp_path: Path
    ) -> None:
        path = tmp_path / "loads"
        path.touch()
        model = TorchModel(
            model=samples.CountsLoads(str(path)), feature_columns=["x"], label_columns=["y"], input_shapes=[[-1, 1]]
        )
        many = samples.frame_of(spark, 400, 40)
        assert model.transform(many).filter("y__output is not null").count() == 400
        processes = [line for line in path.read_text().split() if line != str(os.getpid())]
        assert 1 <= len(processes) == len(set(processes)) < 40


class TestParquet:
    @pytest.mark.slow
    def test_data_of_another_program_are_trained_on(self, frame: Any, tmp_path: Path) -> None:
        import pandas

        values = numpy.random.default_rng(2).normal(size=40)
        rows = pandas.DataFrame({"x": values, "y": 3 * values})
        for name, part in {"train": rows[:30], "val": rows[30:]}.items():
            (tmp_path / name).mkdir()
            part.to_parquet(tmp_path / name / "rows.parquet")
        store = Store.create(str(tmp_path / "runs"), train_path=str(tmp_path / "train"), val_path=str(tmp_path / "val"))
        model = torch.nn.Linear(1, 1)
        estimator = samples.binary(
            store,
            backend=LocalBackend(2, env={"OMP_NUM_THREADS": "1"}),
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.2),
            loss=torch.nn.MSELoss(),
            feature_cols=["x"],
            input_shapes=[[-1, 1]],
        )
        trained = estimator.fit_on_parquet({estimator.epochs: 12})
        assert len(trained.getHistory()) == 12 and estimator.getEpochs() == 1
        assert trained.getModel().weight.item() == pytest.approx(3.0, abs=0.05)
        assert trained.getHistory()[-1]["validation"]["loss"] < 0.01


def test_a_step_in_an_early_pass_calls_the_closure_only() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = OptimizerOfPasses(torch.optim.SGD([weight], lr=1.0))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (weight - 2).sum()
        loss.backward()
        return loss

    optimizer.ends_step = False
    assert optimizer.step(closure) == -2.0
    assert (weight.item(), weight.grad.item()) == (0.0, 1.0)  # type: ignore[union-attr]
    optimizer.starts_step, optimizer.ends_step = False, True
    assert optimizer.step(closure) == -2.0
    assert weight.item() == -2.0


def test_a_scaler_of_gradients_is_refused_with_several_passes() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = OptimizerOfPasses(torch.optim.SGD([weight], lr=1.0))
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    scale = weight.grad.item()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="train in bfloat16 without a scaler"):
        scaler.step(optimizer)
    assert weight.grad.item() == scale > 1.0  # type: ignore[union-attr]
