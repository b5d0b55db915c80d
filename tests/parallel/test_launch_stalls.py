"""Tensors that some ranks submit and others do not: who is told, by which names, and when that ends the job."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Callable

import pytest
from launched import PRELUDE, Job, launch, needs_launcher

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

QUICK = ["--stall-check-warning-time-seconds", "1"]
MISSING = r"Missing ranks:\n(?:\[\d\]<stderr>:)?{}: \[{}\]"

# Rank 1 goes on when the test has seen what it waits for: opening the other end of the pipe lets it.
STUCK = """
import sys
def stuck():
    if hvd.rank() == 1:
        open(sys.argv[1]).close()
"""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("board", ["0", "1"])
def test_a_warning_names_the_tensor_and_the_rank_that_is_missing(
    board: str, pipe: Path, launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARANDOLE_FAST_PATH", board)
    script = PRELUDE + STUCK + "for _ in range(4):\n    hvd.allreduce(numpy.ones(4), name='grad.a')\n"
    script += "stuck()\nhvd.allreduce(numpy.ones(4), name='grad.a')\nprint('went on', flush=True)\n"
    job = launch(3, script, str(pipe), flags=QUICK)
    job.read_until(lambda text: re.search(MISSING.format(1, r"allreduce\.grad\.a"), text) is not None)
    assert "stall warning time (HOROVOD_STALL_CHECK_TIME_SECONDS) = 1 s" in job.text
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text
    assert job.text.count("went on") == 3
    speakers = set(re.findall(r"\[(\d)\]<stderr>:.*Some ranks have submitted", job.text))
    assert speakers == {"0"}, job.text


def test_names_of_a_process_set_and_many_of_them(pipe: Path, launch: Callable[..., Job]) -> None:
    script = (
        PRELUDE.replace("hvd.init()", "pair = hvd.ProcessSet([1, 2])\nhvd.init(process_sets=[pair])")
        + STUCK
        + """
stuck()
if hvd.rank() > 0:
    handles = [hvd.allreduce_async(numpy.ones(4), name=f"part.{i}", process_set=pair) for i in range(8)]
    for handle in handles:
        hvd.synchronize(handle)
hvd.barrier()
"""
    )
    job = launch(3, script, str(pipe), flags=QUICK)
    wanted = MISSING.format(1, ", ".join([r"allreduce\.part\.\d"] * 6) + ", …")
    job.read_until(lambda text: re.search(wanted, text) is not None)
    assert "have submitted tensors of process set 1 that others have not" in job.text
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text


def test_the_shutdown_time_ends_the_job_and_says_why(pipe: Path, launch: Callable[..., Job]) -> None:
    script = PRELUDE + STUCK + "hvd.allreduce(numpy.ones(4), name='good')\n"
    script += """
if hvd.rank() == 0:
    try:
        hvd.allreduce(numpy.ones(4), name="lonely")
    except hvd.OperationTimeoutError as end:
        print("told:", end, flush=True)
stuck()
"""
    job = launch(2, script, str(pipe), flags=[*QUICK, "--stall-check-shutdown-time-seconds", "2"])
    job.read_until(lambda text: "lonely!]" in text[text.find("told:") :])
    told = job.text[job.text.index("told:") :]
    assert "stall shutdown time (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS) = 2 s has passed" in told, job.text
    assert re.search(r"1: \[allreduce\.lonely!\]", told), job.text
    job.open_for_reader(pipe)
    job.end()


def test_a_shutdown_time_that_is_no_longer_than_the_warning_time_is_ignored_aloud(launch: Callable[..., Job]) -> None:
    job = launch(2, PRELUDE, flags=[*QUICK, "--stall-check-shutdown-time-seconds", "1"])
    assert job.end() == 0, job.text
    assert len(re.findall(r"stall shutdown time \(.*\) = 1 s is ignored", job.text)) == 1, job.text
