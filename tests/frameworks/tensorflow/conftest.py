"""TensorFlow with one thread for each kind of work, so that several ranks share a machine."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("HOROVOD_DYNAMIC_PROCESS_SETS", "1")

from typing import Callable, TypeVar  # noqa: E402

import pytest  # noqa: E402

Function = TypeVar("Function", bound=Callable)


@pytest.fixture(params=["eager", "function"])
def run(request: pytest.FixtureRequest) -> Callable[[Function], Function]:
    """A decorator that runs a function of tensors eagerly or as a graph."""
    import tensorflow as tf

    return (lambda function: function) if request.param == "eager" else tf.function
