"""Tests of the adapters. ``suite`` holds what is true of every framework: it runs on one framework at a time, in the
environment of that framework, on ranks of a job:

    FARANDOLE_TEST_FRAMEWORK=torch horovodrun -np 2 python -m pytest tests/frameworks/suite

A folder with a framework's name holds what is true of it alone; its files ``test_launch*.py`` start jobs themselves and
are run by a plain pytest. ``arithmetic`` holds what is decided without any framework: it needs NumPy and no job.

Every rank runs the same tests in the same order; the names of tensors come from the names of the tests.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Iterator, List

import pytest

# Helpers that launch jobs are shared with the tests of the runtime.
sys.path.append(str(Path(__file__).resolve().parent.parent / "parallel"))

from launched import Job  # noqa: E402

WITHOUT_A_JOB = ("arithmetic",)


def _is_one_of_many() -> bool:
    return "HOROVOD_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path, config):  # type: ignore[no-untyped-def]
    """Ranks of a job do not launch jobs."""
    return True if _is_one_of_many() and collection_path.name.startswith("test_launch") else None


@pytest.fixture(autouse=True)
def in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Starts the job, and keeps ranks from running ahead into the next test. The runtime is the same for all
    frameworks, so this needs none."""
    path = request.node.path
    if path.name.startswith("test_launch") or path.parent.name in WITHOUT_A_JOB:
        yield
        return
    import farandole.numpy as job

    # Not again where it runs: if another rank's test has ended it by now, this rank would begin the next one early.
    if not job.is_initialized():
        job.init(process_sets="dynamic")
    yield
    if not job.is_initialized():
        job.init(process_sets="dynamic")
    job.barrier()


@pytest.fixture
def jobs() -> Iterator[List[Job]]:
    """What is put in here ends with the test, if it still runs."""
    started: List[Job] = []
    yield started
    for each in started:
        each.kill()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for tensors, the same on all ranks."""
    return str(request.node.name)


@pytest.fixture
def rank() -> int:
    import farandole.numpy as job

    return job.rank()


@pytest.fixture
def size() -> int:
    import farandole.numpy as job

    return job.size()
