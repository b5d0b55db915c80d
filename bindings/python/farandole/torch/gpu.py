"""GPU tensors: whether the runtime reaches their memory, or PyTorch has to copy them to the host and back."""

from __future__ import annotations

import functools
import logging
from typing import Any, Sequence, Tuple

import torch

from farandole import _native

_log = logging.getLogger("farandole.torch")


def is_on_gpu(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and tensor.is_cuda


@functools.cache
def _why_out_of_reach() -> str:
    """Why the runtime cannot reach GPU memory in this process; empty if it can. Logged once."""
    if torch.version.hip is not None:
        reason = "Farandole supports CUDA's devices alone, and this PyTorch was built for ROCm"
    else:
        reason = _native.why_no_devices()
    if reason:
        _log.warning("PyTorch copies GPU tensors through host memory, and waits for each copy: %s", reason)
    return reason


def must_copy(tensor: Any) -> bool:
    """Whether the runtime has refused the tensor because it is in GPU memory that it cannot reach."""
    return is_on_gpu(tensor) and bool(_why_out_of_reach())


def in_host_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of a GPU tensor."""
    if not tensor.is_contiguous():
        raise ValueError("the tensor must be contiguous; call .contiguous() first")
    return tensor.detach().cpu()


def copied(outputs: Sequence[torch.Tensor], hosts: Sequence[torch.Tensor]) -> Tuple[torch.Tensor, ...]:
    """The outputs, after the host's results were copied to them."""
    with torch.no_grad():
        for output, host in zip(outputs, hosts):
            output.copy_(host)
    return tuple(outputs)
