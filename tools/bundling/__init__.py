"""Makes folders that run on machines without package registries; ``__main__.py`` is the command ``tools/bundle``."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Refused(Exception):
    """The bundle cannot be made; the text says why, and what the user can do."""
