"""Submits PyTorch tensors to the native runtime, and returns their results.

Tensors in host memory are submitted without a copy; tensors of a GPU are copied through host memory. The functions
return an object with ``settled()``, ``wait()``, ``finish()`` and ``number``: the native handle itself, or a ``Call``
around several handles.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from farandole.common.arguments import FAILURES
from farandole.common.calls import Call
from farandole.common.exceptions import make_error
from farandole.common.process_sets import ProcessSet
from farandole.torch.arguments import explain, explain_group, require_tensors
from farandole.torch.memory import gathered, like
from farandole.torch.submission import submit, submit_group


def is_on_gpu(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.is_cuda


def start(
    request: Any, name: Optional[str], tensor: Any, output: Any, process_set: ProcessSet, apart: bool = False
) -> Any:
    """Submits a tensor with memory for the result; ``apart`` if the two must not share memory."""
    try:
        return submit(request, name, tensor, output, process_set.process_set_id)
    except FAILURES:
        explain(request.prefix, name, tensor, process_set, output is tensor)
        if not is_on_gpu(tensor):
            raise
    host = _in_host_memory(tensor)
    target = torch.empty_like(output, device="cpu") if apart else host
    handle = submit(request, name, host, target, process_set.process_set_id)
    return Call([handle], lambda: _copied([output], [target])[0])


def start_new(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Any:
    """Submits a tensor with new memory of the same shape and type for the result."""
    try:
        output = like(tensor)
    except (TypeError, RuntimeError):
        explain(request.prefix, name, tensor, process_set)
        raise
    return start(request, name, tensor, output, process_set)


def start_in_place(request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet) -> Any:
    """Submits a tensor to which the result is written."""
    return start(request, name, tensor, tensor, process_set)


def start_unsized(
    request: Any, name: Optional[str], tensor: Any, process_set: ProcessSet, splits: Optional[List[int]] = None
) -> Call:
    """Submits a tensor. The core allocates the memory for the result, whose size depends on the other ranks."""
    if not is_on_gpu(tensor):
        try:
            handle = submit(request, name, tensor, None, process_set.process_set_id, splits)
        except FAILURES:
            explain(request.prefix, name, tensor, process_set)
            raise
        return Call([handle], lambda: gathered(handle))
    explain(request.prefix, name, tensor, process_set)
    handle = submit(request, name, _in_host_memory(tensor), None, process_set.process_set_id, splits)
    return Call([handle], lambda: gathered(handle).to(tensor.device))


def start_group(
    request: Any,
    name: Optional[str],
    tensors: Sequence[Any],
    outputs: Optional[List[Any]],
    process_set: ProcessSet,
    apart: bool = False,
) -> Call:
    """Submits several tensors, all or none. Without ``outputs``, the core allocates the memory for the results."""
    tensors = list(require_tensors(request.prefix, name, tensors))
    if not tensors:
        raise ValueError(f"{request.prefix} takes at least one tensor, not an empty list; leave out the call")
    try:
        return _start_group(request, name, tensors, outputs, process_set, apart)
    except FAILURES:
        in_place = outputs is not None and outputs[0] is tensors[0]
        explain_group(request.prefix, name, tensors, process_set, in_place)
        raise


def start_group_new(
    request: Any,
    name: Optional[str],
    tensors: Sequence[Any],
    process_set: ProcessSet,
    reused: Optional[Sequence[bool]] = None,
) -> Call:
    """Submits several tensors with new memory of the same shapes and types for the results. Where ``reused`` is True,
    the result is written to the tensor itself instead."""
    tensors = require_tensors(request.prefix, name, tensors)
    try:
        if reused is None:
            outputs = [like(each) for each in tensors]
        else:
            outputs = [each if is_reused else like(each) for each, is_reused in zip(tensors, reused)]
    except RuntimeError:
        explain_group(request.prefix, name, tensors, process_set)
        raise
    return start_group(request, name, tensors, outputs, process_set)


def start_group_in_place(request: Any, name: Optional[str], tensors: Sequence[Any], process_set: ProcessSet) -> Call:
    """Submits several tensors to which the results are written."""
    tensors = require_tensors(request.prefix, name, tensors)
    return start_group(request, name, tensors, list(tensors), process_set)


def start_group_unsized(request: Any, name: Optional[str], tensors: Sequence[Any], process_set: ProcessSet) -> Call:
    """Submits several tensors. The core allocates the memory for the results."""
    return start_group(request, name, tensors, None, process_set)


def _start_group(
    request: Any,
    name: Optional[str],
    tensors: List[Any],
    outputs: Optional[List[Any]],
    process_set: ProcessSet,
    apart: bool,
) -> Call:
    if any(each.device != tensors[0].device for each in tensors):
        raise make_error("invalid argument", "all tensors of a group must be on the same device")
    if not is_on_gpu(tensors[0]):
        handles = submit_group(request, name, tensors, outputs, process_set.process_set_id)
        if outputs is None:
            return Call(handles, lambda: tuple(gathered(handle) for handle in handles))
        return Call(handles, lambda: tuple(outputs))
    device = tensors[0].device
    hosts = [_in_host_memory(each) for each in tensors]
    if outputs is None:
        handles = submit_group(request, name, hosts, None, process_set.process_set_id)
        return Call(handles, lambda: tuple(gathered(handle).to(device) for handle in handles))
    targets = [torch.empty_like(each, device="cpu") for each in outputs] if apart else hosts
    handles = submit_group(request, name, hosts, targets, process_set.process_set_id)
    return Call(handles, lambda: _copied(outputs, targets))


def _in_host_memory(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_contiguous():
        raise ValueError("the tensor must be contiguous; call .contiguous() first")
    return tensor.detach().cpu()


def _copied(outputs: Sequence[torch.Tensor], hosts: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, ...]:
    with torch.no_grad():
        for output, host in zip(outputs, hosts):
            output.copy_(host)
    return tuple(outputs)


def records_gradients(tensors: Sequence[Any]) -> bool:
    """Whether autograd must record an operation on these tensors."""
    return torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in tensors)
