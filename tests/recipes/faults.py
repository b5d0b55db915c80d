"""Deliberate faults, by which the tests see that the player finds them. Each is a function of the seat of the player.

Those that change a model or a rate are in the `faults.py` of the frameworks.
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import Any, Callable, Dict


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


FAULTS: Dict[str, Callable[[Any], None]] = {
    "warns": _warns,
    "raises": _raises,
    "is_wrong": _is_wrong,
    "ends": _ends,
    "hangs": _hangs,
}
