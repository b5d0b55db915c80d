"""How a rank without rows takes part in the steps of the other ranks: with a spare batch that counts for no rows."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

import torch
from torch.nn.modules.batchnorm import _NormBase

import farandole.torch as hvd


class Spare:
    """Keeps the first batch of this rank, or that of another rank if this rank has no rows.

    :ivar batch: the batch; None before any rank had one
    """

    def __init__(self) -> None:
        self.batch: Any = None

    def kept_from(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches, of which the first is kept. All ranks call it together."""
        if self.batch is not None:
            return batches
        first = self.batch = next(batches, None)
        present = hvd.allgather_object(first is not None, name="estimator.present")
        if any(present) and not all(present):
            sent = hvd.broadcast_object(first, present.index(True), name="estimator.batch")
            self.batch = sent if first is None else first
        return batches if first is None else itertools.chain([first], batches)


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
