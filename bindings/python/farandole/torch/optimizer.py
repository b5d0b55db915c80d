"""``DistributedOptimizer``: which class it puts in front of an optimizer's own, and how the object is carried over."""

from __future__ import annotations

import warnings
from typing import Any, Iterable, Optional, Tuple

import torch

from farandole.common import membership
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.util import num_rank_is_power_2
from farandole.torch import mpi_ops
from farandole.torch.adasum_optimizer import _DistributedAdasumOptimizer
from farandole.torch.compression import Compression
from farandole.torch.mpi_ops import Adasum, Average
from farandole.torch.reducing_optimizer import _DistributedOptimizer

__all__ = ["DistributedOptimizer", "_DistributedOptimizer"]


def _front_for_adasum(process_set: ProcessSet) -> type:
    if process_set is not global_process_set:
        raise NotImplementedError("Adasum takes the global process set only")
    if not num_rank_is_power_2(mpi_ops.size()):
        raise NotImplementedError(f"Adasum needs a number of ranks that is a power of two, not {mpi_ops.size()}")
    return _DistributedAdasumOptimizer


@public
def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Iterable[Tuple[str, torch.Tensor]]] = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Any = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> torch.optim.Optimizer:
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if num_groups != 0:
        warnings.warn("num_groups is deprecated; use groups", DeprecationWarning, stacklevel=2)
        if groups is None:
            groups = num_groups
    front: type = _DistributedOptimizer
    if op == Adasum and (mpi_ops.size() > 1 or membership.is_elastic()):
        front = _front_for_adasum(process_set)
        groups = None
    wrapped_class = type(optimizer)
    cls: Any = type(wrapped_class.__name__, (front, wrapped_class), {"__module__": wrapped_class.__module__})
    wrapper = cls.__new__(cls)
    # Parameter groups, state, hooks and whatever else the class keeps are carried over; what a learning rate scheduler
    # has put in front of the old object's methods is not.
    wrapper.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    wrapper._distribute(
        named_parameters,
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups,
        sparse_as_dense,
        process_set,
    )
    return wrapper
