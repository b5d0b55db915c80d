"""Batch normalisation in a step in which a rank repeats a batch that counts for no rows."""

from __future__ import annotations

from typing import Callable

import torch
from torch.nn.modules.batchnorm import _NormBase

import farandole.torch as hvd


def keep_statistics(model: torch.nn.Module) -> Callable[[], None]:
    """Copies the running statistics of normalisations. Returns a function that puts them back.

    Those of ``hvd.SyncBatchNorm`` are the same on all ranks. Until the call of that function, the rows of this rank do
    not count in them.
    """
    layers = [each for each in model.modules() if isinstance(each, _NormBase)]
    synchronised = [each for each in layers if isinstance(each, hvd.SyncBatchNorm)]
    own = [each for each in layers if each not in synchronised]
    kept = [(buffer, buffer.clone()) for each in own for buffer in each.buffers(recurse=False)]
    for each in synchronised:
        each.counts_rows = False

    def put_back() -> None:
        for buffer, copy in kept:
            buffer.copy_(copy)
        for each in synchronised:
            each.counts_rows = True

    return put_back
