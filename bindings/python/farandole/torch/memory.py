"""Memory for the result of an operation: a new tensor, recycled memory, or memory that the core has allocated."""

from __future__ import annotations

from typing import Any, Optional

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
