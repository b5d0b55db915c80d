"""Elastic training for PyTorch. Members stay in this version; scripts written for more run in it."""

from __future__ import annotations

from typing import Any, Callable

from farandole.common.elastic import run_fn
from farandole.torch import mpi_ops
from farandole.torch.elastic.sampler import ElasticSampler
from farandole.torch.elastic.state import TorchState


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function that takes a state first: it starts from rank 0's state."""

    def reset() -> None:
        mpi_ops.shutdown()
        mpi_ops.init()

    return run_fn(func, reset)
