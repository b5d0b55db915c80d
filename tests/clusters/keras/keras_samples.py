"""Data modules, models and plans for the tests of the Keras estimator. Training processes import this file."""

from __future__ import annotations

import importlib
import os
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras
import numpy
from farandole.spark.common.backend import Backend
from farandole.spark.common.plan import Plan
from farandole.spark.common.serialization import pickled
from farandole.spark.common.trainer import train
from farandole.spark.keras.training import prepare, returned

try:
    import tf_keras as keras_2
except ModuleNotFoundError:
    keras_2 = keras  # beside TensorFlow 2.15, the package keras is Keras 2

ROWS = numpy.random.default_rng(7).normal(size=(64, 3)).astype("float32")
LABELS = (ROWS @ numpy.array([1.0, -2.0, 0.5], dtype="float32") + 0.25).astype("float32")
CLASSES = (LABELS > 0).astype("int64") + (LABELS > 2)
WEIGHTS = numpy.linspace(0.1, 2.0, 64).astype("float32")
COLUMNS = {"x": ROWS, "y": LABELS, "kind": CLASSES, "w": WEIGHTS}


def batches_of(rows: Sequence[int], size: int) -> List[Dict[str, Any]]:
    pieces = [list(rows[start : start + size]) for start in range(0, len(rows), size)]
    return [{name: values[piece] for name, values in COLUMNS.items()} for piece in pieces]


class ArrayModule:
    """A user's data module: rank r reads the rows from ``bounds[r]`` to ``bounds[r + 1]``, in order."""

    bounds: Sequence[int] = (0, 64)

    def __init__(self, train_batch_size: int, val_batch_size: int, cur_shard: int, **options: Any) -> None:
        self._rows = range(self.bounds[cur_shard], self.bounds[cur_shard + 1])
        self._sizes = (train_batch_size, val_batch_size)

    def __enter__(self) -> ArrayModule:
        return self

    def __exit__(self, *problem: Any) -> None:
        pass

    def train_data(self) -> Any:
        return batches_of(self._rows, self._sizes[0])

    def val_data(self) -> Any:
        return batches_of(self._rows, self._sizes[1]) or None


class UnevenModule(ArrayModule):
    bounds = (0, 13, 64)


class EmptyRankModule(ArrayModule):
    """Rank 1 has no rows at all."""

    bounds = (0, 64, 64)


def network(package: Any = keras, **options: Any) -> Any:
    """A network of three inputs and one output with fixed weights."""
    package.utils.set_random_seed(3)
    layers = package.layers
    return package.Sequential([layers.InputLayer((3,)), layers.Dense(4, activation="tanh", **options), layers.Dense(1)])


class Net(keras.Model):
    """A model of a user's class, whose weights are created by its first call."""

    def __init__(self, units: int = 4, **options: Any) -> None:
        super().__init__(**options)
        self.units = units
        self.hidden = keras.layers.Dense(units, activation="tanh")
        self.last = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.last(self.hidden(inputs))

    def get_config(self) -> Dict[str, Any]:
        return {**super().get_config(), "units": self.units}


class OwnStep(Net):
    """Its step logs a value that is no metric: the mean of the labels."""

    def train_step(self, data: Any) -> Any:
        super().train_step(data)
        return {"label": keras.ops.mean(data[1])}


class Doubled(keras.layers.Layer):
    """A layer of a user's class."""

    def call(self, inputs: Any) -> Any:
        return 2.0 * inputs


class CountsLoads(keras.Model):
    """Writes a line to a file in each process that makes it."""

    def __init__(self, path: str, **options: Any) -> None:
        super().__init__(**options)
        self.lines = path
        self.last = keras.layers.Dense(1)
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\n")

    def call(self, inputs: Any) -> Any:
        return self.last(inputs)

    def get_config(self) -> Dict[str, Any]:
        return {**super().get_config(), "path": self.lines}


def plan_of(epochs: int = 1, validates: bool = False, store: Any = None, first: int = 0, **params: Any) -> Plan:
    """A plan whose run is not written to a store, unless one is given."""
    defaults: Dict[str, Any] = dict.fromkeys(
        [
            "sample_weight_col", "categorical_cols", "continuous_cols", "label_shapes", "loss_weights",
            "gradient_compression", "train_steps_per_epoch", "validation_steps_per_epoch", "transformation_fn",
            "transformation_edit_fields", "transformation_removed_fields", "random_seed", "mp_start_method",
            "checkpoint_callback",
        ]
    )  # fmt: skip
    defaults.update(
        data_module=ArrayModule, feature_cols=["x"], label_cols=["y"], callbacks=[], batch_size=5, val_batch_size=7,
        backward_passes_per_step=1, train_reader_num_workers=1, val_reader_num_workers=1, reader_pool_type="thread",
        inmemory_cache_all=False, shuffle=False, use_gpu=False, verbose=0, custom_objects={},
        tensorflow_dataset_prefetch_buffer_size=0,
    )  # fmt: skip
    none = SimpleNamespace(train_data_path="train", val_data_path="val", saving_runs=False, storage_options=None)
    remote_store = none if store is None else store.to_remote("run", None)
    return Plan("run", remote_store, {}, (64, 64 * validates), first, epochs, {**defaults, **params})


NO_STORE = SimpleNamespace(saving_runs=lambda: False, get_checkpoint_path=lambda run_id: run_id)


def trained(
    model: Any,
    optimizer: Any,
    loss: Any = "mse",
    metrics: Sequence[Any] = (),
    store: Any = None,
    epochs: int = 1,
    **params: Any,
) -> Any:
    """The trained model and the history, on rank 0; None on other ranks."""
    custom = params.get("custom_objects", {})
    training = prepare(model, optimizer, loss, list(metrics), custom, store or NO_STORE, "run")
    plan = plan_of(training.last_epoch(epochs), store=store, first=training.first_epoch, **params)
    result = train("farandole.spark.keras", pickled(plan, "the plan"), training.content)
    return None if result is None else returned(training, result, plan.label_cols, plan.loss_weights)


def fitted_by_keras(model: Any, optimizer: Any, steps: Sequence[Sequence[int]], epochs: int = 1) -> List[Any]:
    """The weights of a copy of a model after steps of Keras alone, whose batches are given by their rows."""
    package = importlib.import_module("tf_keras" if type(model).__module__.startswith("tf_keras") else "keras")
    copy = package.models.clone_model(model)
    copy.set_weights(model.get_weights())
    copy.compile(optimizer=optimizer, loss="mse")
    for rows in list(steps) * epochs:
        copy.train_on_batch(ROWS[rows], LABELS[rows])
    weights: List[Any] = copy.get_weights()
    return weights


class InProcess(Backend):
    """A user's backend: trains in the calling process, as a job of one rank."""

    def __init__(self) -> None:
        self.calls = 0
        self.variables: Optional[Dict[str, str]] = None

    def run(self, fn: Any, args: Sequence[Any] = (), kwargs: Any = None, env: Any = None) -> List[Any]:
        self.calls += 1
        self.variables = env
        return [fn(*args, **(kwargs or {}))]

    def num_processes(self) -> int:
        return 1


def frame_of(spark: Any, rows: int = 48, partitions: int = 2) -> Any:
    """A DataFrame with vectors, scalars, labels of several types and a column that is not trained on."""
    from pyspark.ml.linalg import DenseVector

    values = numpy.random.default_rng(11).normal(size=(rows, 3)).round(3)
    positive = values.sum(1) > 0
    listed = [
        (
            index,
            DenseVector(values[index, :2]),
            float(values[index, 2]),
            float(positive[index]),
            int(positive[index]) + int(values[index, 0] > 1),
            0.5 + float(positive[index]),
        )
        for index in range(rows)
    ]
    return spark.createDataFrame(listed, ["id", "features", "x", "y", "kind", "weight"]).repartition(partitions)


def binary_network(units: int = 4) -> Any:
    keras.utils.set_random_seed(1)
    layers = [keras.Input((2,)), keras.layers.Dense(units, activation="tanh"), keras.layers.Dense(1, "sigmoid")]
    return keras.Sequential(layers)


def binary(own_store: Any, **params: Any) -> Any:
    """An estimator of the label y with one input of two numbers."""
    from farandole.spark.keras import KerasEstimator

    defaults: Dict[str, Any] = {
        "backend": InProcess(), "model": binary_network(), "optimizer": keras.optimizers.SGD(0.1, momentum=0.9),
        "loss": "binary_crossentropy", "store": own_store, "feature_cols": ["features"], "label_cols": ["y"],
        "batch_size": 8, "verbose": 0, "partitions_per_process": 1, "random_seed": 1,
    }  # fmt: skip
    defaults.update(params)
    return KerasEstimator(**{name: value for name, value in defaults.items() if value is not None})
