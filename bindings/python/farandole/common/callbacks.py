"""The arithmetic of callbacks, independent of any framework: learning rates by epoch and batch, averages of logged
values over all ranks, and the progress of an elastic training.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional

from farandole.common.basics import HorovodBasics
from farandole.common.process_sets import global_process_set


class Change(NamedTuple):
    """The learning rate and the momentum factor for a batch."""

    learning_rate: float
    momentum_factor: float
    """The momentum is multiplied by this factor while the batch is trained."""


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
        """The change before this batch; None if there is none."""
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


def average_logs(logs: Dict[str, Any]) -> None:
    """Averages every number and array that is logged over all ranks, in place, and leaves all else alone. The order is
    that of the names, so that ranks whose dictionaries were filled in another order agree."""
    from farandole.common.arrays import start
    from farandole.common.calls import allreduces

    request = allreduces[HorovodBasics.Average, 1.0, 1.0, False]
    # All are converted before the first is submitted: a conversion that fails leaves nothing behind.
    values = {name: value for name in sorted(logs) if (value := _numbers_of(logs[name])) is not None}
    started = []
    try:
        for name, value in values.items():
            started.append(start(request, f"metric.{name}", value, value, global_process_set))
    finally:
        problems = [problem for problem in map(_problem_of, started) if problem is not None]
    if problems:
        raise problems[0]
    for name, value in values.items():
        logs[name] = value if value.ndim else value.item()


def _numbers_of(value: Any) -> Any:
    """A new array of float64 of anything numeric; None for other values, such as text."""
    import numpy

    if hasattr(value, "detach"):  # a tensor of PyTorch, which may be on a device
        value = value.detach().cpu()
    try:
        array = numpy.asarray(value)
        return None if array.dtype.kind in "OSUmMc" else array.astype("float64")
    except (TypeError, ValueError):  # lists of different lengths
        return None


def _problem_of(call: Any) -> Optional[Exception]:
    """Waits for an operation. Returns the exception with which it failed."""
    try:
        call.finish()
    except Exception as problem:  # raised by the caller, when all others have ended
        return problem
    return None


class Cadence:
    """When to commit: after every so many batches, and at the end of each epoch.

    :param batches: ``ValueError`` unless positive
    """

    def __init__(self, batches: int = 1) -> None:
        if batches < 1:
            raise ValueError(f"a commit after every {batches} batches: it must be 1 at least")
        self.batches = batches
        self.remaining = batches

    def restart(self) -> None:
        """Counts anew."""
        self.remaining = self.batches

    def batch_ended(self) -> bool:
        """Whether it is time to commit; counts anew if it is."""
        self.remaining -= 1
        if self.remaining > 0:
            return False
        self.restart()
        return True


class RestOfEpoch:
    """How many batches an epoch still has, when training goes on in the middle of one."""

    def __init__(self) -> None:
        self._steps: Optional[int] = None

    def restart(self) -> None:
        """Another ``fit()``, whose epochs may have another length."""
        self._steps = None

    def steps(self, given: Optional[int], done: int) -> Optional[int]:
        """For the epoch that begins.

        :param given: the batches of a whole epoch, as the framework says; counts the first time
        :param done: the batches of this epoch that are done already
        :returns: None where the framework does not say
        """
        if not given:
            return given
        if self._steps is None:
            self._steps = given
        return self._steps - done


def epochs_done(before: int, epoch: int) -> int:
    """At the end of an epoch of this ``fit()``, which counts from 0; ``before`` were done when it began."""
    return before + epoch + 1
