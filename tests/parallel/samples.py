"""Numbers that every rank can make for every other rank, and what their reductions are."""

from __future__ import annotations

from typing import Callable, Dict

import torch

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
REDUCIBLE = INTEGERS + FLOATS
ALL_TYPES = [*REDUCIBLE, torch.bool]

EXACT: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Sum": lambda stacked: stacked.sum(0),
    "Min": lambda stacked: stacked.min(0).values,
    "Max": lambda stacked: stacked.max(0).values,
    "Product": lambda stacked: stacked.prod(0),
}


def sample(rank: int, dtype: torch.dtype, shape=(5, 7)) -> torch.Tensor:  # type: ignore[no-untyped-def]
    """Small numbers, so that sums and products of a few ranks are exact in every type."""
    generator = torch.Generator().manual_seed(1000 + rank)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    low = 0 if dtype == torch.uint8 else -3
    return torch.randint(low, 4, shape, generator=generator).to(dtype)


def samples(size: int, dtype: torch.dtype, shape=(5, 7)) -> torch.Tensor:  # type: ignore[no-untyped-def]
    """Those of all ranks, one after the other."""
    return torch.stack([sample(rank, dtype, shape) for rank in range(size)])


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """In a type that computes exactly."""
    return tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)
