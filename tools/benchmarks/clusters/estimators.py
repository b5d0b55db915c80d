"""Training and predicting by an estimator beside programs by hand: `python estimators.py ROUNDS NAME…` prints JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from functools import partial
from typing import Any, Callable

import horovod.spark
import numpy
import pandas
import torch
from horovod.spark.common import util
from horovod.spark.common.store import Store
from horovod.spark.torch import TorchEstimator
from pyspark.ml.functions import array_to_vector, vector_to_array
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import pandas_udf

RANKS = 2
INPUTS, HIDDEN, CLASSES = 784, 128, 10
ROWS, BATCH, EPOCHS = 20_000, 64, 4
PREDICTED_ROWS, PREDICTED_INPUTS = 1_000_000, 20


def network(inputs: int = INPUTS, outputs: int = CLASSES) -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(inputs, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, outputs))


def values(count: int) -> Any:
    """A column of arrays of floats from 0 to 1 that depend on the row."""
    return F.expr(f"transform(sequence(1, {count}), i -> float(pmod(hash(id, i), 1000) / 1000))")


def timed(function: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def train_by_hand() -> float:
    """The seconds of an epoch, after one that fills caches."""
    import horovod.torch as hvd

    hvd.init()
    torch.set_num_threads(1)
    random = numpy.random.default_rng(hvd.rank())
    features = torch.from_numpy(random.random((ROWS // RANKS, INPUTS), dtype=numpy.float32))
    labels = torch.from_numpy(random.random((ROWS // RANKS, CLASSES), dtype=numpy.float32))
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(features, labels), batch_size=BATCH, shuffle=True
    )
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    times = []
    for _ in range(EPOCHS):
        begin = time.perf_counter()
        for inputs, wanted in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), wanted).backward()
            optimizer.step()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def epoch(session: Any, folder: str, rounds: int) -> dict[str, list[float]]:
    """The time of an epoch of the estimator is that by which a longer training takes longer."""
    store = Store.create(folder)
    frame = session.range(ROWS).select(values(INPUTS).alias("features"), values(CLASSES).alias("labels"))

    def estimator(epochs: int) -> Any:
        model = network()
        return TorchEstimator(
            num_proc=RANKS,
            store=store,
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
            loss=torch.nn.MSELoss(),
            feature_cols=["features"],
            label_cols=["labels"],
            batch_size=BATCH,
            epochs=epochs,
            verbose=0,
        )

    samples: dict[str, list[float]] = {"ours": [], "other": []}
    with util.prepare_data(
        RANKS, store, frame, feature_columns=["features"], label_columns=["labels"], verbose=0
    ) as dataset:
        for _ in range(rounds):
            samples["other"].append(max(horovod.spark.run(train_by_hand, num_proc=RANKS)))
            short, long = (timed(partial(estimator(n).fit_on_parquet, dataset_idx=dataset)) for n in (1, 1 + EPOCHS))
            samples["ours"].append((long - short) / EPOCHS)
    return samples


def transform(session: Any, folder: str, rounds: int) -> dict[str, list[float]]:
    features = array_to_vector(values(PREDICTED_INPUTS))
    frame = session.range(PREDICTED_ROWS).select(features.alias("features"), F.lit(0.0).alias("y")).persist()
    frame.count()
    model = network(PREDICTED_INPUTS, 1)
    fitted = TorchEstimator(
        num_proc=1,
        store=Store.create(folder),
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.01),
        loss=torch.nn.MSELoss(),
        feature_cols=["features"],
        label_cols=["y"],
        epochs=1,
        verbose=0,
    ).fit(frame.limit(1000))
    state = {name: value.numpy() for name, value in model.state_dict().items()}

    @pandas_udf("double")
    def by_hand(features: pandas.Series) -> pandas.Series:
        made = network(PREDICTED_INPUTS, 1)
        made.load_state_dict({name: torch.from_numpy(value) for name, value in state.items()})
        with torch.no_grad():
            outputs = made(torch.from_numpy(numpy.stack(features.to_numpy()).astype(numpy.float32)))
        return pandas.Series(outputs.numpy()[:, 0].astype(numpy.float64))

    samples: dict[str, list[float]] = {"ours": [], "other": []}
    for _ in range(rounds):
        predicted = frame.select(by_hand(vector_to_array("features")).alias("y__output"))
        samples["other"].append(PREDICTED_ROWS / timed(predicted.write.format("noop").mode("overwrite").save))
        predicted = fitted.transform(frame).select("y__output")
        samples["ours"].append(PREDICTED_ROWS / timed(predicted.write.format("noop").mode("overwrite").save))
    return samples


def main() -> None:
    rounds, names = int(sys.argv[1]), sys.argv[2:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{RANKS}]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "3g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        results = {
            each.__name__: each(session, folder, rounds) for each in (epoch, transform) if each.__name__ in names
        }
    session.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
