"""Submits arrays in GPU memory to the runtime of the job."""

from __future__ import annotations

from typing import Any, List, Optional

import numpy
from farandole import _native
from farandole.common import job, operations

SUM = 1


def submit(operation: int, name: str, array: Any, output: Any = None, splits: Optional[List[int]] = None) -> Any:
    """Starts an operation, which adds values if it reduces. Broadcasts come from rank 0."""
    root = 0 if operation == operations.BROADCAST else -1
    request = _native.Request(operation, name, SUM, root)
    return job.runtime.submit(request, name, array, output, 0, splits)


def allreduce(name: str, array: Any, output: Any = None) -> Any:
    """Starts a sum, in place unless there is an output."""
    return submit(operations.ALLREDUCE, name, array, array if output is None else output)


def total(size: int) -> float:
    """The sum over all ranks, each of which adds its number, counted from 1."""
    return size * (size + 1) / 2


def float32(count: int, value: float) -> numpy.ndarray:
    return numpy.full(count, value, "float32")
