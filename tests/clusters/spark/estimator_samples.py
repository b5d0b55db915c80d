"""Data modules and networks for the tests of estimators. Training processes import this file."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy
import torch
from farandole.spark.common.backend import Backend, LocalBackend
from farandole.spark.common.plan import Plan
from farandole.spark.common.serialization import pickled

RANKS = 3
LR = 0.02
ROWS = numpy.random.default_rng(7).normal(size=(64, 3)).astype("float32")
LABELS = (ROWS @ numpy.array([1.0, -2.0, 0.5], dtype="float32") + 0.25).astype("float32")
WEIGHTS = numpy.linspace(0.1, 2.0, 64).astype("float32")


class ArrayModule:
    """A user's data module: rank r reads the rows from ``bounds[r]`` to ``bounds[r + 1]``, in order."""

    bounds: Sequence[int] = (0, 13, 40, 64)

    def __init__(self, train_batch_size: int, val_batch_size: int, cur_shard: int, **options: Any) -> None:
        self._rows = range(self.bounds[cur_shard], self.bounds[cur_shard + 1])
        self._sizes = {"train": train_batch_size, "val": val_batch_size}

    def __enter__(self) -> ArrayModule:
        return self

    def __exit__(self, *problem: Any) -> None:
        pass

    def train_data(self) -> Any:
        return self._batches("train")

    def val_data(self) -> Any:
        return self._batches("val")

    def _batches(self, part: str) -> List[Dict[str, Any]]:
        size = self._sizes[part]
        pieces = [list(self._rows[start : start + size]) for start in range(0, len(self._rows), size)]
        return [batch_of(piece) for piece in pieces]


def batch_of(rows: Sequence[int]) -> Dict[str, Any]:
    return {
        "x": torch.from_numpy(ROWS[rows]),
        "y": torch.from_numpy(LABELS[rows]),
        "w": torch.from_numpy(WEIGHTS[rows]),
    }


class OnceModule(ArrayModule):
    """Its data can be iterated once, and are asked for in each epoch."""

    def _batches(self, part: str) -> Iterator[Dict[str, Any]]:  # type: ignore[override]
        return iter(super()._batches(part))


class EmptyRankModule(ArrayModule):
    """Rank 1 has no rows at all."""

    bounds = (0, 30, 30, 64)


def network() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def normalised_network(layer: Any) -> torch.nn.Module:
    """A network with a layer of batch normalisation of the given class."""
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), layer(4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


def absolute_error(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return (output - label).abs().mean()


def plan_of(epochs: int = 1, rows: Sequence[int] = (64, 0), **params: Any) -> Plan:
    """A plan whose run is not written to a store."""
    defaults: Dict[str, Any] = {
        "data_module": ArrayModule,
        "feature_cols": ["x"],
        "label_cols": ["y"],
        "sample_weight_col": None,
        "categorical_cols": None,
        "continuous_cols": None,
        "input_shapes": None,
        "label_shapes": None,
        "loss": torch.nn.MSELoss(),
        "loss_constructors": None,
        "loss_weights": None,
        "metrics": [absolute_error],
        "callbacks": [],
        "batch_size": 4,
        "val_batch_size": 5,
        "backward_passes_per_step": 1,
        "gradient_compression": None,
        "train_minibatch_fn": None,
        "train_steps_per_epoch": None,
        "validation_steps_per_epoch": None,
        "transformation_fn": None,
        "transformation_edit_fields": None,
        "transformation_removed_fields": None,
        "train_reader_num_workers": 1,
        "val_reader_num_workers": 1,
        "reader_pool_type": "thread",
        "inmemory_cache_all": False,
        "shuffle": False,
        "random_seed": None,
        "use_gpu": False,
        "mp_start_method": None,
        "verbose": 0,
    }
    store = SimpleNamespace(
        train_data_path="train", val_data_path="val" if rows[1] else None, saving_runs=False, storage_options=None
    )
    return Plan("run", store, {}, rows, 0, epochs, {**defaults, **params})


def steps_of(bounds: Sequence[int], size: int) -> List[List[int]]:
    """The rows of each step of all ranks together."""
    ranks = list(zip(bounds, bounds[1:]))
    longest = max(stop - start for start, stop in ranks)
    return [
        [row for start, stop in ranks for row in range(start, stop)[begin : begin + size]]
        for begin in range(0, longest, size)
    ]


def trained_by_hand(
    steps: Sequence[Sequence[int]],
    lr: float,
    weights: Optional[numpy.ndarray] = None,
    epochs: int = 1,
    model: Optional[torch.nn.Module] = None,
) -> torch.nn.Module:
    """The network after steps in a single process, whose batches are given by their rows."""
    model = network() if model is None else model
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5)
    for rows in list(steps) * epochs:
        batch = batch_of(rows)
        errors = (model(batch["x"]).reshape(-1) - batch["y"]) ** 2
        loss = errors.mean() if weights is None else (errors * batch["w"]).sum() / batch["w"].sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


class InProcess(Backend):
    """A user's backend: trains in the calling process, as a job of one rank."""

    def __init__(self) -> None:
        self.calls = 0

    def run(self, fn: Any, args: Sequence[Any] = (), kwargs: Any = None, env: Any = None) -> List[Any]:
        self.calls += 1
        return [fn(*args, **(kwargs or {}))]

    def num_processes(self) -> int:
        return 1


def train_several(plans: Sequence[Tuple[str, bytes, bytes]]) -> List[Any]:
    """Trains one plan after the other in the processes of one job, which saves their start."""
    import farandole.torch as hvd
    from farandole.spark.common.trainer import train

    torch.set_num_threads(1)
    hvd.init()
    answers: List[Any] = []
    for each in plans:
        try:
            answers.append(train(*each))
        except Exception as problem:
            answers.append(f"{type(problem).__name__}: {problem}")
    return answers


def trained_on_ranks(trainings: Dict[str, Tuple[Plan, Any]]) -> Dict[str, List[Any]]:
    """What each rank returned for each plan and its training."""
    plans = [
        (type(training).__module__.rpartition(".")[0], pickled(plan, "plan"), training.content)
        for plan, training in trainings.values()
    ]
    by_rank = LocalBackend(RANKS).run(train_several, (plans,))
    return {name: [answers[index] for answers in by_rank] for index, name in enumerate(trainings)}


def content_of(answers: Sequence[Any]) -> bytes:
    """The result of rank 0, which alone has one."""
    assert isinstance(answers[0], bytes), answers
    assert answers[1:] == [None] * (RANKS - 1)
    return answers[0]


def errors_of(model: Any) -> torch.Tensor:
    """The errors of all rows."""
    batch = batch_of(range(64))
    errors: torch.Tensor = model(batch["x"]).detach().reshape(-1) - batch["y"]
    return errors


def frame_of(spark: Any, rows: int = 48, partitions: int = 3) -> Any:
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


class TwoInputs(torch.nn.Module):
    """A network of a user's class with two inputs and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.shared = torch.nn.Linear(3, 4)
        self.value = torch.nn.Linear(4, 1)
        self.classes = torch.nn.Linear(4, 3)

    def forward(self, features: torch.Tensor, x: torch.Tensor) -> Any:
        hidden = torch.tanh(self.shared(torch.cat([features, x], 1)))
        return self.value(hidden), self.classes(hidden)


class CountsLoads(torch.nn.Module):
    """Writes a line to a file in each process that loads it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self.linear = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        with open(state["path"], "a") as file:
            file.write(f"{os.getpid()}\n")


def binary(own_store: Any, **params: Any) -> Any:
    """An estimator of the label y with one input of two numbers."""
    from farandole.spark.torch import TorchEstimator

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.1), torch.nn.Linear(4, 1), torch.nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    defaults: Dict[str, Any] = {
        "backend": InProcess(), "model": model, "optimizer": optimizer, "loss": torch.nn.BCELoss(),
        "store": own_store, "feature_cols": ["features"], "label_cols": ["y"], "input_shapes": [[-1, 2]],
        "batch_size": 8, "verbose": 0, "partitions_per_process": 1, "random_seed": 1,
    }  # fmt: skip
    defaults.update(params)
    return TorchEstimator(**{name: value for name, value in defaults.items() if value is not None})
