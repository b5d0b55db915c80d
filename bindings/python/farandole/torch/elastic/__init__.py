"""Elastic training for PyTorch: members may come and go between the commits of a state."""

from __future__ import annotations

from typing import Any, Callable

from farandole.common.elastic import ObjectState, State, run_fn
from farandole.torch import mpi_ops
from farandole.torch.elastic.sampler import ElasticSampler
from farandole.torch.elastic.state import TorchState


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a training function that takes a state first: it starts from rank 0's state, and goes on with those
    that are there when members have changed."""

    def reset() -> None:
        mpi_ops.shutdown()
        mpi_ops.init()

    return run_fn(func, reset)
