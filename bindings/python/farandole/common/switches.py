"""Settings that are on or off, read from the environment as the native table reads them."""

from __future__ import annotations

import os


def is_on(variable: str) -> bool:
    """Whether the variable says true, yes, on, or a number above 0. ``init()`` refuses other words."""
    text = os.environ.get(variable, "").strip().lower()
    if text in ("true", "yes", "on"):
        return True
    try:
        return float(text) > 0
    except ValueError:
        return False
