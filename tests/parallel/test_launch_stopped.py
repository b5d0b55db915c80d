"""Workers whose processes stop (SIGSTOP): the errors of the other workers, and the job without the stopped worker."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Callable, List

import pytest
from elastic_jobs import beginnings
from launched import PRELUDE, TIMEOUTS_S, Job, is_running, is_stopped, launch, needs_launcher, resume, wait_until

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

# With "between", the victim stops before it requests "last", for which the other ranks wait. With "within", it stops
# in a bundle: it requests "large" before "both", so the leader has its request once "both" is done, and the others
# request "large" after it has stopped.
STOPPED = """
victim, manner, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if hvd.rank() == victim:
    print(f"VICTIM {os.getpid()}.", flush=True)
try:
    for _ in range(5):
        hvd.allreduce(numpy.ones(4), name="last")
    if manner == "within":
        large = numpy.ones(1 << 20)
        early = hvd.allreduce_async(large, name="large") if hvd.rank() == victim else None
        hvd.allreduce(numpy.ones(4), name="both")
        if hvd.rank() == victim:
            os.kill(os.getpid(), signal.SIGSTOP)
            hvd.synchronize(early)
        else:
            open(f"{folder}/pipe.{hvd.rank()}").close()
            hvd.allreduce(large, name="large")
    else:
        if hvd.rank() == victim:
            os.kill(os.getpid(), signal.SIGSTOP)
        hvd.allreduce(numpy.ones(4), name="last")
    print("went on", flush=True)
except hvd.HorovodInternalError as end:
    print(f"TOLD {hvd.rank()} {type(end).__name__}: {end}", flush=True)
    raise
"""

TWO_HOSTS = """
import os
os.environ["FARANDOLE_HOST_ID"] = "host" + str(int(os.environ["HOROVOD_RANK"]) % 2)
"""


def await_stop(job: Job) -> int:
    """Waits until the victim has stopped, or has ended because of another rank, and returns its process id."""
    job.read_until(lambda text: re.search(r"VICTIM \d+\.", text) is not None)
    pid = int(re.findall(r"VICTIM (\d+)\.", job.text)[-1])
    wait_until(lambda: is_stopped(pid) or not is_running(pid), f"process {pid} stops")
    return pid


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("ranks", "victim", "manner", "hosts", "fast_path"),
    [
        pytest.param(3, 1, "between", "", "1", id="fast-path"),
        pytest.param(3, 0, "between", "", "1", id="fast-path-leader", marks=SLOW),
        pytest.param(2, 1, "between", "", "0", id="negotiation", marks=SLOW),
        pytest.param(3, 2, "within", "", "1", id="in-shared-memory", marks=SLOW),
        pytest.param(4, 3, "between", TWO_HOSTS, "1", id="between-hosts", marks=SLOW),
        pytest.param(4, 0, "between", TWO_HOSTS, "1", id="between-hosts-leader", marks=SLOW),
        pytest.param(4, 3, "within", TWO_HOSTS, "1", id="between-hosts-in-a-bundle", marks=SLOW),
    ],
)
def test_operations_that_wait_for_a_stopped_rank_time_out_and_name_it(
    ranks: int,
    victim: int,
    manner: str,
    hosts: str,
    fast_path: str,
    tmp_path: Path,
    launch: Callable[..., Job],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FARANDOLE_FAST_PATH", fast_path)
    others = [rank for rank in range(ranks) if rank != victim]
    for rank in others:
        os.mkfifo(tmp_path / f"pipe.{rank}")
    script, words = hosts + PRELUDE + STOPPED, (str(victim), manner, str(tmp_path))

    def errors(text: str) -> List[str]:
        return [line for rank in others for line in re.findall(rf"TOLD {rank} .*\n", text)]

    for timeout_s in TIMEOUTS_S:
        flags = ["--gloo-timeout-seconds", str(timeout_s), "--no-stall-check"]
        job = launch(ranks, script, *words, flags=flags, survivors_report=True)
        pid = await_stop(job)
        if manner == "within" and is_running(pid):
            for rank in others:
                job.open_for_reader(tmp_path / f"pipe.{rank}")
        job.read_until(lambda text: len(errors(text)) >= len(others))
        resume(pid)
        assert job.end() != 0
        if all(re.search(rf"\brank {victim} on \S+", line) for line in errors(job.text)):
            break
    else:
        pytest.fail(job.text)
    silent_s = re.findall(
        rf"OperationTimeoutError: .*rank {victim} on .* has made no progress for ([\d.]+) s", job.text
    )
    assert silent_s and all(float(seconds) >= 0.3 for seconds in silent_s), job.text
    assert f"operation timeout (HOROVOD_GLOO_TIMEOUT_SECONDS) = {timeout_s} s" in job.text
    # Between hosts, the small tensors that the other ranks sent before their timeout let rank 0 reduce the operation.
    if not (hosts and victim == 0 and manner == "between"):
        assert "went on" not in job.text


# The script trains until the file `enough` exists. The worker of one slot stops at its step 30.
TRAINING = """
import os, signal, sys
import numpy, farandole.numpy as hvd

victim, enough = int(sys.argv[1]), sys.argv[2]
slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.zeros(2), step=0)
stopped = False

@hvd.elastic.run
def train(state):
    global stopped
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {state.step} pid {os.getpid()}", flush=True)
    done = False
    while not done:
        if slot == victim and state.step == 30 and not stopped:
            stopped = True
            print(f"VICTIM {os.getpid()}.", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        asked = numpy.array([float(os.path.exists(enough))])
        done = bool(hvd.allreduce(asked, op=hvd.Max, name="done"))
        state.weight += 1.0
        state.step += 1
        state.commit()
    weights = hvd.allgather(state.weight.reshape(1, 2), name="weights")
    assert (weights == float(state.step)).all(), (weights, state.step)
    print(f"DONE slot {slot} of {hvd.size()}", flush=True)

train(state)
"""


# The launcher's option sets the operation timeout; a variable of its own environment would not reach the workers.
def sizes(operation_timeout_s: int) -> List[str]:
    return ["-np", "3", "--min-np", "1", "-H", "localhost:3", "--gloo-timeout-seconds", str(operation_timeout_s)]


LONG = {"FARANDOLE_REGROUP_TIMEOUT": "600"}


@pytest.mark.parametrize(
    ("victim", "hosts"),
    [
        pytest.param(1, "", id="one-host"),
        pytest.param(0, "", id="one-host-leader", marks=SLOW),
        pytest.param(1, TWO_HOSTS, id="two-hosts", marks=SLOW),
    ],
)
def test_a_stopped_worker_is_lost_after_the_stuck_timeout_and_rejoins_as_a_new_member(
    victim: int, hosts: str, tmp_path: Path, elastic: Callable[..., Job]
) -> None:
    # The two timeouts that apply without FARANDOLE_STUCK_TIMEOUT are longer than the test.
    enough = tmp_path / "enough"
    for timeout_s in TIMEOUTS_S:
        timeouts = {"FARANDOLE_STUCK_TIMEOUT": str(timeout_s), **LONG}
        job = elastic(hosts + TRAINING, sizes(600), str(victim), str(enough), **timeouts)
        pid = await_stop(job)
        job.read_until(lambda text: len([member for member in beginnings(text) if member.size == 2]) >= 2)
        if {member.slot for member in beginnings(job.text) if member.size == 2} == {0, 1, 2} - {victim}:
            break
        job.kill()
    else:
        pytest.fail(job.text)
    os.kill(pid, signal.SIGCONT)
    job.read_until(lambda text: len([member for member in beginnings(text) if member.size == 3]) >= 6)
    returned = [member for member in beginnings(job.text) if member.slot == victim][-1]
    assert (returned.rank, returned.size, returned.pid) == (2, 3, pid), job.text
    assert returned.step > 30, "it has the state of the members that went on"
    enough.touch()
    assert job.end() == 0, job.text
    assert len(re.findall(r"DONE slot \d of 3", job.text)) == 3, job.text


@pytest.mark.slow
def test_without_the_stuck_timeout_a_stopped_worker_costs_two_timeouts(
    tmp_path: Path, elastic: Callable[..., Job]
) -> None:
    enough = tmp_path / "enough"
    for timeout_s in TIMEOUTS_S:
        job = elastic(TRAINING, sizes(timeout_s), "1", str(enough), FARANDOLE_REGROUP_TIMEOUT=str(timeout_s))
        pid = await_stop(job)
        job.read_until(lambda text: len([member for member in beginnings(text) if member.size == 2]) >= 2)
        if {member.slot for member in beginnings(job.text) if member.size == 2} == {0, 2}:
            break
        job.kill()
    assert re.search(r"operations wait for rank 1 on \S+, which has made no progress for", job.text), job.text
    os.kill(pid, signal.SIGCONT)
    enough.touch()
    assert job.end() == 0, job.text


@pytest.mark.slow
def test_a_member_leaves_an_old_generation_without_waiting_for_a_stopped_peer(
    tmp_path: Path, elastic: Callable[..., Job]
) -> None:
    # One worker is stopped and another dies: the remaining worker closes its links without waiting for either.
    enough = tmp_path / "enough"
    flags = [*sizes(600), "--log-level", "debug"]
    job = elastic(TRAINING, flags, "2", str(enough), FARANDOLE_REGROUP_TIMEOUT="8")
    pid = await_stop(job)
    os.kill(next(member.pid for member in beginnings(job.text) if member.slot == 1), signal.SIGKILL)
    job.read_until(lambda text: any((member.slot, member.size) == (0, 1) for member in beginnings(text)))
    assert "the peer did not accept the queued data in time to close" not in job.text
    os.kill(pid, signal.SIGCONT)
    enough.touch()
    job.end()
