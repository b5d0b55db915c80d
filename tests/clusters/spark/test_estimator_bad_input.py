"""Mistakes in the parameters of estimators, their data and their stores are found before training."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Dict

import estimator_samples as samples
import pyarrow.parquet
import pytest
import torch
from farandole.spark.common.backend import LocalBackend, SparkBackend
from farandole.spark.common.store import Store, StoreError


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    return samples.frame_of(spark).persist()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Store.create(str(tmp_path_factory.mktemp("store")))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"num_proc": 2}, "num_proc=2 and backend=InProcess exclude each other"),
        ({"model": None}, "the estimator has no model: set the parameter model"),
        ({"optimizer": None}, "the estimator has no optimizer"),
        ({"loss": None}, "the estimator has no loss: set the parameter loss or loss_constructors"),
        ({"loss_constructors": [torch.nn.BCELoss]}, "loss and loss_constructors exclude each other"),
        ({"loss": [torch.nn.BCELoss()] * 2}, "loss has 2 elements for the 1 label columns y"),
        ({"loss": "mse"}, "loss='mse': it is a function of output and label"),
        ({"loss_weights": [1.0, 2.0]}, r"loss_weights=\[1.0, 2.0\] does not fit label_cols=\['y'\]"),
        ({"store": None}, "the estimator has no store: set the parameter store"),
        ({"feature_cols": []}, r"feature_cols=\[\]: it is a list with the names of at least one column"),
        ({"label_cols": "y"}, "label_cols='y': it is a list"),
        ({"feature_cols": ["features", "z"], "input_shapes": None}, "feature column z does not exist; the Data"),
        ({"label_cols": ["z"]}, "label column z does not exist; the DataFrame has id"),
        ({"input_shapes": [[-1, 3]]}, r"feature column features has 2 elements in a row, and .*\(-1, 3\)"),
        ({"input_shapes": [[-1, 2], [-1, 1]]}, "input_shapes has 2 shapes"),
        ({"categorical_cols": ["x"]}, "categorical_cols contains columns that are not in feature_cols: x"),
        ({"validation": "held_out"}, "validation column held_out does not exist"),
        ({"batch_size": 0}, "batch_size=0: it is a number, at least 1"),
        ({"run_id": "../other"}, "run_id is the name of a folder"),
    ],
)  # fmt: skip
def test_a_mistake_is_found_before_training(frame: Any, store: Any, params: Dict[str, Any], message: str) -> None:
    backend = samples.InProcess()
    with pytest.raises(ValueError, match=message):
        samples.binary(store, **{"backend": backend, **params}).fit(frame)
    assert backend.calls == 0


def test_data_without_an_end_need_a_number_of_steps(frame: Any, store: Any) -> None:
    class Endless(samples.ArrayModule):
        short_name = "nvtabular"

    with pytest.raises(ValueError, match="data_module=Endless begins again.*set train_steps_per_epoch"):
        samples.binary(store, data_module=Endless).fit(frame)


def test_an_optimizer_of_another_model_is_refused(frame: Any, store: Any) -> None:
    other = torch.optim.SGD(torch.nn.Linear(7, 1).parameters(), lr=0.1)
    with pytest.raises(ValueError, match=r"2 parameters that are not parameters of the model.*\(1, 7\)"):
        samples.binary(store, optimizer=other).fit(frame)


@pytest.mark.slow
def test_a_model_with_too_few_outputs_is_refused(frame: Any, store: Any) -> None:
    estimator = samples.binary(store, label_cols=["y", "kind"])
    with pytest.raises(ValueError, match=r"returns 1 outputs for 2 label columns \(y, kind\)"):
        estimator.fit(frame)


def test_a_store_that_cannot_be_written_is_found_before_training(frame: Any, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in place of the folder of runs")
    backend = samples.InProcess()
    with pytest.raises(OSError, match=f"{tmp_path}/runs"):
        samples.binary(Store.create(str(tmp_path)), backend=backend).fit(frame)
    assert backend.calls == 0


@pytest.mark.slow
def test_a_store_that_is_full_is_named_with_the_cause(
    frame: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_store = Store.create(str(tmp_path))
    real = type(own_store.fs).put_file

    def full(self: Any, local: str, target: str, **options: Any) -> None:
        real(self, local, target, **options)
        raise OSError(28, "No space left on device", target)

    monkeypatch.setattr(type(own_store.fs), "put_file", full)
    with pytest.raises(StoreError, match=rf"cannot copy the run to {tmp_path}/runs/full of the.*No space left"):
        samples.binary(own_store, run_id="full").fit(frame)
    monkeypatch.undo()
    assert own_store.get_checkpoints("full") == [] and not own_store.has_complete_checkpoint("full")
    assert len(samples.binary(own_store, run_id="full").fit(frame).getHistory()) == 1


@pytest.mark.slow
def test_a_store_that_disappears_during_the_training_is_named(frame: Any, tmp_path: Path) -> None:
    def replace_runs_by_a_file(epoch: int, record: Any) -> None:
        shutil.rmtree(tmp_path / "runs")
        (tmp_path / "runs").write_text("")

    estimator = samples.binary(Store.create(str(tmp_path)), run_id="gone", epochs=2, callbacks=[replace_runs_by_a_file])
    with pytest.raises(StoreError, match=rf"cannot copy the run to {tmp_path}/runs/gone of the store.*NotADirecto"):
        estimator.fit(frame)


class ManyProcesses(samples.InProcess):
    def num_processes(self) -> int:
        return 49


@pytest.mark.slow
@pytest.mark.parametrize(
    "backend, params, message",
    [
        (samples.InProcess(), {"label_cols": ["gap"]}, "the label column gap is null in 12 of 48 rows: fill or drop"),
        (ManyProcesses(), {}, "there are 48 rows to train on for 49 processes: the DataFrame has 48 rows"),
        (samples.InProcess(), {"validation": 1e-9}, "there are no rows to validate with: validation=1e-09 takes 0 of"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_found_before_training(
    frame: Any, store: Any, backend: Any, params: Dict[str, Any], message: str
) -> None:
    from pyspark.sql import functions

    with_gaps = frame.withColumn("gap", functions.when(frame["id"] % 4 != 0, frame["y"]))
    with pytest.raises(ValueError, match=message):
        samples.binary(store, backend=backend, **params).fit(with_gaps)
    assert backend.calls == 0


@pytest.mark.slow
def test_a_corrupt_parquet_file_is_named_with_its_column(frame: Any, tmp_path: Path) -> None:
    own_store = Store.create(str(tmp_path))
    frame.select("x", "y").coalesce(1).write.parquet(own_store.get_train_data_path())
    (path,) = (tmp_path / "intermediate_train_data").glob("*.parquet")
    column = pyarrow.parquet.ParquetFile(path).metadata.row_group(0).column(0)
    content = bytearray(path.read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"the column x .*{path.name} cannot be read"):
        samples.binary(own_store, feature_cols=["x"], input_shapes=None).fit_on_parquet()


def test_a_backend_without_spark_needs_no_context_and_spark_needs_its_own(monkeypatch: Any) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(RuntimeError, match="Could not find an active SparkContext"):
        SparkBackend()
    assert SparkBackend(3).num_processes() == 3
    assert LocalBackend(2).num_processes() == 2
