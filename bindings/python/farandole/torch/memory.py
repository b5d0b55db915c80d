"""Memory for the result of an operation: a new tensor, recycled memory, or memory that the core has allocated."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import torch

from farandole.common import job as _job
from farandole.torch.dtypes import NUMBERS


def like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for the result of an operation that is not in place."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)


def warm_memory(dtype: torch.dtype, elements: int) -> Optional[torch.Tensor]:
    """An uninitialised vector, in recycled memory if there is any. None before ``init()``, and for element types that
    the runtime does not support."""
    number = NUMBERS.get(dtype)
    capsule = None if number is None else _job.runtime.memory(number, elements)
    return None if capsule is None else torch.utils.dlpack.from_dlpack(capsule)


def gathered(handle: Any) -> torch.Tensor:
    """The result that the core allocated, as a tensor, without a copy."""
    return torch.utils.dlpack.from_dlpack(handle.dlpack())


def reals_of(tensor: torch.Tensor) -> torch.Tensor:
    """A complex tensor as pairs of real numbers, which are reduced one by one; any other tensor as it is."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def complex_like(tensor: torch.Tensor, reals: torch.Tensor) -> torch.Tensor:
    """The inverse of ``reals_of``, for a tensor like this one."""
    return torch.view_as_complex(reals) if tensor.is_complex() else reals


def with_reals(reduce: Callable[[List[torch.Tensor]], Sequence[torch.Tensor]], gradients: Any) -> List[torch.Tensor]:
    """Reduces gradients; complex ones as pairs of real numbers. Those of integers and of bools are zeros, and stay."""
    moving = [each.is_floating_point() or each.is_complex() for each in gradients]
    reduced = iter(reduce([reals_of(each).contiguous() for each, moves in zip(gradients, moving) if moves]))
    return [complex_like(each, next(reduced)) if moves else each for each, moves in zip(gradients, moving)]


def may_overlap(tensor: torch.Tensor) -> bool:
    """Whether elements of a tensor may share memory, as those of an expanded one do."""
    reach = 0
    for stride, length in sorted(zip(tensor.stride(), tensor.shape)):
        if length > 1:
            if stride <= reach:
                return True
            reach += stride * (length - 1)
    return False


def has_unknown_type(tensor: torch.Tensor) -> bool:
    """Whether the runtime does not know the tensor's type of elements, and the tensor has memory of its own."""
    return tensor.dtype not in NUMBERS and tensor.layout == torch.strided and not tensor.is_meta


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor. Those of an element are a dimension of their own, behind the others."""
    return tensor.detach().unsqueeze(-1).view(torch.uint8)


def rows_of_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """``bytes_of`` for operations on rows, which refuse a scalar of any type."""
    return bytes_of(tensor.resolve_conj()) if tensor.dim() else torch.zeros((), dtype=torch.uint8)


def elements_of(content: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The inverse of ``bytes_of``."""
    return content.view(dtype).squeeze(-1)
