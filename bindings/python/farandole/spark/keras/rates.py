"""The learning rate of an optimizer of Keras during a fit."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator, List, Optional, Tuple

from farandole._keras.library import nested


class ScaledRate:
    """Multiplies the learning rate of an optimizer, or of each optimizer inside of it: a number, the result of a
    schedule or that of a function.

    :param keras: the Keras of the optimizer
    :param optimizer: an optimizer that has been built, because a ``MultiOptimizer`` may know those inside of it only
        then
    :param factor: number of processes that train
    """

    def __init__(self, keras: Any, optimizer: Any, factor: int) -> None:
        self._factor = factor
        self._numbers: List[Any] = []
        """The optimizers whose rates are numbers."""
        self._functions: List[Tuple[Any, Any, Any]] = []
        """The other optimizers, with their rates and the multiples of these."""
        for each in nested(optimizer):
            if len(list(nested(each))) > 1:
                continue  # it has no rate of its own
            function = _function_of(each)
            if function is None:
                self._numbers.append(each)
            else:
                self._functions.append((each, function, _scaled(keras, function, factor)))
        self._multiply(factor)
        for each, _, scaled in self._functions:
            _set_function(each, scaled)

    @contextlib.contextmanager
    def unscaled(self) -> Iterator[None]:
        """While it is entered, the optimizer has the learning rate of a single process."""
        rates = [_number(each) for each in self._numbers]
        self._multiply(1 / self._factor)
        for each, function, _ in self._functions:
            _set_function(each, function)
        yield
        for each, rate in zip(self._numbers, rates):
            each.learning_rate = rate
        for each, _, scaled in self._functions:
            _set_function(each, scaled)

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """While it is entered, variables of the optimizer may be given the values of a single process."""
        self._multiply(1 / self._factor)
        yield
        self._multiply(self._factor)

    def _multiply(self, factor: float) -> None:
        for each in self._numbers:
            each.learning_rate = _number(each) * factor


def _number(optimizer: Any) -> float:
    rate = optimizer.learning_rate
    return float(rate.numpy() if hasattr(rate, "numpy") else rate)


def _function_of(optimizer: Any) -> Optional[Callable[..., Any]]:
    """The schedule or function that gives the rate; None if it is a number."""
    hyper = getattr(optimizer, "_hyper", None)  # of a legacy optimizer
    given = getattr(optimizer, "_learning_rate", None) if hyper is None else hyper["learning_rate"]
    return given if callable(given) and not hasattr(given, "assign") else None


def _set_function(optimizer: Any, function: Any) -> None:
    # Keras refuses to replace a schedule by its property, and reads this attribute in each step.
    name = "learning_rate" if hasattr(optimizer, "_hyper") else "_learning_rate"
    setattr(optimizer, name, function)


def _scaled(keras: Any, function: Any, factor: int) -> Any:
    schedules: Any = keras.optimizers.schedules.LearningRateSchedule
    if not isinstance(function, schedules):
        return lambda: function() * factor

    class Scaled(schedules):
        """A schedule whose rate is a multiple of that of another schedule."""

        def __call__(self, step: Any) -> Any:
            return function(step) * factor

        def get_config(self) -> Any:
            return function.get_config()

    return Scaled()
