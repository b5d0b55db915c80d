"""Memory for what comes out of an operation: a new tensor, memory that was used before, or what the core has made."""

from __future__ import annotations

from typing import Any, Optional

import torch

from farandole.common import job as _job
from farandole.torch.dtypes import NUMBERS


def like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for the result of an operation that is not done in place."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format, requires_grad=False)


def warm_memory(dtype: torch.dtype, elements: int) -> Optional[torch.Tensor]:
    """A vector of any content, in memory that was used before where there is some; None before ``init()``, and for
    types that cannot travel."""
    number = NUMBERS.get(dtype)
    capsule = None if number is None else _job.runtime.memory(number, elements)
    return None if capsule is None else torch.utils.dlpack.from_dlpack(capsule)


def gathered(handle: Any) -> torch.Tensor:
    """The memory that the core allocated, as a tensor; not copied."""
    return torch.utils.dlpack.from_dlpack(handle.dlpack())
