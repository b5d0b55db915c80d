"""A small residual network trained by each framework, in each way that is compared: one class a framework, all with the
same few verbs. Runs inside the workers only; a worker imports the one framework that it measures.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

WIDTHS = (32, 64, 128)
SMALL_WIDTHS = (8, 16, 32)
IMAGE = 32
CLASSES = 10
OPERATIONS = 200  # number in flight at once when the cost of one operation is measured
OPERATION_ELEMENTS = 256  # float32: 1 KiB


@dataclass(frozen=True)
class Way:
    """How one contestant trains: ``farandole``, ``horovod``, its framework's ``own`` distribution, ``plain`` in one
    process, or ``joined``: in one process after ``init()``."""

    name: str
    batch: int  # images a step and process
    threads: int
    small: bool
    device: str = "cpu"
    is_bfloat16: bool = False  # forward passes; PyTorch only, like the device

    @property
    def widths(self) -> tuple[int, ...]:
        return SMALL_WIDTHS if self.small else WIDTHS


class Trainer:
    """The interface that the worker needs."""

    def __init__(self, way: Way) -> None:
        self.way = way

    def load(self) -> None:
        """Imports the framework and the library, and sets its threads."""
        raise NotImplementedError

    def join(self) -> None:
        """Joins the job, and makes the model, which is the same on all workers."""
        raise NotImplementedError

    def steps(self, count: int) -> float:
        """Trains `count` steps, waits until all are computed, and returns the last loss."""
        raise NotImplementedError

    def operations(self, kind: str) -> tuple[Any, Any]:
        """Two functions: one runs many small allreduces in flight at once, the other one allreduce of as many bytes.
        ``kind`` chooses the way of calling them, if the framework has several."""
        raise NotImplementedError

    def leave(self) -> None:
        """Leaves the job in an orderly way."""
        raise NotImplementedError


def trainer_of(framework: str, way: Way) -> Trainer:
    """The framework's trainer."""
    module = importlib.import_module(f"benchmarks.trainers.with_{framework}")
    made: Trainer = module.made(way)
    return made
