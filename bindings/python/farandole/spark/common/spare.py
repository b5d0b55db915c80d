"""A batch with which a rank that has run out of rows takes part in the steps of the other ranks."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

import farandole.numpy as hvd


class Spare:
    """Keeps the first batch of this rank, or that of another rank if this rank has no rows.

    :param packed: turns a batch into a value that can be sent
    :ivar batch: the batch; None before any rank had one
    """

    def __init__(self, packed: Callable[[Any], Any] = lambda batch: batch) -> None:
        self._packed = packed
        self.batch: Any = None

    def kept_from(self, batches: Iterator[Any]) -> Iterator[Any]:
        """The same batches, of which the first is kept. All ranks call it together."""
        if self.batch is not None:
            return batches
        first = self.batch = next(batches, None)
        present = hvd.allgather_object(first is not None, name="estimator.present")
        if any(present) and not all(present):
            sent = None if first is None else self._packed(first)
            received = hvd.broadcast_object(sent, present.index(True), name="estimator.batch")
            self.batch = received if first is None else first
        return batches if first is None else itertools.chain([first], batches)
