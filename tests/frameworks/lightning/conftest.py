"""The two packages of Lightning."""

from __future__ import annotations

import importlib
import warnings
from typing import Any, Iterator

import pytest


@pytest.fixture(params=["lightning.pytorch", pytest.param("pytorch_lightning", marks=pytest.mark.slow)])
def pl(request: pytest.FixtureRequest) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield importlib.import_module(request.param)
