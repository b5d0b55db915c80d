"""Gives parameters, optimizer states and any Python object to all ranks."""

from __future__ import annotations

import io
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import torch

from farandole.common.process_sets import ProcessSet, global_process_set
from farandole.torch import mpi_ops

Parameters = Union[Dict[str, Any], Iterable[Tuple[str, Any]], Iterable[torch.Tensor]]


def _named(params: Any) -> List[Tuple[str, Any]]:
    if isinstance(params, dict):
        return sorted(params.items())
    if not isinstance(params, (list, tuple)) and not hasattr(params, "__next__"):
        raise ValueError(f"invalid params: a dict, or a list of tensors or (name, tensor), not {type(params).__name__}")
    listed = list(params)
    if all(isinstance(each, torch.Tensor) for each in listed):
        return [(str(index), each) for index, each in enumerate(listed)]
    if all(isinstance(each, tuple) and len(each) == 2 for each in listed):
        return listed
    raise ValueError("invalid params: the list holds something else than tensors or (name, tensor)")


def broadcast_parameters(params: Parameters, root_rank: int, process_set: ProcessSet = global_process_set) -> None:
    """Gives one rank's parameters to all, in place.

    :param params: ``model.state_dict()``, ``model.named_parameters()`` or a list of tensors
    :param root_rank: the global rank whose parameters all receive
    :param process_set: who takes part; everybody by default
    """
    started = []
    for name, tensor in _named(params):
        if not isinstance(tensor, torch.Tensor):
            continue
        # What is laid out in another order goes through a copy that is not.
        plain = tensor.detach() if tensor.is_contiguous() else tensor.detach().contiguous()
        started.append((mpi_ops.broadcast_async_(plain, root_rank, name, process_set), tensor))
    for handle, tensor in started:
        received = mpi_ops.synchronize(handle)
        if not tensor.is_contiguous():
            with torch.no_grad():
                tensor.copy_(received)


def broadcast_object(
    obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Gives one rank's object to all.

    :param obj: anything that can be pickled; looked at on the root only
    :param root_rank: the global rank whose object all receive
    :param name: the same on all ranks
    :param process_set: who takes part; everybody by default
    :returns: the root's object
    """
    # Not named after the object's type: other ranks may well pass None.
    name = name or "object"
    content = torch.empty(0, dtype=torch.uint8)
    if mpi_ops.rank() == root_rank:
        content = _pickled(obj)
    length = torch.tensor([content.numel()], dtype=torch.int32)
    mpi_ops.broadcast_(length, root_rank, f"{name}.sz", process_set)
    if mpi_ops.rank() != root_rank:
        content = torch.empty(int(length.item()), dtype=torch.uint8)
    mpi_ops.broadcast_(content, root_rank, f"{name}.t", process_set)
    return obj if mpi_ops.rank() == root_rank else _unpickled(content)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Gives every rank's object to all.

    :param obj: anything that can be pickled
    :param name: the same on all ranks
    :param process_set: who takes part; everybody by default
    :returns: the objects in rank order
    """
    name = name or "object"
    content = _pickled(obj)
    lengths = mpi_ops.allgather(torch.tensor([content.numel()], dtype=torch.int64), f"{name}.sz", process_set)
    gathered = mpi_ops.allgather(content, f"{name}.t", process_set)
    return [_unpickled(each) for each in gathered.split(lengths.tolist())]


def _pickled(obj: Any) -> torch.Tensor:
    import cloudpickle

    stream = io.BytesIO()
    cloudpickle.dump(obj, stream)
    if stream.tell() >= 2**31:
        raise ValueError(f"the object takes {stream.tell()} bytes when pickled; at most 2 GiB can be sent at once")
    return torch.frombuffer(stream.getbuffer(), dtype=torch.uint8)


def _unpickled(content: torch.Tensor) -> Any:
    import pickle

    return pickle.loads(content.numpy().tobytes())


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Optional[torch.nn.Module] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Gives one rank's optimizer state and options to all, in place.

    An optimizer that has no state yet takes one step with zero gradients on the root to create it; parameters and
    gradients stay as they are.

    :param root_rank: the global rank whose state all receive
    :param model: tells which gradients are sparse
    :param process_set: who takes part; everybody by default
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        # Its state is made of lists of tensors whose number changes from step to step.
        raise ValueError("cannot broadcast the state of torch.optim.LBFGS")
    is_root = mpi_ops.rank() == root_rank
    if is_root and not optimizer.state_dict()["state"]:
        _create_state(optimizer, model)
    # The root says what there is; tensors then travel as tensors.
    own = optimizer.state_dict()
    outline, tensors = _outline(own) if is_root else (None, [])
    outline = broadcast_object(outline, root_rank, "optimizer_state", process_set)
    if not is_root:
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in outline["tensors"]]
    hosts = [tensor.detach().cpu().contiguous() for tensor in tensors]
    named = [(name, host) for name, host in zip(outline["names"], hosts)]
    broadcast_parameters(named, root_rank, process_set)
    if not is_root:
        optimizer.load_state_dict(_filled(outline, hosts))


def _create_state(optimizer: torch.optim.Optimizer, model: Optional[torch.nn.Module]) -> None:
    sparse = set()
    if model is not None:
        for module in model.modules():
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.sparse:
                sparse.add(id(module.weight))
    kept = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                kept.append((parameter, parameter.grad, parameter.detach().clone()))
                zeros = torch.zeros_like(parameter)
                parameter.grad = zeros.to_sparse() if id(parameter) in sparse else zeros
    # A wrapped optimizer's own step would wait for the other ranks.
    step = getattr(optimizer, "step_alone", optimizer.step)
    step()
    with torch.no_grad():
        for parameter, gradient, value in kept:
            parameter.copy_(value)
            parameter.grad = gradient


def _outline(state_dict: Dict[str, Any]) -> Tuple[Dict[str, Any], List[torch.Tensor]]:
    """The state without its tensors: each is replaced by its place in a list."""
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
    described = [(tuple(each.shape), each.dtype) for each in tensors]
    return {"state": state, "rest": rest, "names": names, "tensors": described}, tensors


class _Placed:
    """Stands where a tensor was."""

    def __init__(self, index: int) -> None:
        self.index = index


def _filled(outline: Dict[str, Any], tensors: List[torch.Tensor]) -> Dict[str, Any]:
    state = {
        index: {key: tensors[value.index] if isinstance(value, _Placed) else value for key, value in entries.items()}
        for index, entries in outline["state"].items()
    }
    return {"state": state, **outline["rest"]}
