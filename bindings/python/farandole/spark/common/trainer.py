"""The training on one rank of an estimator's job, as far as it is the same for all frameworks."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Iterator, List, Optional, Sequence

import numpy

import farandole.numpy as hvd
from farandole.spark.common.logs import RunLog
from farandole.spark.common.plan import Plan
from farandole.spark.common.serialization import unpickled


def train(package: str, plan_content: bytes, content: bytes) -> Optional[bytes]:
    """Trains on this rank. Each rank of the job calls it.

    The contents are pickles that the estimator made; loading them runs code that they name.

    :param package: the package whose modules ``training`` and ``remote`` have the framework's classes ``Training`` and
        ``Trainer``
    :param plan_content: the pickled ``Plan``
    :param content: the pickled ``Training``
    :return: on rank 0 the result, on other ranks None
    """
    framework = importlib.import_module(f"{package}.remote")
    plan: Plan = unpickled(plan_content)
    joined = not hvd.is_initialized()
    hvd.init()
    try:
        training = importlib.import_module(f"{package}.training").Training.from_bytes(content)
        result: Optional[bytes] = framework.Trainer(plan, training).run()
        return result
    finally:
        if joined:
            hvd.shutdown()


def exchange(values: List[float]) -> Sequence[float]:
    """Sums numbers over all ranks, element by element. All ranks call it together, with lists of one length."""
    if hvd.size() == 1 or not values:
        return values
    totals: List[float] = hvd.allreduce(numpy.array(values), op=hvd.Sum, name="estimator.sum").tolist()
    return totals


class EpochTrainer:
    """The base class of trainers that train the epochs of a run themselves. Rank 0 writes to the store."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @contextlib.contextmanager
    def _output(self) -> Iterator[Optional[str]]:
        """On rank 0, a local folder that is copied to the store's folder of the run; None on the other ranks, and if
        the store keeps no runs."""
        if hvd.rank() != 0 or not self._plan.remote_store.saving_runs:
            yield None
            return
        with self._plan.remote_store.get_local_output_dir() as folder:
            yield folder

    def _log(self, folder: Optional[str]) -> RunLog:
        """The log of the run, which prints on rank 0 and writes to the folder."""
        logs = os.path.join(folder, self._plan.remote_store.logs_subdir) if folder else None
        return RunLog(logs, self._plan.verbose if hvd.rank() == 0 else 0)

    def _write_checkpoint(self, folder: str, content: bytes) -> None:
        """Writes the checkpoint of the run to the folder, and copies the folder to the store."""
        with open(os.path.join(folder, self._plan.remote_store.checkpoint_filename), "wb") as file:
            file.write(content)
        self._plan.remote_store.sync(folder)
