"""Workers of an elastic job that leave as planned: by SIGTERM, or by a drain of their rank or host."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable, Iterator, List, Tuple

import pytest
from elastic_jobs import beginnings, of_size
from launched import DEADLINE_S, FARANDOLE, Job, assert_gone, clean_environment, needs_launcher, wait_until

pytestmark = needs_launcher

# Trains until a generation of the wanted size has made twenty steps. "stuck": slot 1 never ends its third step. "own":
# slot 1 handles SIGTERM itself, and then all slots end. "loader" and "early loader": batches come from a child that
# is forked in the function, or before it. The script prints every restore and sync.
SCRIPT = """
import os, re, signal, sys, time
import numpy, farandole.numpy as hvd

wanted, manner = int(sys.argv[1]), sys.argv[2]
slot = int(os.environ["HOROVOD_RANK"])
own = numpy.zeros(1)

def caught():
    with open("/proc/self/status") as status:
        return int(re.search(r"SigCgt:\\s*(\\w+)", status.read())[1], 16) >> (signal.SIGTERM - 1) & 1

class State(hvd.elastic.NumPyState):
    def sync(self):
        print(f"SYNC slot {slot}", flush=True)
        super().sync()

    def restore(self):
        print(f"RESTORE slot {slot}", flush=True)
        super().restore()

if "loader" in manner:
    from torch.utils.data import DataLoader

    # Of numbers, not tensors: a child that is killed while it makes a tensor leaves a file in /dev/shm.
    loader = DataLoader(range(10**6), batch_size=None, num_workers=1, multiprocessing_context="fork")
if manner == "own" and slot == 1:
    signal.signal(signal.SIGTERM, lambda *_: own.fill(1.0))
before = caught()
hvd.init()
batches = iter(loader) if manner == "early loader" else None
state = State(weight=numpy.zeros(2), step=0)

@hvd.elastic.run
def train(state):
    began = state.step
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {began} pid {os.getpid()}", flush=True)
    global batches
    if "loader" in manner:
        batches = batches or iter(loader)
        print(f"CHILD slot {slot} pid {batches._workers[0].pid}", flush=True)
    told = 0
    while not told and (hvd.size() != wanted or state.step < began + 20):
        if manner == "stuck" and slot == 1 and state.step == 2:
            print("STUCK", flush=True)
            time.sleep(600)
        if batches is not None:
            next(batches)
        told = int(hvd.allreduce(own, op=hvd.Sum, name="told")[0])
        state.step += 1
        state.commit()
    print(f"DONE slot {slot} step {state.step} caught {before} {caught()}", flush=True)

try:
    train(state)
except SystemExit as left:
    print(f"LEFT slot {slot} step {state.step} code {left.code}", flush=True)
    raise
print(f"AFTER slot {slot} caught {caught()}", flush=True)
"""


@pytest.fixture(autouse=True)
def folder_of_jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which launchers register their jobs, so that a test finds only its own. Its path is short, because
    the processes of a data loader put sockets into TMPDIR."""
    with tempfile.TemporaryDirectory(prefix="drain-") as runtime:
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        monkeypatch.setenv("TMPDIR", runtime)
        yield Path(runtime) / "farandole"


@pytest.fixture
def start(elastic: Callable[..., Job]) -> Callable[..., Job]:
    return lambda flags, wanted, manner="plain": elastic(SCRIPT, flags, str(wanted), manner)


def start_three(start: Callable[..., Job], manner: str = "plain", hosts: str = "localhost:3") -> Job:
    job = start(["-np", "3", "--min-np", "2", "-H", hosts], 2, manner)
    job.read_until(lambda text: len(beginnings(text)) >= 3)
    return job


def pid_of(job: Job, slot: int) -> int:
    return next(beginning.pid for beginning in beginnings(job.text) if beginning.slot == slot)


def drain(*words: str) -> Tuple[int, str]:
    return farandole("drain", *words)


def farandole(*words: str) -> Tuple[int, str]:
    done = subprocess.run(
        [FARANDOLE, *words],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        env=clean_environment(),
    )
    return done.returncode, done.stdout


def assert_left(job: Job, slots: List[int], stay: List[Tuple[int, int]]) -> None:
    """Checks that ``slots`` left as planned, ``stay`` continued with these ranks and no step was repeated."""
    assert job.end() == 0, job.text
    left = re.findall(r"LEFT slot (\d) step (\d+) code 0", job.text)
    assert sorted(int(slot) for slot, _ in left) == slots, job.text
    assert of_size(job.text, len(stay)) == stay, job.text
    steps = {int(step) for _, step in left} | {
        beginning.step for beginning in beginnings(job.text) if beginning.size == len(stay)
    }
    assert len(steps) == 1, job.text
    assert "RESTORE" not in job.text
    assert job.text.count("SYNC") == len(slots) + len(stay)  # each worker once, at its start
    assert "exit with status" not in job.text
    assert "no new workers" not in job.text
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == [str(slot) for slot, _ in stay]
    assert_gone([beginning.pid for beginning in beginnings(job.text)])


@pytest.mark.parametrize("slot, stay", [(1, [(0, 0), (2, 1)]), (0, [(1, 0), (2, 1)])])
def test_a_worker_that_receives_sigterm_leaves_at_the_next_commit(
    start: Callable[..., Job], slot: int, stay: List[Tuple[int, int]]
) -> None:
    job = start_three(start)
    os.kill(pid_of(job, slot), signal.SIGTERM)
    assert_left(job, [slot], stay)
    assert f"Process localhost[{slot}] was told to end" in job.text
    assert re.findall(r"caught (\d) (\d)", job.text) == [("0", "1")] * 2  # in the loop
    assert re.findall(r"AFTER slot \d caught (\d)", job.text) == ["0"] * 2  # and not after the loop


@pytest.mark.parametrize("manner", ["loader", pytest.param("early loader", marks=pytest.mark.slow)])
def test_a_process_group_that_receives_sigterm_finishes_its_step(start: Callable[..., Job], manner: str) -> None:
    job = start(["-np", "2", "--min-np", "1", "-H", "localhost:2"], 1, manner)
    job.read_until(lambda text: len(re.findall(r"CHILD slot \d pid \d+\n", text)) >= 2)
    os.killpg(os.getpgid(pid_of(job, 1)), signal.SIGTERM)
    assert_left(job, [1], [(0, 0)])
    assert "DataLoader worker" not in job.text
    assert_gone([int(pid) for pid in re.findall(r"CHILD slot \d pid (\d+)", job.text)])


def test_a_rank_is_drained_by_number(start: Callable[..., Job], folder_of_jobs: Path) -> None:
    job = start_three(start)
    (path,) = folder_of_jobs.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder_of_jobs.stat().st_mode) == 0o700
    code, output = drain("--job", str(path), "1", "--timeout", "200")
    assert code == 0, output
    assert output.splitlines() == [
        "rank 1 (slot 1 on localhost) leaves at the next commit",
        "rank 1 (slot 1 on localhost) is out",
    ]
    assert_left(job, [1], [(0, 0), (2, 1)])
    assert not list(folder_of_jobs.iterdir())


def test_a_host_is_drained_by_name(start: Callable[..., Job]) -> None:
    job = start_three(start, hosts="localhost:2,127.0.0.1:1")
    code, output = drain("127.0.0.1", "--no-wait")
    assert code == 0, output
    assert output.splitlines() == ["rank 2 (slot 2 on 127.0.0.1) leaves at the next commit"]
    assert_left(job, [2], [(0, 0), (1, 1)])


def test_a_drain_of_one_of_two_jobs_does_not_affect_the_other(start: Callable[..., Job]) -> None:
    one = start_three(start)
    other = start(["-np", "2", "--min-np", "1", "-H", "localhost:2"], 1)
    other.read_until(lambda text: len(beginnings(text)) >= 2)
    names = [f"script-{job.process.pid}" for job in (one, other)]
    for words in (["drain", "1"], ["dump"], ["explain"], ["report"], ["trace", "start"], ["trace", "stop"]):
        code, output = farandole(*words)
        assert code == 2, output
        assert f"farandole {words[0]}: several jobs run; name the one that you mean:\n" in output
        assert all(re.search(rf"^  {name} ", output, re.MULTILINE) for name in names), output
    code, output = drain("--job", names[0], "1")
    assert code == 0, output
    assert_left(one, [1], [(0, 0), (2, 1)])
    code, output = drain("1")  # the only job that is left
    assert code == 0, output
    assert_left(other, [1], [(0, 0)])
    assert of_size(other.text, 2) == [(0, 0), (1, 1)]  # one generation, at the start


def test_impossible_drains_are_refused_and_sigint_to_the_launcher_ends_the_workers(
    start: Callable[..., Job], folder_of_jobs: Path
) -> None:
    job = start(["-np", "2", "--min-np", "2", "-H", "localhost:2"], 1)
    job.read_until(lambda text: len(beginnings(text)) >= 2)
    for words, part, expected in [
        (["7"], "there is no rank 7: the job has ranks 0 to 1", 1),
        (["elsewhere"], "there is no worker on host 'elsewhere': the job has workers on localhost", 1),
        (["1"], "would go on with 1 of its members, fewer than the 2 that it needs (--min-np)", 1),
        (["--job", "other", "1"], "there is no job other; these run:", 2),
    ]:
        code, output = drain(*words)
        assert code == expected, output
        assert part in output
    job.process.send_signal(signal.SIGINT)
    assert job.end() == 130, job.text
    assert "LEFT" not in job.text
    assert "told to end" not in job.text
    assert_gone([beginning.pid for beginning in beginnings(job.text)])
    assert not list(folder_of_jobs.iterdir())


def test_a_job_that_is_not_elastic_cannot_be_drained(tmp_path: Path) -> None:
    code, output = drain("0")
    assert code == 2
    assert "no job of yours runs here" in output
    job = Job(["-np", "1", "sh", "-c", "echo runs; exec sleep 600"])
    try:
        job.read_until(lambda text: "runs" in text)
        code, output = drain("0")
        assert code == 2
        assert "is not elastic" in output
    finally:
        job.kill()


@pytest.mark.slow
def test_a_drain_waits_for_a_worker_without_commits_and_a_second_sigterm_kills_it(start: Callable[..., Job]) -> None:
    job = start_three(start, "stuck")
    job.read_until(lambda text: "STUCK" in text)
    code, output = drain("0", "--timeout", "3")
    assert code == 1
    assert "rank 0 (slot 0 on localhost) leaves at the next commit" in output
    assert "not all are out after 3 s (--timeout)" in output
    stuck = pid_of(job, 1)
    os.kill(stuck, signal.SIGTERM)
    wait_until(lambda: not is_pending(stuck), "the signal is delivered")
    os.kill(stuck, signal.SIGTERM)
    assert job.end() != 0  # too few are left: rank 0 leaves, and rank 1 is lost
    assert "localhost[1] exit with status code 143" in job.text


def is_pending(pid: int) -> bool:
    pending = re.findall(r"(?:SigPnd|ShdPnd):\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return any(int(signals, 16) >> (signal.SIGTERM - 1) & 1 for signals in pending)


def test_a_sigterm_handler_of_the_script_is_not_replaced(start: Callable[..., Job]) -> None:
    job = start_three(start, "own")
    os.kill(pid_of(job, 1), signal.SIGTERM)
    assert job.end() == 0, job.text
    assert "LEFT" not in job.text
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1", "2"]
    assert re.findall(r"AFTER slot 1 caught (\d)", job.text) == ["1"]


# ---- the handler alone ----

HANDLER = """
import multiprocessing, os, signal, sys, time
from farandole import _native

def sleep():
    time.sleep(600)

launcher = {"launcher": os.getppid(), "other": 0, "child": 0}[sys.argv[1]]
assert _native.catch_termination(launcher)
assert not _native.catch_termination(launcher)
assert not _native.termination_came()
if sys.argv[1] == "child":
    child = multiprocessing.get_context("fork").Process(target=sleep)
    child.start()
    child.terminate()
    child.join()
    print(child.exitcode, flush=True)
os.write(1, b"ready\\n")
while not _native.termination_came():
    time.sleep(0.001)
print("came", flush=True)
if sys.argv[1] == "child":
    _native.release_termination()
time.sleep(600)
"""


@pytest.mark.parametrize(
    "manner, signals, output",
    [("launcher", 1, "ready\n"), ("other", 2, "ready\ncame\n"), ("child", 2, "-15\nready\ncame\n")],
)
def test_sigterm_kills_from_the_launcher_on_repetition_and_in_forked_children(
    manner: str, signals: int, output: str
) -> None:
    process = subprocess.Popen([sys.executable, "-c", HANDLER, manner], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        received = ""
        for expected in ["ready\n", "came\n"][:signals]:
            while not received.endswith(expected):
                line = process.stdout.readline()
                assert line, received
                received += line
            process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == -signal.SIGTERM
        assert received == output
    finally:
        process.kill()
