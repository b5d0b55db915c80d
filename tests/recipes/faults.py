"""Deliberate faults, by which the tests see that the player finds them."""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any, Callable, Dict, Optional


def _warns(seat: Any) -> None:
    if seat.is_in_job:
        warnings.warn("a deliberate warning", stacklevel=1)


def _raises(seat: Any) -> None:
    if seat.is_in_job and seat.is_last:
        raise RuntimeError("a deliberate error")


def _is_wrong(seat: Any) -> None:
    if not seat.is_in_job:
        raise RuntimeError("a deliberate error")


def _ends(seat: Any) -> None:
    if seat.is_in_job and seat.is_last:
        os._exit(3)


def _hangs(seat: Any) -> None:
    if seat.is_in_job and seat.is_last:
        threading.Event().wait()


# Each is a function of the seat of the player.
FAULTS: Dict[str, Callable[[Any], None]] = {
    "warns": _warns,
    "raises": _raises,
    "is_wrong": _is_wrong,
    "ends": _ends,
    "hangs": _hangs,
}

FORGOTTEN = "forgotten"
"""The optimizer does not follow the state of an elastic job."""

# The factor of a rank's gradients, so that all ranks have the same wrong ones.
GRADIENT_FAULTS: Dict[str, Callable[[Any], float]] = {
    "sum": lambda seat: seat.size,
    "of_rank_0": lambda seat: seat.size * (seat.rank == 0),
}


def gradient_factor(recipe: Any, seat: Any) -> float:
    """The factor of this rank's gradients: 1 without such a fault."""
    return GRADIENT_FAULTS[recipe.fault](seat) if seat.is_in_job and recipe.fault in GRADIENT_FAULTS else 1.0


def commit(
    training: Any, scale_bias: Callable[[float], Any], scale_rate: Optional[Callable[[float], Any]] = None
) -> None:
    """The fault of the recipe. `ValueError` names one that there is not.

    :param scale_bias: multiplies the bias of the model's head
    :param scale_rate: multiplies the rate, where it is not a part of the optimizer's state
    """
    name, seat = training.recipe.fault, training.seat
    if name in FAULTS:
        FAULTS[name](seat)
    elif name == "last_bit":
        if seat.is_in_job and seat.is_last:
            scale_bias(1 + 1e-15)  # other bits, within the tolerance
    elif name == "all_differ":
        if seat.is_in_job:
            scale_bias(1.001)  # all ranks are equal, but not to one process
    elif name == "rate" and scale_rate is not None:
        if seat.is_in_job:
            scale_rate(1.001)
    elif name not in (*GRADIENT_FAULTS, FORGOTTEN):
        raise ValueError(f"fault={name}: there is no such fault")
