"""The learning rate of an optimizer of Keras during a fit."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator


class ScaledRate:
    """Multiplies the learning rate of an optimizer, or the rate of its schedule.

    :param keras: the Keras of the optimizer
    :param factor: number of processes that train
    """

    def __init__(self, keras: Any, optimizer: Any, factor: int) -> None:
        self._optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        self._factor = factor
        schedules = keras.optimizers.schedules.LearningRateSchedule
        hyper = getattr(self._optimizer, "_hyper", None)
        self._has_hyper = hyper is not None
        given = hyper["learning_rate"] if hyper is not None else getattr(self._optimizer, "_learning_rate", None)
        self._schedule = given if isinstance(given, schedules) else None
        if self._schedule is None:
            self._set_number(self._number() * factor)
        else:
            self._scaled_schedule = _scaled(schedules, self._schedule, factor)
            self._set_schedule(self._scaled_schedule)

    @contextlib.contextmanager
    def unscaled(self) -> Iterator[None]:
        """While it is entered, the optimizer has the learning rate of a single process."""
        if self._schedule is not None:
            self._set_schedule(self._schedule)
            yield
            self._set_schedule(self._scaled_schedule)
            return
        rate = self._number()
        self._set_number(rate / self._factor)
        yield
        self._set_number(rate)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """While it is entered, variables of the optimizer may be given the values of a single process."""
        if self._schedule is None:
            self._set_number(self._number() / self._factor)
        yield
        if self._schedule is None:
            self._set_number(self._number() * self._factor)

    def _number(self) -> float:
        rate = self._optimizer.learning_rate
        return float(rate.numpy() if hasattr(rate, "numpy") else rate)

    def _set_number(self, rate: float) -> None:
        self._optimizer.learning_rate = rate

    def _set_schedule(self, schedule: Any) -> None:
        # Keras refuses to replace a schedule by its property, and reads this attribute in each step.
        if self._has_hyper:
            self._optimizer.learning_rate = schedule
        else:
            self._optimizer._learning_rate = schedule


def _scaled(base: Any, schedule: Any, factor: int) -> Any:
    class Scaled(base):
        """A schedule whose rate is a multiple of that of another schedule."""

        def __call__(self, step: Any) -> Any:
            return schedule(step) * factor

        def get_config(self) -> Any:
            return schedule.get_config()

    return Scaled()
