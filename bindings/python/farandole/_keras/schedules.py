"""The arithmetic of the callbacks that change the learning rate, without any framework."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional


class Change(NamedTuple):
    """What a batch is to be trained with."""

    learning_rate: float
    momentum_factor: float
    """What the momentum is multiplied by while this batch is trained."""


class Schedule:
    """A learning rate that is a function of the epoch, from one epoch to another.

    :param multiplier: of the initial rate: a number per epoch, or a function of the epoch
    :param end_epoch: the first that is no longer changed; None: there is none
    :param is_staircase: changes at the beginning of epochs only; otherwise the function gets fractions
    """

    def __init__(
        self,
        initial_lr: Optional[float],
        multiplier: Any,
        start_epoch: int = 0,
        end_epoch: Optional[int] = None,
        is_staircase: bool = True,
        corrects_momentum: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        if initial_lr is None:
            raise ValueError("initial_lr is needed: the learning rate that the multiplier is applied to")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.is_staircase = is_staircase
        self.corrects_momentum = corrects_momentum
        self.steps_per_epoch = steps_per_epoch
        self.multiplier: Callable[[float], float] = (
            multiplier if callable(multiplier) else lambda epoch: multiplier ** (epoch - start_epoch)
        )

    def at(self, epoch: int, batch: int, current_lr: float) -> Optional[Change]:
        """What changes before this batch; None: nothing."""
        if epoch < self.start_epoch or (self.end_epoch is not None and epoch >= self.end_epoch):
            return None
        if self.is_staircase:
            if batch != 0:
                return None
            when: float = epoch
        else:
            if not self.steps_per_epoch:
                raise ValueError(
                    "steps_per_epoch is needed: Keras does not say how many batches an epoch has, and the learning "
                    "rate is to change within it"
                )
            when = epoch + batch / self.steps_per_epoch
        rate = float(self.initial_lr * self.multiplier(when))
        factor = rate / current_lr if self.corrects_momentum and current_lr else 1.0
        return Change(rate, factor)


def warmup(size: int, warmup_epochs: float, steps_per_epoch: Callable[[], int]) -> Callable[[float], float]:
    """From a ``size``-th of the rate to all of it (Goyal et al., arXiv:1706.02677), linearly over some epochs; it is
    reached with the last batch."""

    def multiplier(epoch: float) -> float:
        epoch += 1.0 / steps_per_epoch()
        return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

    return multiplier
