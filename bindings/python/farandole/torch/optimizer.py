"""``DistributedOptimizer``: derives a class from an optimizer's own class, and makes it the class of the optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Optional, Tuple

import torch

from farandole.common import membership
from farandole.common.arguments import kind, require_process_set
from farandole.common.operations import public
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.common.reduction import chosen_groups, require_adasum, scales
from farandole.torch import mpi_ops
from farandole.torch.adasum_optimizer import _DistributedAdasumOptimizer
from farandole.torch.compression import Compression
from farandole.torch.gradient_transfers import Reduction
from farandole.torch.mpi_ops import Adasum, Average
from farandole.torch.reducing_optimizer import Options, _DistributedOptimizer

__all__ = ["DistributedOptimizer", "_DistributedOptimizer"]

if TYPE_CHECKING:

    class WrappedOptimizer(_DistributedOptimizer, Any):
        """The result of ``DistributedOptimizer`` for type checkers. It is also an instance of the wrapped optimizer's
        class, which they cannot express, so the base ``Any`` makes it compatible with every class."""


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
) -> WrappedOptimizer:
    _require_plain(optimizer)
    reduction = Reduction(op, *scales(op, gradient_predivide_factor))
    groups = chosen_groups(num_groups, groups, torch.Tensor)
    front: type = _DistributedOptimizer
    require_process_set("DistributedOptimizer", None, process_set)
    if op == Adasum and (mpi_ops.size() > 1 or membership.is_elastic()):
        require_adasum(process_set, mpi_ops.size())
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError(
                "op=Adasum combines the steps of single parameters, and LBFGS computes one step for all of them; pass "
                "op=Average"
            )
        front = _DistributedAdasumOptimizer
        groups = None
    options = Options(compression, backward_passes_per_step, reduction, groups, sparse_as_dense, process_set)
    plain = type(optimizer)
    wrapped_class: Any = plain.wrapped_class if issubclass(plain, _DistributedOptimizer) else plain
    members = {"__module__": wrapped_class.__module__, "wrapped_class": wrapped_class}
    cls: Any = type(wrapped_class.__name__, (front, wrapped_class), members)
    attributes = dict(vars(optimizer))
    # The optimizer itself becomes the distributed one. All that refers to it already, such as a learning rate
    # scheduler, then acts on the optimizer that steps, whichever is made, loaded or broadcast first.
    wrapper: Any = optimizer
    wrapper.__class__ = cls
    vars(wrapper).pop("step", None)  # the function that a scheduler has put before the step of the plain class
    try:
        wrapper._distribute(named_parameters, options)
    except BaseException:
        wrapper.__class__ = plain
        vars(wrapper).clear()
        vars(wrapper).update(attributes)
        raise
    return wrapper


def _require_plain(optimizer: Any) -> None:
    """Raises ``TypeError`` unless ``optimizer`` is an optimizer, and ``ValueError`` if it is a distributed one, whose
    gradients would be reduced twice."""
    if isinstance(optimizer, _DistributedOptimizer) and not (optimizer.has_let_go and optimizer.wrapped_class):
        raise ValueError(
            f"DistributedOptimizer was given a {type(optimizer).__name__} that is a DistributedOptimizer already; wrap "
            "each optimizer once, and use the wrapped one from then on"
        )
    if isinstance(optimizer, type) or not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"DistributedOptimizer takes a torch.optim.Optimizer, not {kind(optimizer)}; make one first, such as "
            "torch.optim.SGD(model.parameters(), lr=0.01)"
        )
