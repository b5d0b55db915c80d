"""How a rank without rows takes part in the steps of the other ranks: with a spare batch that counts for no rows."""

from __future__ import annotations

from typing import Callable

import torch
from torch.nn.modules.batchnorm import _NormBase

import farandole.torch as hvd


def keep_statistics(model: torch.nn.Module) -> Callable[[], None]:
    """Copies the running statistics of normalisations. Returns a function that puts them back.

    Those of ``hvd.SyncBatchNorm`` are left out, because they must stay the same on all ranks.
    """
    layers = [
        each for each in model.modules() if isinstance(each, _NormBase) and not isinstance(each, hvd.SyncBatchNorm)
    ]
    kept = [(buffer, buffer.clone()) for each in layers for buffer in each.buffers(recurse=False)]

    def put_back() -> None:
        for buffer, copy in kept:
            buffer.copy_(copy)

    return put_back
