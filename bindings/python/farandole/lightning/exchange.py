"""Collectives in the form in which Lightning and its metrics ask for them."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

import farandole.torch as hvd

_OPS: Dict[str, int] = {
    "mean": hvd.Average,
    "avg": hvd.Average,
    "sum": hvd.Sum,
    "min": hvd.Min,
    "max": hvd.Max,
    "product": hvd.Product,
}


def _op(reduce_op: Any) -> int:
    """The reduction for a word, or for ``torch.distributed.ReduceOp`` (whose text ends in one)."""
    word = str(reduce_op if reduce_op is not None else "mean").rpartition(".")[2].lower()
    if word not in _OPS:
        raise ValueError(f"reduce_op={reduce_op!r}: the strategy 'farandole' knows {', '.join(_OPS)}")
    return _OPS[word]


def _members(group: Any) -> hvd.ProcessSet:
    if group is None:
        return hvd.global_process_set
    if not isinstance(group, hvd.ProcessSet):
        raise ValueError(f"a group is a process set (hvd.ProcessSet) under the strategy 'farandole', not {group!r}")
    return group


def reduced(tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
    """Reduces into a new tensor; a value that is not a tensor is returned unchanged. A mean of integers or booleans has
    PyTorch's default floating-point type."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    op = _op(reduce_op)
    own = tensor.detach().contiguous()
    is_mean_of_integers = op == hvd.Average and not (own.is_floating_point() or own.is_complex())
    if is_mean_of_integers:
        own = own.double()  # exact for all integers of int32, and for those of int64 below 2 ** 53
    result = hvd.allreduce(own, name=f"lightning.reduce.{op}", op=op, process_set=_members(group))
    return result.to(torch.get_default_dtype()) if is_mean_of_integers else result


def stacked(tensor: torch.Tensor, group: Any = None, sync_grads: bool = False) -> torch.Tensor:
    """``[ranks, *shape]``. With ``sync_grads``, gradients of all ranks add up, as they do under Lightning's DDP."""
    members = _members(group)
    row = tensor.contiguous().unsqueeze(0)
    if not sync_grads:
        return hvd.allgather(row.detach(), name="lightning.all_gather", process_set=members)
    gathered = hvd.allgather(row, name="lightning.all_gather", process_set=members)
    if gathered.requires_grad:
        ranks = gathered.shape[0]
        gathered.register_hook(lambda gradient: gradient * ranks)  # allgather's own gradient is the mean
    return gathered


# ---- torchmetrics ----


def is_distributed() -> bool:
    """The check that metrics make before they synchronise."""
    return hvd.is_initialized() and hvd.size() > 1


_MOST_DIMENSIONS = 16


def gathered_states(state: torch.Tensor, group: Any = None) -> List[torch.Tensor]:
    """The tensors of all ranks, which may differ in shape."""
    members = _members(group)
    outline = torch.zeros(1, _MOST_DIMENSIONS + 1, dtype=torch.int64)
    outline[0, : state.dim() + 1] = torch.tensor([state.dim(), *state.shape])
    outlines = hvd.allgather(outline, name="lightning.metric.shape", process_set=members).tolist()
    flat = hvd.allgather(state.detach().contiguous().reshape(-1), name="lightning.metric", process_set=members)
    shapes = [each[1 : each[0] + 1] for each in outlines]
    parts = flat.split([int(torch.Size(shape).numel()) for shape in shapes])
    return [part.reshape(shape) for part, shape in zip(parts, shapes)]


def share_metrics(model: torch.nn.Module) -> None:
    """Metrics that are part of the model are computed over all ranks' data, unless they were told how already."""
    import torchmetrics
    from torchmetrics.metric import jit_distributed_available

    for metric in model.modules():
        if not isinstance(metric, torchmetrics.Metric) or metric.dist_sync_fn is not None:
            continue
        if metric.distributed_available_fn in (None, jit_distributed_available):
            metric.distributed_available_fn = is_distributed
            metric.dist_sync_fn = gathered_states
