"""Lets all ranks take the same steps in Lightning's loops, and weighs rows equally.

Lightning's strategy reduces gradients in each step, so a rank that has run out of batches repeats its first batch with
a weight of zero: the gradients of the repetition are multiplied by zero, values that it logs count for no rows, and
running statistics stay as they were. Logged values are reduced at the end of a validation, so a rank without rows to
validate with repeats a batch there.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, Optional, Set

import torch

from farandole.spark.common.spare import Spare
from farandole.spark.common.steps import Epochs, Part, Steps


def rows_of(batch: Any) -> int:
    """The number of rows of a batch, which is a dict of columns, a sequence of tensors or a tensor."""
    first = next(iter(batch.values())) if isinstance(batch, dict) else batch
    while isinstance(first, (list, tuple)):
        first = first[0]
    return int(first.shape[0])


class TrainBatches:
    """The batches to train on, one epoch in each iteration. All ranks get the same number.

    :param epochs: the batches of this rank
    :param steps: the steps that all ranks take
    """

    def __init__(self, epochs: Epochs, steps: Steps) -> None:
        self._epochs = epochs
        self._steps = steps
        self._spare = Spare()
        self._ahead: Deque[Part] = deque()
        self.part: Optional[Part] = None
        """The part of this rank in the present step; None between steps."""

    def __iter__(self) -> Iterator[Any]:
        """One epoch. Lightning reads batches ahead, so their parts wait in a queue until their step begins."""
        self._ahead.clear()
        for part in self._steps(self._spare.kept_from(self._epochs.next())):
            self._ahead.append(part)
            yield self._spare.batch if part.batch is None else part.batch

    def begin_step(self) -> None:
        """Called when the step of the next batch begins."""
        self.part = self._ahead.popleft()

    def end_step(self) -> None:
        """Called when the step has ended. Values that are logged later are not means over its rows."""
        self.part = None


class ValidationBatches:
    """The batches to validate with, one epoch in each iteration. Their number may differ between ranks, and it has no
    length, because Lightning refuses a loader of length 0 on some ranks.

    :param epochs: the batches of this rank
    :ivar has_rows: whether this rank has rows in this epoch
    """

    def __init__(self, epochs: Epochs) -> None:
        self._epochs = epochs
        self._spare = Spare()
        self.has_rows = True

    def __iter__(self) -> Iterator[Any]:
        """One epoch."""
        batches = self._spare.kept_from(self._epochs.next())
        first = next(batches, None)
        self.has_rows = first is not None
        if self._spare.batch is not None:
            yield self._spare.batch if first is None else first
        yield from batches


class Logged:
    """Makes the values that a module logs for an epoch means over the rows of all ranks.

    :param train: gives the part of this rank in the present step
    """

    def __init__(self, train: TrainBatches, validation: ValidationBatches) -> None:
        self._train = train
        self._validation = validation
        self._rows: Optional[int] = None
        self.names: Dict[str, Set[str]] = {"train": set(), "validation": set()}
        """The names that were logged in each part of an epoch."""

    def begin_validation_batch(self, batch: Any) -> None:
        """Called before each batch of a validation."""
        self._rows = rows_of(batch) if self._validation.has_rows else 0

    def end_validation_batch(self) -> None:
        """Called after each batch of a validation."""
        self._rows = None

    def wrap(self, module: Any) -> Callable[[], None]:
        """Replaces the method ``log`` of the module. Returns a function that puts it back."""
        plain = module.log

        def log(name: str, value: Any, *args: Any, **options: Any) -> Any:
            validating = module.trainer.validating or module.trainer.sanity_checking or not module.training
            self.names["validation" if validating else "train"].add(name)
            part = self._train.part
            if validating and self._rows is not None:
                options["batch_size"] = self._rows
            elif part is not None:
                options["batch_size"] = 0 if part.batch is None else rows_of(part.batch)
            on_epoch = options.get("on_epoch")
            if (on_epoch or (on_epoch is None and validating)) and not options.get("on_step"):
                options["sync_dist"] = True
            return plain(name, value, *args, **options)

        module.log = log

        def put_back() -> None:
            del module.log

        return put_back


def scale_gradient(loss: torch.Tensor, scale: float) -> None:
    """Multiplies the gradient with which the backward pass of a loss begins."""
    if loss.requires_grad:
        loss.register_hook(lambda gradient: gradient * scale)
