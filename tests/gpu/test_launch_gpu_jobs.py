"""An elastic job whose tensors are in GPU memory: one of three workers is killed. The tensors move through the host,
or by NCCL where each worker has a GPU of its own; operations are complete when the GPU has their work, or when it has
done it.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Iterator

import pytest
from device_arrays import IS_STAND_IN
from device_jobs import PRELUDE
from elastic_jobs import beginnings
from launched import Job, assert_gone, clean_environment, needs_launcher, write_script

pytestmark = needs_launcher

# Each member trains until it has done 5 steps in a generation of two. The sums are looked at behind the commit: what
# was committed is right, whenever the operations are complete for their callers.
TRAINING = (
    PRELUDE
    + """
from device_arrays import nccl

slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
state = hvd.elastic.NumPyState(step=0)
stream = Stream()
steps_of_two = 0

@hvd.elastic.run
def train(state):
    global steps_of_two
    before = nccl.fakeNcclKernelsLaunched() if nccl else 0
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {state.step} pid {os.getpid()}", flush=True)
    while steps_of_two < 5:
        with stream:
            arrays = [DeviceArray(numpy.full(count, 1.0, "float32")) for count in (1, 1000, 2_000_000)]
            totals = [summed(f"gradient.{number}", each) for number, each in enumerate(arrays)]
        state.step += 1
        state.commit()
        assert all((total == hvd.size()).all() for total in totals), totals
        steps_of_two += hvd.size() == 2
    by_nccl = nccl and nccl.fakeNcclKernelsLaunched() > before  # in the last generation
    assert not nccl or nccl.fakeNcclMisuses() == 0
    print("DONE by", "NCCL" if by_nccl else "host", flush=True)

train(state)
"""
)


@pytest.fixture(params=["0", "1"], ids=["at the end", "at launch"])
def completion(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["staged", "auto"])
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def training(tmp_path: Path, path: str, completion: str) -> Iterator[Job]:
    flags = ["-np", "3", "--min-np", "2", "-H", "localhost:3", "--blacklist-cooldown-range", "600", "700"]
    environment = {
        **clean_environment(),
        "FARANDOLE_GPU_PATH": path,
        "HOROVOD_ENABLE_ASYNC_COMPLETION": completion,
        "FARANDOLE_FAKE_GPUS": "4",
    }
    job = Job([*flags, sys.executable, write_script(tmp_path, TRAINING)], environment)
    yield job
    job.kill()


def test_the_others_continue_when_a_worker_is_killed_in_an_operation(training: Job, path: str) -> None:
    training.read_until(lambda text: len(beginnings(text)) == 3)
    killed = next(each for each in beginnings(training.text) if each.rank == 2)
    os.kill(killed.pid, signal.SIGKILL)
    assert training.end() == 0, training.text
    assert training.text.count("DONE by") == 2, training.text
    if IS_STAND_IN:
        assert training.text.count("DONE by " + ("NCCL" if path == "auto" else "host")) == 2, training.text
    assert_gone([beginning.pid for beginning in beginnings(training.text)])
