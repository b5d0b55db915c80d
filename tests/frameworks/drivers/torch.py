"""PyTorch tensors in host memory."""

from __future__ import annotations

from typing import Any, Callable

import numpy
import torch

from drivers import Driver


class FrameworkDriver(Driver):
    name = "torch"
    differentiates = True
    prelude = """
import torch
import horovod.torch as hvd
make = torch.tensor
read = lambda tensor: tensor.tolist()
"""

    def make(self, values: Any, dtype: str) -> Any:
        return torch.tensor(numpy.array(values)).to(getattr(torch, dtype))

    def to_numpy(self, tensor: Any) -> Any:
        plain = tensor.detach()
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()

    def dtype_of(self, tensor: Any) -> str:
        return str(tensor.dtype).split(".")[1]

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def gradient(self, function: Callable[[Any], Any], tensor: Any, weights: Any) -> Any:
        leaf = tensor.clone().requires_grad_()
        (function(leaf) * torch.tensor(weights)).sum().backward()
        assert leaf.grad is not None
        return leaf.grad.numpy()
