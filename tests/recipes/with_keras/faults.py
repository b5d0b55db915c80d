"""Deliberate faults that change the model or the rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Dict

from faults import FAULTS

if TYPE_CHECKING:
    from with_keras.training import Training


def _scale_bias(training: Training, factor: float) -> None:
    bias = training.model.get_layer("head").bias
    bias.assign(bias * factor)


def _last_bit(training: Training) -> None:
    """One rank has other bits, within the tolerance."""
    if training.seat.is_in_job and training.seat.is_last:
        _scale_bias(training, 1 + 1e-15)


def _all_differ(training: Training) -> None:
    """All ranks are equal, but not to one process."""
    if training.seat.is_in_job:
        _scale_bias(training, 1.001)


def _rate(training: Training) -> None:
    if training.seat.is_in_job:
        rate = training.model.optimizer.learning_rate
        rate.assign(rate * 1.001)


CHANGES: Dict[str, Callable[[Training], None]] = {"last_bit": _last_bit, "all_differ": _all_differ, "rate": _rate}


def commit(training: Training) -> None:
    """The fault of the recipe."""
    name = training.recipe.fault
    if name in CHANGES:
        CHANGES[name](training)
    else:
        FAULTS[name](training.seat)
