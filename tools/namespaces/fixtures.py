"""Fixtures of pytest for tests with namespaces; a conftest assigns those that it uses to names of its own."""

from __future__ import annotations

import signal
import sys
from typing import Iterator

import pytest

from namespaces import why_not


@pytest.fixture(scope="session", autouse=True)
def sigterm_raises_system_exit() -> Iterator[None]:
    """SIGTERM raises SystemExit, so that the fixtures remove their namespaces."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def permitted() -> None:
    """Skips the tests where no hosts can be made."""
    if reason := why_not():
        pytest.skip(reason)
