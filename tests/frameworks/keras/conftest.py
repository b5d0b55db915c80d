"""One suite for every Keras: ``KERAS_BACKEND`` chooses Keras 3's backend, ``TF_USE_LEGACY_KERAS=1`` Keras 2, and
``FARANDOLE_TEST_KERAS`` the binding: ``keras`` (the default) or ``tensorflow.keras``."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

# The sibling folders have the names of frameworks, and Keras checks which frameworks can be imported.
_BESIDE = Path(__file__).resolve().parents[1]
sys.path[:] = [each for each in sys.path if Path(each).resolve() != _BESIDE]

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

from typing import Any  # noqa: E402

import pytest  # noqa: E402

BINDING = os.environ.get("FARANDOLE_TEST_KERAS", "keras")


@pytest.fixture(scope="session")
def hvd() -> Any:
    return importlib.import_module(f"horovod.{BINDING}")


@pytest.fixture(scope="session")
def keras() -> Any:
    if BINDING == "keras":
        return importlib.import_module("keras")
    return importlib.import_module("tensorflow").keras


@pytest.fixture(scope="session")
def backend(keras: Any) -> str:
    return keras.backend.backend() if hasattr(keras, "ops") else "tensorflow"
