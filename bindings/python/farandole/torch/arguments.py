"""Explains why an operation cannot take a tensor. Called after the runtime has refused a call."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from farandole.common import arguments
from farandole.common.arguments import head, kind
from farandole.torch.dtypes import NUMBERS

_GROUPED = ("allreduce", "allgather", "reducescatter")
"""Operations that also have a grouped form."""
_WHOLE = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)


def require_tensor(operation: str, name: Any, tensor: Any) -> None:
    """Raises ``TypeError`` unless ``tensor`` is a tensor of PyTorch."""
    if isinstance(tensor, torch.Tensor):
        return
    single = operation.replace("grouped_", "")
    if type(tensor).__module__ == "numpy" and hasattr(tensor, "__setitem__"):
        remedy = "convert it with torch.from_numpy(), or use farandole.numpy"
    elif tensor is None:
        remedy = "leave it out on all ranks, or pass zeros (a parameter that was not used has no gradient)"
    elif isinstance(tensor, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in tensor):
        remedy = f"call grouped_{single} for a list of tensors" if single in _GROUPED else "call it for each tensor"
    else:
        remedy = "convert it with torch.tensor()"
    raise TypeError(f"{head(operation, name)} takes a torch.Tensor, not {kind(tensor)}; {remedy}")


def require_tensors(operation: str, name: Any, tensors: Any) -> Sequence[torch.Tensor]:
    """The tensors of a group; raises ``TypeError`` for anything but a list of tensors."""
    members = arguments.listed(operation, name, tensors)
    for index, each in enumerate(members):
        if not isinstance(each, torch.Tensor):
            require_tensor(operation, arguments.member_name(name, index, len(members)), each)
    return members


def explain(operation: str, name: Any, tensor: Any, process_set: Any, in_place: bool = False) -> None:
    """Raises an error that explains why the tensor or the process set cannot be used; returns if both can.

    :param operation: the runtime's name of the operation, such as ``allreduce`` or ``grouped_allreduce``
    :param in_place: whether the result is written to the tensor
    """
    if not hasattr(process_set, "process_set_id"):  # a compiled graph passes a ``Set`` instead
        arguments.require_process_set(operation, name, process_set)
    require_tensor(operation, name, tensor)
    require_memory(operation, name, tensor)
    if "reduce" in operation and (tensor.dtype not in NUMBERS or tensor.dtype == torch.bool):
        raise arguments.wrong_dtype(operation, name, str(tensor.dtype), _dtype_remedy(operation, tensor.dtype))
    if not tensor.is_contiguous():
        remedy = "pass tensor.contiguous()"
        if in_place:
            plain = operation.replace("grouped_", "")
            remedy = f"{plain} tensor.contiguous() instead, and copy the result back with tensor.copy_()"
        raise ValueError(
            f"{head(operation, name)} takes contiguous tensors, and this one of shape {list(tensor.shape)} has strides "
            f"{list(tensor.stride())}, so it is not contiguous; {remedy}"
        )


def explain_group(operation: str, name: Any, tensors: Sequence[Any], process_set: Any, in_place: bool = False) -> None:
    """Calls ``explain`` for each tensor of a group."""
    for index, each in enumerate(tensors):
        explain(operation, arguments.member_name(name, index, len(tensors)), each, process_set, in_place)


def require_memory(operation: str, name: Any, tensor: torch.Tensor) -> None:
    """Raises ``ValueError`` for a tensor that is sparse or has no data."""
    if tensor.layout != torch.strided:
        remedy = "call tensor.to_dense() first"
        if "allreduce" in operation:
            remedy = f"call sparse_allreduce_async(), or {remedy[5:]}; DistributedOptimizer takes sparse_as_dense=True"
        raise ValueError(
            f"{head(operation, name)} takes dense tensors, and this one is sparse ({tensor.layout}); {remedy}"
        )
    if tensor.is_meta:
        raise ValueError(
            f"{head(operation, name)} takes tensors that have data, and this one is on the meta device; create it, or "
            'move its module with to_empty(device="cpu")'
        )


def _dtype_remedy(operation: str, dtype: torch.dtype) -> str:
    if dtype.is_complex:
        return "pass torch.view_as_real(tensor)"
    return arguments.wrong_dtype_remedy(operation, str(dtype), "tensor.to(torch.{})")


def pack(operation: str, name: Any, compression: Any, tensor: Any) -> Tuple[torch.Tensor, Any]:
    """Compresses a tensor: the tensor to send, and the context for ``decompress``."""
    if not isinstance(tensor, torch.Tensor):
        require_tensor(operation, name, tensor)
    return arguments.pack(operation, name, compression, tensor)


def pack_group(
    operation: str, name: Optional[str], compression: Any, tensors: Sequence[torch.Tensor]
) -> Tuple[Tuple[torch.Tensor, ...], Tuple[Any, ...]]:
    """Compresses the tensors of a group: the tensors to send, and the context of each for ``decompress``."""
    packed, contexts = zip(*(arguments.pack(operation, name, compression, each) for each in tensors))
    return packed, contexts


def splits_of(name: Optional[str], splits: Any) -> Optional[List[int]]:
    """The number of rows for each rank; None for equal parts. The core checks that they add up."""
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        return arguments.row_counts("alltoall", name, splits)
    if splits.dtype not in _WHOLE:
        raise ValueError(
            f"{head('alltoall', name)} takes splits of int32 or int64, not {splits.dtype}; convert them with "
            "splits.to(torch.int32)"
        )
    if splits.dim() > 1:
        raise ValueError(
            f"{head('alltoall', name)} takes splits of one dimension, a number of rows for each rank, not of shape "
            f"{list(splits.shape)}; pass splits.flatten()"
        )
    return splits.reshape(-1).tolist() or None
