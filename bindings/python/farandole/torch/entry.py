"""Submits PyTorch tensors to the native runtime, and returns their results.

The runtime reads and writes the memory of the tensors, on the host and on GPUs. If it cannot reach the memory of GPUs,
PyTorch copies their tensors through host memory (`gpu.py`). The functions
return an object with ``settled()``, ``wait()``, ``finish()`` and ``number``: the native handle itself, or a ``Call``
around several handles. While a profiler runs, they are ranges in it: ``is_in_range`` says that this one is already.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import torch

from farandole.common.arguments import FAILURES
from farandole.common.calls import Call, handles_of
from farandole.common.exceptions import make_error
from farandole.common.process_sets import ProcessSet
from farandole.torch.arguments import explain, explain_group, require_tensors
from farandole.torch.gpu import copied, in_host_memory, must_copy
from farandole.torch.memory import bytes_of, elements_of, gathered, has_unknown_type, like, rows_of_bytes
from farandole.torch.profiler_ranges import flags, start_in_range
from farandole.torch.submission import submit, submit_group


def start(
    request: Any,
    name: Optional[str],
    tensor: Any,
    output: Any,
    process_set: ProcessSet,
    apart: bool = False,
    absent: bool = False,
    is_in_range: bool = False,
) -> Any:
    """Submits a tensor with memory for the result; ``apart`` if the two must not share memory, ``absent`` if this rank
    contributes nothing, so the tensor is zeros."""
    if flags._is_profiler_enabled and not is_in_range:
        return start_in_range(request, name, start, tensor, output, process_set, apart, absent)
    try:
        return submit(request, name, tensor, output, process_set.process_set_id, None, absent)
    except FAILURES:
        if _moves_as_bytes(request, tensor):
            return _start_values(request, name, tensor, output, process_set, apart)
        explain(request.prefix, name, tensor, process_set, output is tensor)
        raise
    except NotImplementedError:
        if tensor.is_neg():
            return _start_values(request, name, tensor, output, process_set, apart)
        if not must_copy(tensor):
            raise
    host = in_host_memory(tensor)
    target = torch.empty_like(output, device="cpu") if apart else host
    handle = submit(request, name, host, target, process_set.process_set_id, None, absent)
    return Call([handle], lambda: copied([output], [target])[0])


def _start_values(
    request: Any, name: Optional[str], tensor: torch.Tensor, output: Any, process_set: ProcessSet, apart: bool
) -> Any:
    """Submits the values of a lazily negated or conjugated tensor, such as ``z.conj().imag``, whose memory holds other
    numbers. Elements of a type that the runtime does not know are submitted as bytes."""
    values = tensor.resolve_neg().resolve_conj()
    target = values if output is tensor else output
    as_bytes = _moves_as_bytes(request, values)
    sent = bytes_of(values) if as_bytes else values
    received = sent if target is values else bytes_of(target) if as_bytes else target
    call = start(request, name, sent, received, process_set, apart, is_in_range=True)

    def finish() -> Any:
        call.finish()
        return output if target is output else copied([output], [target])[0]

    return Call(handles_of(call), finish)


def _moves_as_bytes(request: Any, tensor: Any) -> bool:
    """Whether an operation that computes nothing can take the tensor as bytes, and not otherwise."""
    return (
        "reduce" not in request.prefix
        and isinstance(tensor, torch.Tensor)
        and has_unknown_type(tensor)
        and tensor.is_contiguous()
    )


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
    request: Any,
    name: Optional[str],
    tensor: Any,
    process_set: ProcessSet,
    splits: Optional[List[int]] = None,
    absent: bool = False,
    is_in_range: bool = False,
) -> Any:
    """Submits a tensor. The core allocates the memory for the result, whose size depends on the other ranks."""
    if flags._is_profiler_enabled and not is_in_range:
        return start_in_range(request, name, start_unsized, tensor, process_set, splits, absent)
    try:
        handle = submit(request, name, tensor, None, process_set.process_set_id, splits, absent)
    except FAILURES:
        if _moves_as_bytes(request, tensor):
            call = start_unsized(request, name, rows_of_bytes(tensor), process_set, splits, absent, is_in_range=True)
            return Call(call.handles, lambda: elements_of(call.finish(), tensor.dtype))
        explain(request.prefix, name, tensor, process_set)
        raise
    except NotImplementedError:
        if tensor.is_neg():
            return start_unsized(request, name, tensor.resolve_neg(), process_set, splits, absent, is_in_range=True)
        if not must_copy(tensor):
            raise
        handle = submit(request, name, in_host_memory(tensor), None, process_set.process_set_id, splits, absent)
    # The core allocates in host memory.
    return Call([handle], lambda: gathered(handle).to(tensor.device))


def start_group(
    request: Any,
    name: Any,
    tensors: Sequence[Any],
    outputs: Optional[List[Any]],
    process_set: ProcessSet,
    apart: bool = False,
    absent: Optional[List[bool]] = None,
    is_in_range: bool = False,
) -> Any:
    """Submits several tensors, all or none. Without ``outputs``, the core allocates the memory for the results.

    :param name: of the group, or a list of the names of all tensors
    :param absent: for each tensor, whether this rank contributes nothing
    """
    if flags._is_profiler_enabled and not is_in_range:
        return start_in_range(request, name, start_group, tensors, outputs, process_set, apart, absent)
    tensors = list(require_tensors(request.prefix, name, tensors))
    if not tensors:
        raise ValueError(f"{request.prefix} takes at least one tensor, not an empty list; leave out the call")
    try:
        return _start_group(request, name, tensors, outputs, process_set, apart, absent)
    except FAILURES:
        if outputs is None and any(_moves_as_bytes(request, each) for each in tensors):
            return _start_group_of_bytes(request, name, tensors, process_set, absent)
        in_place = outputs is not None and outputs[0] is tensors[0]
        explain_group(request.prefix, name, tensors, process_set, in_place)
        raise


def _start_group_of_bytes(
    request: Any, name: Any, tensors: List[torch.Tensor], process_set: ProcessSet, absent: Optional[List[bool]]
) -> Call:
    """Submits a group in which the runtime does not know all types."""
    unknown = [_moves_as_bytes(request, each) for each in tensors]
    sent = [rows_of_bytes(each) if moves else each for each, moves in zip(tensors, unknown)]
    call = start_group(request, name, sent, None, process_set, absent=absent, is_in_range=True)

    def finish() -> Any:
        results = zip(call.finish(), tensors, unknown)
        return tuple(elements_of(result, each.dtype) if moves else result for result, each, moves in results)

    return Call(call.handles, finish)


def start_group_new(
    request: Any,
    name: Optional[str],
    tensors: Sequence[Any],
    process_set: ProcessSet,
    reused: Optional[Sequence[bool]] = None,
) -> Any:
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


def start_group_in_place(request: Any, name: Optional[str], tensors: Sequence[Any], process_set: ProcessSet) -> Any:
    """Submits several tensors to which the results are written."""
    tensors = require_tensors(request.prefix, name, tensors)
    return start_group(request, name, tensors, list(tensors), process_set)


def start_group_unsized(request: Any, name: Optional[str], tensors: Sequence[Any], process_set: ProcessSet) -> Any:
    """Submits several tensors. The core allocates the memory for the results."""
    return start_group(request, name, tensors, None, process_set)


def _start_group(
    request: Any,
    name: Any,
    tensors: List[Any],
    outputs: Optional[List[Any]],
    process_set: ProcessSet,
    apart: bool,
    absent: Optional[List[bool]],
) -> Call:
    if any(each.device != tensors[0].device for each in tensors):
        raise make_error("invalid argument", "all tensors of a group must be on the same device")
    device = tensors[0].device
    try:
        handles = submit_group(request, name, tensors, outputs, process_set.process_set_id, absent)
    except NotImplementedError:
        if any(each.is_neg() for each in tensors):
            values = [each.resolve_neg() for each in tensors]
            targets = outputs and [
                value if output is each else output for value, output, each in zip(values, outputs, tensors)
            ]
            call = _start_group(request, name, values, targets, process_set, apart, absent)
            return call if outputs is None else Call(call.handles, lambda: copied(outputs, call.finish()))
        if not must_copy(tensors[0]):
            raise
    else:
        if outputs is None:
            return Call(handles, lambda: tuple(gathered(handle).to(device) for handle in handles))
        return Call(handles, lambda: tuple(outputs))
    hosts = [in_host_memory(each) for each in tensors]
    if outputs is None:
        handles = submit_group(request, name, hosts, None, process_set.process_set_id, absent)
        return Call(handles, lambda: tuple(gathered(handle).to(device) for handle in handles))
    targets = [torch.empty_like(each, device="cpu") for each in outputs] if apart else hosts
    handles = submit_group(request, name, hosts, targets, process_set.process_set_id, absent)
    return Call(handles, lambda: copied(outputs, targets))


def records_gradients(tensors: Sequence[Any]) -> bool:
    """Whether autograd must record an operation on these tensors."""
    return torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in tensors)
