"""The options with which a Keras optimizer was wrapped."""

from __future__ import annotations

from typing import Any, NamedTuple

from farandole.common.process_sets import ProcessSet


class Options(NamedTuple):
    """The arguments of ``DistributedOptimizer`` other than the optimizer."""

    name: str
    device_dense: str
    device_sparse: str
    compression: Any
    sparse_as_dense: bool
    gradient_predivide_factor: float
    op: int
    backward_passes_per_step: int
    average_aggregated_gradients: bool
    groups: Any
    process_set: ProcessSet
    scale_local_gradients: bool
