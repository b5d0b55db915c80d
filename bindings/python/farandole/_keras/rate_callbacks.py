"""The Keras callbacks that change the learning rate while a model trains."""

from __future__ import annotations

from typing import Any, Dict, Optional

from farandole._keras.library import bring_home
from farandole.common.basics import HorovodBasics
from farandole.common.callbacks import Schedule, warmup

_basics = HorovodBasics(__file__, "mpi_lib_v2")

Logs = Optional[Dict[str, Any]]


class SchedulesRate:
    """Multiplies the initial learning rate by a function of the epoch.

    :param initial_lr: the rate that is multiplied
    :param multiplier: a function of the epoch, or a number that is raised to the epoch since ``start_epoch``
    :param start_epoch: the first epoch in which the rate is changed
    :param end_epoch: the first epoch in which it is no longer changed; None for no end
    :param staircase: change at the beginning of epochs only; otherwise before every batch
    :param momentum_correction: multiply the momentum by the new rate over the old rate for the batch in which the
        rate changes, if the optimizer has a momentum
    :param steps_per_epoch: the number of batches in an epoch; by default taken from Keras, if Keras knows it
    """

    model: Any
    params: Any

    def __init__(
        self,
        initial_lr: Optional[float],
        multiplier: Any,
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        super().__init__()
        self.schedule = Schedule(
            initial_lr, multiplier, start_epoch, end_epoch, staircase, momentum_correction, steps_per_epoch
        )
        self.current_epoch = 0
        self._momentum: Any = None

    def on_train_begin(self, logs: Logs = None) -> None:
        """Takes the number of batches in an epoch from Keras, if it was not given."""
        if not self.schedule.steps_per_epoch:
            self.schedule.steps_per_epoch = (self.params or {}).get("steps")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Records the epoch for the batches that follow."""
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Sets the rate for this batch if the schedule changes it."""
        if batch and self.schedule.is_staircase:
            return
        optimizer = self.model.optimizer
        bring_home(self.model)
        change = self.schedule.at(self.current_epoch, batch, _number(optimizer.learning_rate))
        if change is None:
            return
        _assign(optimizer, "learning_rate", change.learning_rate)
        if self.schedule.corrects_momentum and getattr(optimizer, "momentum", None) is not None:
            self._momentum = _number(optimizer.momentum)
            _assign(optimizer, "momentum", self._momentum * change.momentum_factor)

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Restores the momentum if it was corrected for this batch."""
        if self._momentum is not None:
            bring_home(self.model)
            _assign(self.model.optimizer, "momentum", self._momentum)
            self._momentum = None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Logs the rate as ``lr``."""
        if logs is not None:
            bring_home(self.model)
            logs["lr"] = _number(self.model.optimizer.learning_rate)


def _number(value: Any) -> float:
    return float(value.numpy() if hasattr(value, "numpy") else value)


def _assign(optimizer: Any, name: str, value: float) -> None:
    current = getattr(optimizer, name)
    if hasattr(current, "assign"):
        current.assign(value)
    else:
        setattr(optimizer, name, value)


class WarmsUp(SchedulesRate):
    """Raises the learning rate from ``initial_lr / size()`` to ``initial_lr`` over the first epochs.

    :param initial_lr: the rate after the warm-up: that of one rank, times ``size()``
    :param warmup_epochs: the length of the warm-up
    :param momentum_correction: as in ``LearningRateScheduleCallback``
    :param steps_per_epoch: the number of batches in an epoch; by default taken from Keras, if Keras knows it
    :param verbose: whether rank 0 reports the end of the warm-up
    """

    def __init__(
        self,
        initial_lr: Optional[float],
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            return warmup(_basics.size(), warmup_epochs, lambda: self.schedule.steps_per_epoch or 1)(epoch)

        super().__init__(initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch)  # type: ignore[arg-type]
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Reports the end of the warm-up on rank 0 if ``verbose``."""
        super().on_epoch_end(epoch, logs)
        if epoch == self.schedule.end_epoch - 1 and self.verbose > 0 and _basics.rank() == 0:  # type: ignore[operator]
            rate = _number(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.", flush=True)
