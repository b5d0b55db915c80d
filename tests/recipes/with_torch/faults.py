"""Deliberate faults, by which the tests see that the player finds them."""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING, Callable, Dict

import torch

from with_torch.seats import Rank

if TYPE_CHECKING:
    from with_torch.training import Training


def _last_bit(training: Training) -> None:
    """One rank has other bits, within the tolerance."""
    if isinstance(training.seat, Rank) and training.seat.is_last:
        with torch.no_grad():
            training.model.head.bias.mul_(1 + 1e-15)


def _all_differ(training: Training) -> None:
    """All ranks are equal, but not to one process."""
    if isinstance(training.seat, Rank):
        with torch.no_grad():
            training.model.head.bias.mul_(1.001)


def _rate(training: Training) -> None:
    if isinstance(training.seat, Rank):
        training.optimizers[0].param_groups[0]["lr"] *= 1.001


def _warns(training: Training) -> None:
    if isinstance(training.seat, Rank):
        warnings.warn("a deliberate warning", stacklevel=1)


def _raises(training: Training) -> None:
    if isinstance(training.seat, Rank) and training.seat.is_last:
        raise RuntimeError("a deliberate error")


def _is_wrong(training: Training) -> None:
    if not isinstance(training.seat, Rank):
        raise RuntimeError("a deliberate error")


def _ends(training: Training) -> None:
    if isinstance(training.seat, Rank) and training.seat.is_last:
        os._exit(3)


def _hangs(training: Training) -> None:
    if isinstance(training.seat, Rank) and training.seat.is_last:
        threading.Event().wait()


FAULTS: Dict[str, Callable[[Training], None]] = {
    "last_bit": _last_bit,
    "all_differ": _all_differ,
    "rate": _rate,
    "warns": _warns,
    "raises": _raises,
    "is_wrong": _is_wrong,
    "ends": _ends,
    "hangs": _hangs,
}
