"""Saved models."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from nets import ROWS, data, fit, furthest, network, share


@pytest.mark.parametrize("kind", ["keras", "h5"])
def test_a_saved_optimizer_is_wrapped_when_it_is_loaded_and_continues_training(
    hvd, keras, rank: int, size: int, kind: str, tmp_path
) -> None:
    x, y = data(size)
    model, rows = (
        network(keras, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01))),
        (
            share(x, rank, size),
            share(y, rank, size),
        ),
    )
    fit(model, *rows, ROWS)
    path = str(tmp_path / f"model.{kind}")
    model.save(path)
    loaded = hvd.load_model(path, compression=hvd.Compression.none)
    assert type(loaded.optimizer).__name__ == "Adam" and hasattr(loaded.optimizer, "register_local_var")
    if kind == "h5" and hasattr(keras, "ops"):
        return  # Keras 3 does not load an optimizer's variables from this format
    fit(loaded, *rows, ROWS)
    fit(model, *rows, ROWS)
    assert furthest(model, loaded) < 1e-5
    one = network(keras, keras.optimizers.Adam(0.01))
    fit(one, x, y, ROWS * size, epochs=6)
    assert furthest(loaded, one) < 1e-4


def test_load_model_accepts_a_custom_optimizer_class(hvd, keras, tmp_path) -> None:
    class Ours(keras.optimizers.SGD):
        pass

    model = network(keras, hvd.DistributedOptimizer(Ours(0.125)))
    fit(model, *data(1), ROWS, epochs=1)
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = hvd.load_model(path, custom_optimizers=[Ours])
    assert isinstance(loaded.optimizer, Ours) and float(loaded.optimizer.learning_rate) == 0.125


def saved_with_sync_batch_norm(hvd, keras, backend: str, path: str) -> Any:
    """Saves a model that has the layer, and returns the layer's class."""
    if backend != "tensorflow":
        pytest.skip("a layer of TensorFlow")
    kind = importlib.import_module("horovod.tensorflow").SyncBatchNormalization
    model = keras.Sequential([keras.Input((6,)), kind(momentum=0.75, name="norm"), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), "mse")
    model.save(path)
    return kind


def test_a_saved_model_with_synchronized_batch_normalization_is_loaded(hvd, keras, backend: str, tmp_path) -> None:
    path = str(tmp_path / "model.keras")
    kind = saved_with_sync_batch_norm(hvd, keras, backend, path)
    layer = hvd.load_model(path).get_layer("norm")
    assert type(layer) is kind and layer.momentum == 0.75


@pytest.mark.slow
def test_a_process_that_has_not_used_synchronized_batch_normalization_loads_it(
    hvd, keras, backend: str, tmp_path
) -> None:
    path = str(tmp_path / "model.keras")
    saved_with_sync_batch_norm(hvd, keras, backend, path)
    script = f"import {hvd.__name__} as hvd; hvd.init(); print(type(hvd.load_model({path!r}).get_layer('norm')))"
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "FARANDOLE_"))}
    told = subprocess.check_output([sys.executable, "-c", script], env=settings, text=True, timeout=240)
    assert "farandole.tensorflow.sync_batch_norm.SyncBatchNormalization" in told


@pytest.mark.slow
def test_a_checkpoint_loads_without_farandole(hvd, keras, rank: int, tmp_path) -> None:
    options = {"backward_passes_per_step": 2}
    model = network(keras, hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9), **options))
    x, y = data(1)
    fit(model, x, y, ROWS, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    path = str(tmp_path / "model.keras")
    model.save(path)
    script = f"""
import os, sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "The distutils package")  # TensorFlow 2.15 imports it
import {keras.Model.__module__.partition(".")[0]} as keras
warnings.simplefilter("default")
import numpy as np
model = keras.models.load_model({path!r})
x = np.arange(12, dtype="float32").reshape(2, 6)
print("answer", np.asarray(model.predict(x, verbose=0)).ravel().tolist(), type(model.optimizer).__name__)
assert "horovod" not in sys.modules and "farandole.common" not in sys.modules
model.fit(x, np.ones((2, 1)), verbose=0)
"""
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0 and "answer" in ended.stdout, ended.stderr
    expected = np.asarray(model.predict(np.arange(12, dtype="float32").reshape(2, 6), verbose=0)).ravel().tolist()
    answer = ended.stdout.split("answer ")[1]
    assert answer.split("]")[1].split()[0] == "SGD"
    assert np.allclose(eval(answer.split("]")[0] + "]"), expected, atol=1e-5)


def test_optimizers_of_keras2_that_have_not_stepped_are_loaded(hvd, keras, tmp_path) -> None:
    if hasattr(keras, "ops"):
        pytest.skip("Keras 3 has no such optimizers")
    scaler = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.legacy.SGD(0.125))
    for optimizer, file in ((keras.optimizers.Adam(0.125), "saved"), (scaler, "saved.h5")):
        network(keras, optimizer).save(str(tmp_path / file))
        loaded = hvd.load_model(str(tmp_path / file))
        fit(loaded, *data(1), ROWS, epochs=1)
        assert float(loaded.optimizer.learning_rate) == 0.125
