"""Broadcasts and gathers of parameters, optimizer states and Python objects."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import torch

from farandole.common.arguments import kind
from farandole.common.objects import allgather_object, broadcast_object
from farandole.common.operations import public
from farandole.common.parameters import named_parameters
from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.torch import mpi_ops
from farandole.torch.memory import may_overlap

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]

Parameters = Union[Dict[str, Any], Iterable[Tuple[str, Any]], Iterable[torch.Tensor]]


@public
def broadcast_parameters(params: Parameters, root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    started = []
    for name, tensor in named_parameters(params, lambda each: isinstance(each, torch.Tensor)):
        if not isinstance(tensor, torch.Tensor):
            continue
        # A tensor whose memory does not hold its values one after the other is received into a copy that does.
        plain = tensor.detach()
        if tensor.layout == torch.strided:
            plain = plain.contiguous().resolve_neg().resolve_conj()
        handle = mpi_ops.broadcast_async_(plain, root_rank, name, process_set)
        started.append((handle, name, tensor, plain))
    for handle, name, tensor, plain in started:
        mpi_ops.synchronize(handle)
        if plain.data_ptr() != tensor.data_ptr() or tensor.is_neg() or tensor.is_conj():
            _write(name, tensor, plain)


def broadcast_module(module: torch.nn.Module) -> None:
    """Broadcasts rank 0's parameters, buffers and extra states, which may be objects of any kind."""
    state = module.state_dict()
    extra = {name: state.pop(name) for name in list(state) if name.rpartition(".")[2] == "_extra_state"}
    broadcast_parameters(state, root_rank=0)
    if extra:
        state.update(broadcast_object(extra, 0, "extra_state"))
        if mpi_ops.rank() != 0:
            module.load_state_dict(state)


@torch.no_grad()
def _write(name: str, tensor: torch.Tensor, values: torch.Tensor) -> None:
    target, source = tensor.detach(), values
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.size(dim) > 1:  # expanded: all rows are one row
            target, source = target.narrow(dim, 0, 1), source.narrow(dim, 0, 1)
    before = target.clone() if may_overlap(tensor) else None
    target.copy_(source)
    if before is not None and not torch.equal(_bytes_of(tensor), _bytes_of(values)):
        target.copy_(before)
        raise ValueError(
            f"broadcast_parameters cannot write to {name}: some of its elements share memory, and those of the root "
            "differ; assign tensor.contiguous() to it first"
        )


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of the values, which are equal where NaN is not."""
    return tensor.detach().contiguous().resolve_neg().resolve_conj().view(torch.uint8)


@public
def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Optional[torch.nn.Module] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"broadcast_optimizer_state takes a torch.optim.Optimizer, not {kind(optimizer)}; call "
            "broadcast_parameters for a model's state_dict()"
        )
    if isinstance(optimizer, torch.optim.LBFGS):
        # Its state is made of lists of tensors whose number changes from step to step.
        raise ValueError("cannot broadcast the state of torch.optim.LBFGS")
    is_root = mpi_ops.rank() == root_rank
    # The root broadcasts an outline of its state as an object, and then the tensors themselves.
    own = optimizer.state_dict()
    outline, tensors = _outline(own) if is_root else (None, [])
    outline = broadcast_object(outline, root_rank, "optimizer_state", process_set)
    if not is_root:
        # With the strides of the root: a fused step takes for granted that a state has those of its parameter.
        tensors = [torch.empty_strided(shape, stride, dtype=dtype) for shape, stride, dtype in outline["tensors"]]
    hosts = [tensor.detach().cpu() for tensor in tensors]
    named = [(name, host) for name, host in zip(outline["names"], hosts)]
    broadcast_parameters(named, root_rank, process_set)
    if not is_root:
        optimizer.load_state_dict(_filled(outline, hosts))
        _keep_dtypes(optimizer, outline, hosts)
    if hasattr(optimizer, "begin_equal"):
        optimizer.begin_equal()


def _outline(state_dict: Dict[str, Any]) -> Tuple[Dict[str, Any], List[torch.Tensor]]:
    """The state with each tensor replaced by its index in a list, and this list."""
    tensors: List[torch.Tensor] = []
    names: List[str] = []
    state: Dict[Any, Dict[str, Any]] = {}
    for index, entries in state_dict["state"].items():
        state[index] = {}
        for key, value in entries.items():
            if isinstance(value, torch.Tensor):
                state[index][key] = _Placed(len(tensors))
                names.append(f"{key}.{len(tensors)}")
                tensors.append(value)
            else:
                state[index][key] = value
    rest = {key: value for key, value in state_dict.items() if key != "state"}
    described = [(tuple(each.shape), each.stride(), each.dtype) for each in tensors]
    return {"state": state, "rest": rest, "names": names, "tensors": described}, tensors


def _keep_dtypes(optimizer: torch.optim.Optimizer, outline: Dict[str, Any], tensors: List[torch.Tensor]) -> None:
    """``load_state_dict`` converts tensors to the parameter's type, which those of the root may not have."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    indices = [index for group in outline["rest"]["param_groups"] for index in group["params"]]
    for index, parameter in zip(indices, parameters):
        entries = optimizer.state.get(parameter, {})
        for key, value in outline["state"].get(index, {}).items():
            if isinstance(value, _Placed) and entries[key].dtype != tensors[value.index].dtype:
                entries[key] = tensors[value.index].to(entries[key].device)


class _Placed:
    """Placeholder for a tensor in an outline; holds its index in the list of tensors."""

    def __init__(self, index: int) -> None:
        self.index = index


def _filled(outline: Dict[str, Any], tensors: List[torch.Tensor]) -> Dict[str, Any]:
    state = {
        index: {key: tensors[value.index] if isinstance(value, _Placed) else value for key, value in entries.items()}
        for index, entries in outline["state"].items()
    }
    return {"state": state, **outline["rest"]}
