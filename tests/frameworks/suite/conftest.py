"""The framework under test."""

from __future__ import annotations

from types import ModuleType

import drivers
import pytest

_driver = drivers.current()


@pytest.fixture
def driver() -> drivers.Driver:
    return _driver


@pytest.fixture
def hvd() -> ModuleType:
    return _driver.hvd
