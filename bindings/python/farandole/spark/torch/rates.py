"""Multiplies the learning rates of optimizers and schedulers, and those in their states.

A job of N ranks trains with N times the rates of a single process. Checkpoints and results have the latter.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable

_OF_GROUPS = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr")
_OF_SCHEDULERS = ("base_lrs", "max_lrs", "min_lrs", "default_min_lr", "eta_min", "_last_lr")


def scale_groups(groups: Iterable[Dict[str, Any]], factor: float) -> None:
    """Multiplies the rates in groups of parameters."""
    for group in groups:
        group.update({key: group[key] * factor for key in _OF_GROUPS if key in group})


def scale_schedulers(schedulers: Iterable[Any], factor: float) -> None:
    """Multiplies the rates that schedulers of PyTorch remember, also those inside of other schedulers.

    :param schedulers: schedulers, or their states
    """
    for each in schedulers:
        state = each if isinstance(each, dict) else getattr(each, "__dict__", {})
        for key in _OF_SCHEDULERS:
            value = state.get(key)
            if value is not None:
                state[key] = [rate * factor for rate in value] if isinstance(value, (list, tuple)) else value * factor
        scale_schedulers(state.get("_schedulers") or (), factor)
