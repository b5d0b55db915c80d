"""The names of ``horovod.spark.keras.estimator`` with their signatures, and the parameters with their defaults."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from farandole.spark.keras import KerasEstimator, KerasModel
from interface_rows import differences, rows_of

TABLE = Path(__file__).with_name("interface.tsv")


def test_the_names_have_their_signatures() -> None:
    module = importlib.import_module("horovod.spark.keras.estimator")
    assert len(rows_of(TABLE)) == 23
    assert differences(module, TABLE, "keras.estimator") == []


@pytest.mark.parametrize(
    "name, default",
    [
        ("DataModule", "farandole.spark.keras.datamodule.PetastormDataModule"),
        ("CustomObjects", {}),
        ("CheckpointCallback", None),
        ("BackendEnv", {"LIBHDFS_OPTS": "-Xms2048m -Xmx2048m"}),
    ],
)
def test_the_parameters_of_keras_have_defaults_and_setters(name: str, default: Any) -> None:
    estimator = KerasEstimator()
    value = getattr(estimator, f"get{name}")()
    assert (f"{value.__module__}.{value.__qualname__}" if name == "DataModule" else value) == default
    assert getattr(estimator, f"set{name}")(str) is estimator
    assert getattr(estimator, f"get{name}")() is str


def test_the_names_of_the_package() -> None:
    import horovod.spark.keras as hvd

    assert (hvd.KerasEstimator, hvd.KerasModel) == (KerasEstimator, KerasModel)
    model = KerasModel(history={"loss": [1.0]}, label_columns=["y"], _floatx="float64")
    assert model.setCustomObjects({"a": 1}) is model and model.getCustomObjects() == {"a": 1}
    assert (model.getHistory(), model.getOutputCols()) == ({"loss": [1.0]}, ["y__output"])
    assert KerasModel().getCustomObjects() == {} and KerasEstimator().get_model_class() is KerasModel


def test_the_package_loads_neither_tensorflow_nor_the_native_library() -> None:
    code = (
        "import sys, horovod.spark.keras\n"
        "loaded = [n for n in sys.modules if n in ('tensorflow', 'keras', 'tf_keras', 'torch', 'farandole._native')]\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
