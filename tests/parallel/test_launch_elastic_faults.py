"""Elastic jobs with a faulty script end soon and report the cause."""

from __future__ import annotations

import re
from typing import Callable

from elastic_jobs import beginnings
from launched import Job, assert_gone, needs_launcher

pytestmark = needs_launcher

# Step 0 or 3 fails in one of several ways; a job that does not stop retrying exits with code 42.
SCRIPT = """
import os, sys
import numpy, farandole.numpy as hvd

manner = sys.argv[1]
slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
state = hvd.elastic.NumPyState(step=0)
tries = 0

@hvd.elastic.run
def train(state):
    global tries
    tries += 1
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {state.step} pid {os.getpid()}", flush=True)
    if tries > 10:
        os._exit(42)
    while True:
        if manner == "again" and state.step == 0:
            raise hvd.HorovodInternalError("the disk is away")
        if manner == "alone" and state.step == 3 and hvd.rank() == 1:
            hvd.broadcast(numpy.ones(2), root_rank=7, name="weights")
        hvd.allreduce(numpy.ones(3 + (hvd.rank() if manner == "shapes" and state.step == 3 else 0)), name="gradient")
        state.step += 1
        state.commit()

train(state)
"""


def test_a_mismatch_ends_the_loop_at_once_on_all_ranks(elastic: Callable[..., Job]) -> None:
    job = elastic(SCRIPT, ["-np", "2", "--min-np", "1", "-H", "localhost:2"], "shapes", survivors_report=True)
    assert job.end() == 1, job.text
    for rank in range(2):
        assert re.search(rf"(?m)^\[{rank}\]<stderr>:.*MismatchError: allreduce.gradient: shapes differ", job.text)
    assert len(beginnings(job.text)) == 2, job.text
    assert_gone([beginning.pid for beginning in beginnings(job.text)])


def test_a_rank_with_an_invalid_call_ends_alone_and_is_the_cause(elastic: Callable[..., Job]) -> None:
    job = elastic(SCRIPT, ["-np", "2", "--min-np", "2", "-H", "localhost:2"], "alone")
    assert job.end() == 1, job.text
    assert re.search(r"(?m)^\[1\]<stderr>:.*ValueError: broadcast.weights: .*7", job.text), job.text
    assert "Process localhost[1] exit with status code 1." in job.text
    assert "Process localhost[0] exit with status code 42." not in job.text
    assert_gone([beginning.pid for beginning in beginnings(job.text)])


def test_a_repeated_error_ends_the_job_at_its_reset_limit(elastic: Callable[..., Job]) -> None:
    job = elastic(
        SCRIPT, ["-np", "2", "--min-np", "2", "-H", "localhost:2", "--reset-limit", "3"], "again", survivors_report=True
    )
    assert job.end() == 1, job.text
    assert "over more often than --reset-limit 3 allows; the last error was: the disk is away" in job.text
    assert "reset limit is exceeded" in job.text
    for slot in range(2):
        assert len([beginning for beginning in beginnings(job.text) if beginning.slot == slot]) == 4, job.text
