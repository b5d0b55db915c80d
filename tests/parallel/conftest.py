"""Every rank runs the same tests in the same order; the names of tensors come from the names of the tests.

Run as ``horovodrun -np 2 python -m pytest tests/parallel``, or with ``mpirun``; any number of ranks, one included. The
files ``test_launch*.py`` start jobs themselves and are run by a plain pytest. A test that hangs ends its process (see
pyproject.toml), and with it the job.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest
from elastic_jobs import Hosts
from launched import Job, write_script


def _is_one_of_many() -> bool:
    return "HOROVOD_RANK" in os.environ or "OMPI_COMM_WORLD_RANK" in os.environ


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path, config):  # type: ignore[no-untyped-def]
    """Ignores the tests that launch jobs when pytest itself runs as a rank of a job."""
    return True if _is_one_of_many() and collection_path.name.startswith("test_launch") else None


@pytest.fixture(autouse=True)
def in_step(request: pytest.FixtureRequest) -> Iterator[None]:
    """Starts the job, and keeps ranks from running ahead into the next test."""
    # A test that one rank runs alone must not wait for the other ranks.
    marks = request.node.iter_markers("skipif")
    runs_alone = any(mark.kwargs.get("reason") == "one rank is enough" for mark in marks)
    if runs_alone or request.node.path.name.startswith("test_launch"):
        yield
        return
    import horovod.torch as hvd

    if not hvd.is_initialized():
        hvd.init()
    yield
    if not hvd.is_initialized():
        hvd.init()
    hvd.barrier()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT raises KeyboardInterrupt in this process, even if pytest has inherited that it is ignored, as the shell of
    a script does for its commands in the background."""
    inherited = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, inherited)


@pytest.fixture
def stream() -> Iterator[Any]:
    """A stream of this rank's GPU, which is current in this thread."""
    from device_arrays import Stream

    made = Stream()
    with made:
        yield made
    made.synchronize()
    made.destroy()


@pytest.fixture
def jobs() -> Iterator[List[Job]]:
    """The jobs of the test. Those that still run at its end are killed."""
    started: List[Job] = []
    yield started
    for job in started:
        job.kill()


@pytest.fixture
def elastic(tmp_path: Path, jobs: List[Job], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Launches a script: flags go to the launcher, arguments to the script, and keywords to the environment.
    `survivors_report`: see SURVIVORS_REPORT in launched.py."""

    def start(script: str, flags: List[str], *arguments: str, survivors_report: bool = False, **settings: str) -> Job:
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        words = [*flags, sys.executable, write_script(tmp_path, script), *arguments]
        jobs.append(Job(words, survivors_report=survivors_report))
        return jobs[-1]

    return start


@pytest.fixture
def py_spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of py-spy, which prints how it was called as a stack."""
    program = tmp_path / "py-spy"
    program.write_text('#!/bin/sh\necho "Thread of $@"\necho "    wait (script.py:9)"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for tensors, the same on all ranks."""
    return str(request.node.name)


@pytest.fixture
def rank() -> int:
    import horovod.torch as hvd

    return hvd.rank()


@pytest.fixture
def size() -> int:
    import horovod.torch as hvd

    return hvd.size()
