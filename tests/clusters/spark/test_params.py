"""The parameters of estimators and models, and the names of the estimators' modules with their signatures."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest
from farandole.spark.common.params import EstimatorParams, ModelParams
from interface_rows import differences, rows_of

TABLE = Path(__file__).with_name("estimator_interface.tsv")
DEFAULTS: Dict[str, Any] = {
    "num_proc": None, "model": None, "backend": None, "store": None, "optimizer": None, "loss": None,
    "loss_weights": None, "sample_weight_col": None, "metrics": [], "callbacks": [], "feature_cols": None,
    "label_cols": None, "continuous_cols": None, "categorical_cols": None, "validation": None,
    "gradient_compression": None, "compress_sparse_cols": False, "batch_size": 32, "val_batch_size": None, "epochs": 1,
    "verbose": 1, "random_seed": None, "shuffle_buffer_size": None, "shuffle": True, "partitions_per_process": 10,
    "run_id": None, "train_steps_per_epoch": None, "validation_steps_per_epoch": None, "transformation_fn": None,
    "transformation_edit_fields": None, "transformation_removed_fields": None, "train_reader_num_workers": 2,
    "val_reader_num_workers": 2, "reader_pool_type": "thread", "label_shapes": None, "inmemory_cache_all": False,
    "use_gpu": True, "mp_start_method": None, "backward_passes_per_step": 1,
    "tensorflow_dataset_prefetch_buffer_size": 0,
}  # fmt: skip
STEMS = {
    "inmemory_cache_all": "InMemoryCacheAll",
    "shuffle_buffer_size": "ShufflingBufferSize",
    "train_reader_num_workers": "TrainReaderNumWorker",
    "val_reader_num_workers": "ValReaderNumWorker",
}
"""Stems of getters and setters that are not those of their parameters."""
VALUES: Dict[str, Any] = {"validation": 0.5, "mp_start_method": "spawn", "backward_passes_per_step": 3}


def stem_of(name: str) -> str:
    return STEMS.get(name) or "".join(part.capitalize() for part in name.split("_"))


@pytest.mark.parametrize("name", sorted({row[0] for row in rows_of(TABLE)}))
def test_the_names_of_a_module_have_their_signatures(name: str) -> None:
    module = importlib.import_module(f"horovod.spark.{name}")
    assert differences(module, TABLE, name) == []


def test_the_parameters_have_their_defaults() -> None:
    params = EstimatorParams()
    assert {each.name: params.getOrDefault(each) for each in params.params} == DEFAULTS
    assert params.getValBatchSize() == 32 and params.setBatchSize(8).getValBatchSize() == 8


@pytest.mark.parametrize("name", [name for name in DEFAULTS if name != "shuffle_buffer_size"])
def test_a_setter_sets_the_value_and_returns_the_object(name: str) -> None:
    params, value = EstimatorParams(), VALUES.get(name, 5)
    assert getattr(params, f"set{stem_of(name)}")(value) is params
    assert getattr(params, f"get{stem_of(name)}")() == value
    assert {each.name for each in params.params if params.isSet(each)} == {name}


def test_parameters_are_set_together_by_name() -> None:
    params = EstimatorParams().setParams(epochs=3, label_cols=["y"])
    assert (params.getEpochs(), params.getLabelCols()) == (3, ["y"])
    with pytest.raises(AttributeError, match="epoch_count"):
        params.setParams(epoch_count=3)


def test_two_objects_share_no_values() -> None:
    first, second = EstimatorParams().setEpochs(2), EstimatorParams()
    assert (first.getEpochs(), second.getEpochs()) == (2, 1)


def test_two_objects_share_no_defaults() -> None:
    EstimatorParams().getCallbacks().append(print)
    assert EstimatorParams().getCallbacks() == []


def test_the_shuffle_buffer_size_is_deprecated() -> None:
    with pytest.warns(DeprecationWarning, match="set shuffle to turn shuffling on or off"):
        params = EstimatorParams().setShufflingBufferSize(10)
    assert params.getShufflingBufferSize() == 10


@pytest.mark.parametrize("validation", [-0.1, 1, 1.5, True, [0.1]])
def test_a_validation_outside_of_its_range_is_refused(validation: Any) -> None:
    with pytest.raises(ValueError, match="validation is a fraction"):
        EstimatorParams().setValidation(validation)


@pytest.mark.parametrize("validation", [0, 0.99, "is_held_out", None])
def test_a_validation_is_a_fraction_or_a_column(validation: Any) -> None:
    assert EstimatorParams().setValidation(validation).getValidation() == validation


@pytest.mark.parametrize("passes", [0, -1, 1.5, True])
def test_a_step_has_at_least_one_pass(passes: Any) -> None:
    with pytest.raises(ValueError, match=f"backward_passes_per_step={passes}: it must be an integer > 0"):
        EstimatorParams().setBackwardPassesPerStep(passes)


def test_a_start_method_that_python_does_not_know_is_refused() -> None:
    with pytest.raises(ValueError, match="mp_start_method='thread': Python knows fork, spawn"):
        EstimatorParams().setMpStartMethod("thread")


def test_the_parameters_of_models() -> None:
    model = ModelParams().setLabelColoumns(["y", "z"])
    assert model.getOutputCols() == ["y__output", "z__output"]
    assert model.setLabelColumns(["y"]).getLabelColumns() == ["y"]
    assert model.setOutputCols(["predicted"]).getOutputCols() == ["predicted"]
    for stem, name in {
        "History": "history",
        "Model": "model",
        "FeatureColumns": "feature_columns",
        "RunId": "run_id",
    }.items():
        assert getattr(model, f"get{stem}")() is None
        assert getattr(model, f"set{stem}")("value") is model
        assert getattr(model, f"get{stem}")() == model.getOrDefault(name) == "value"


def test_the_packages_load_neither_a_framework_nor_the_native_library() -> None:
    modules = sorted({f"horovod.spark.{row[0]}" for row in rows_of(TABLE)})
    heavy = ["torch", "tensorflow", "lightning", "pytorch_lightning", "farandole._native"]
    code = f"import sys, {', '.join(modules)}; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"
