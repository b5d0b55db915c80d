"""Tests of the framework bindings. ``suite`` holds the tests that every framework must pass. It runs on one framework
at a time, in the environment of that framework, on the ranks of a job:

    FARANDOLE_TEST_FRAMEWORK=torch horovodrun -np 2 python -m pytest tests/frameworks/suite

A folder with a framework's name holds the tests of that framework alone. Its files ``test_launch*.py`` start jobs
themselves, so a plain pytest runs them. ``arithmetic`` holds the tests of logic that needs no framework: they need
NumPy and no job.

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


def _runs_as_a_rank() -> bool:
    return "HOROVOD_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path, config):  # type: ignore[no-untyped-def]
    """Leaves out the tests that launch jobs where pytest itself runs as a rank of a job."""
    return True if _runs_as_a_rank() and collection_path.name.startswith("test_launch") else None


@pytest.fixture(autouse=True)
def in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Starts the job, and holds the ranks at a barrier so that none begins the next test early. The runtime is the
    same for all frameworks, so this fixture imports none of them."""
    path = request.node.path
    if path.name.startswith("test_launch") or path.parent.name in WITHOUT_A_JOB:
        yield
        return
    import farandole.numpy as job

    # A running job is not initialized again: if another rank's test has already shut the job down, init() would make
    # this rank begin the next job early.
    if not job.is_initialized():
        job.init(process_sets="dynamic")
    yield
    if not job.is_initialized():
        job.init(process_sets="dynamic")
    job.barrier()


@pytest.fixture
def jobs() -> Iterator[List[Job]]:
    """A list of jobs; the fixture kills those that still run when the test ends."""
    started: List[Job] = []
    yield started
    for job in started:
        job.kill()


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
