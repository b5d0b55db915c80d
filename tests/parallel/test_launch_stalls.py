"""Tensors that some ranks submit and others do not: the warnings, the names in them, and the end of the job."""

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

# Rank 1 waits at the pipe until the test, which has read the expected output, opens the other end.
WAIT_FOR_TEST = """
import sys
def wait_for_test():
    if hvd.rank() == 1:
        open(sys.argv[1]).close()
"""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("fast_path", ["0", "1"])
def test_a_stall_warning_names_the_tensor_and_the_missing_rank(
    fast_path: str, pipe: Path, launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARANDOLE_FAST_PATH", fast_path)
    script = PRELUDE + WAIT_FOR_TEST + "for _ in range(4):\n    hvd.allreduce(numpy.ones(4), name='grad.a')\n"
    script += "wait_for_test()\nhvd.allreduce(numpy.ones(4), name='grad.a')\nprint('went on', flush=True)\n"
    job = launch(3, script, str(pipe), flags=QUICK)
    job.read_until(lambda text: re.search(MISSING.format(1, r"allreduce\.grad\.a"), text) is not None)
    assert "stall warning time (HOROVOD_STALL_CHECK_TIME_SECONDS) = 1 s" in job.text
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text
    assert job.text.count("went on") == 3
    warning_ranks = set(re.findall(r"\[(\d)\]<stderr>:.*Some ranks have submitted", job.text))
    assert warning_ranks == {"0"}, job.text


def test_a_stall_warning_of_a_process_set_names_at_most_six_tensors(pipe: Path, launch: Callable[..., Job]) -> None:
    script = (
        PRELUDE.replace("hvd.init()", "pair = hvd.ProcessSet([1, 2])\nhvd.init(process_sets=[pair])")
        + WAIT_FOR_TEST
        + """
wait_for_test()
if hvd.rank() > 0:
    handles = [hvd.allreduce_async(numpy.ones(4), name=f"part.{i}", process_set=pair) for i in range(8)]
    for handle in handles:
        hvd.synchronize(handle)
hvd.barrier()
"""
    )
    job = launch(3, script, str(pipe), flags=QUICK)
    expected = MISSING.format(1, ", ".join([r"allreduce\.part\.\d"] * 6) + ", …")
    job.read_until(lambda text: re.search(expected, text) is not None)
    assert "have submitted tensors of process set 1 that others have not" in job.text
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text


def test_the_stall_shutdown_time_ends_the_job_with_its_reason(pipe: Path, launch: Callable[..., Job]) -> None:
    script = PRELUDE + WAIT_FOR_TEST + "hvd.allreduce(numpy.ones(4), name='good')\n"
    script += """
if hvd.rank() == 0:
    try:
        hvd.allreduce(numpy.ones(4), name="lonely")
    except hvd.OperationTimeoutError as end:
        print("told:", end, flush=True)
wait_for_test()
"""
    job = launch(2, script, str(pipe), flags=[*QUICK, "--stall-check-shutdown-time-seconds", "8"])
    job.read_until(lambda text: "lonely!]" in text[text.find("told:") :])
    message = job.text[job.text.index("told:") :]
    assert "stall shutdown time (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS) = 8 s has passed" in message, job.text
    assert re.search(r"1: \[allreduce\.lonely!\]", message), job.text
    job.open_for_reader(pipe)
    job.end()


def test_a_shutdown_time_that_is_no_longer_than_the_warning_time_is_ignored_with_a_warning(
    launch: Callable[..., Job],
) -> None:
    job = launch(2, PRELUDE, flags=[*QUICK, "--stall-check-shutdown-time-seconds", "1"])
    assert job.end() == 0, job.text
    assert len(re.findall(r"stall shutdown time \(.*\) = 1 s is ignored", job.text)) == 1, job.text
