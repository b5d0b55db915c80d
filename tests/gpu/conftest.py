"""Every rank runs the same tests in the same order; the names of tensors come from the names of the tests.

Run by ``tools/test gpu``, or as ``horovodrun -np 2 python -m pytest tests/gpu``. The files ``test_launch*.py`` start
jobs themselves and are run by a plain pytest.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Iterator

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "parallel"))

from device_arrays import Stream  # noqa: E402


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path, config):  # type: ignore[no-untyped-def]
    """Ignores the tests that launch jobs where pytest itself runs as a rank of a job, and the others elsewhere."""
    if collection_path.suffix != ".py":
        return None
    return True if collection_path.name.startswith("test_launch") == ("HOROVOD_RANK" in os.environ) else None


@pytest.fixture(autouse=True)
def in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Starts the job, and keeps ranks from running ahead into the next test."""
    if request.node.path.name.startswith("test_launch"):
        yield
        return
    import farandole.numpy as hvd

    hvd.init()
    yield
    hvd.barrier()


@pytest.fixture
def stream() -> Iterator[Stream]:
    """The current stream of the test, on the GPU of this rank."""
    made = Stream()
    with made:
        yield made
    made.synchronize()
    made.destroy()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for tensors, the same on all ranks."""
    return str(request.node.name)


@pytest.fixture
def rank() -> int:
    import farandole.numpy as hvd

    return hvd.rank()


@pytest.fixture
def size() -> int:
    import farandole.numpy as hvd

    return hvd.size()
