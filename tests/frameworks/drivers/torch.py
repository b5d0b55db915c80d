"""PyTorch tensors in host memory, or with FARANDOLE_TEST_DEVICE=cuda in the memory of the GPU of this rank."""

from __future__ import annotations

import os
from typing import Any, Callable

import numpy
import torch

from drivers import Driver


def _device() -> torch.device:
    """That of the tensors. Ranks of a host share GPUs if there are more ranks than GPUs."""
    kind = os.environ.get("FARANDOLE_TEST_DEVICE", "cpu")
    if kind == "cpu":
        return torch.device(kind)
    index = int(os.environ.get("HOROVOD_LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device(kind, index)


DEVICE = _device()


class FrameworkDriver(Driver):
    name = "torch"
    as_bytes = ("complex64",)  # others have a test of their own
    differentiates = True
    prelude = """
import torch
import horovod.torch as hvd
make = torch.tensor
read = lambda tensor: tensor.tolist()
"""

    def make(self, values: Any, dtype: str) -> Any:
        return torch.tensor(numpy.array(values)).to(DEVICE, getattr(torch, dtype))

    def to_numpy(self, tensor: Any) -> Any:
        plain = tensor.detach().cpu()
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()

    def dtype_of(self, tensor: Any) -> str:
        return str(tensor.dtype).split(".")[1]

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def gradient(self, function: Callable[[Any], Any], tensor: Any, weights: Any) -> Any:
        leaf = tensor.clone().requires_grad_()
        (function(leaf) * torch.tensor(weights).to(DEVICE)).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.cpu().numpy()
