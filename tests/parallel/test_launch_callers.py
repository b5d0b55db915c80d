"""Collectives that waiting callers run themselves, and every way to leave one half-way: a caller dies, stops or is
interrupted in a collective, or its rank submits another shape or joins.
"""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import Callable

import pytest
from launched import PRELUDE, TIMEOUTS_S, Job, launch, needs_launcher, resume, wait_until

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

# The second thread of the victim sends it a signal during or between its collectives, once it has made 20.
SIGNALLED = """
import itertools, threading
victim, which = int(sys.argv[1]), getattr(signal, sys.argv[2])
operation = {
    "allreduce": lambda tensor: hvd.allreduce(tensor, name="x"),
    "reducescatter": lambda tensor: hvd.reducescatter(tensor, name="x"),
    "broadcast": lambda tensor: hvd.broadcast(tensor, 0, name="x"),
    "alltoall": lambda tensor: hvd.alltoall(tensor, name="x"),
    "barrier": lambda tensor: hvd.barrier(),
}[sys.argv[3]]
tensor = numpy.ones(3 << 18, dtype=numpy.float32)
enough = threading.Event()

def end_here():
    enough.wait()
    print(f"VICTIM {os.getpid()}.", flush=True)
    os.kill(os.getpid(), which)

if hvd.rank() == victim:
    threading.Thread(target=end_here, daemon=True).start()
try:
    for done in itertools.count(1):
        operation(tensor)
        if done == 20:
            enough.set()
except hvd.HorovodInternalError as end:
    print(f"TOLD {hvd.rank()} {type(end).__name__}: {end}", flush=True)
    raise
"""


def told(text: str) -> int:
    return len(re.findall(r"TOLD \d .*\n", text))


@pytest.mark.parametrize("operation", ["allreduce", "reducescatter", "broadcast", "alltoall", "barrier"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_caller_that_dies_in_a_collective_is_named_in_the_errors_of_the_others(
    victim: int, operation: str, launch: Callable[..., Job]
) -> None:
    job = launch(3, PRELUDE + SIGNALLED, str(victim), "SIGKILL", operation, survivors_report=True)
    job.read_until(lambda text: told(text) >= 2)
    assert job.end() != 0
    for line in re.findall(r"TOLD \d .*", job.text):
        assert re.search(rf"\brank {victim} on \S+", line), job.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation", ["allreduce", *(pytest.param(name, marks=pytest.mark.slow) for name in ("alltoall", "barrier"))]
)
def test_a_caller_that_is_stopped_in_a_collective_is_named_after_the_timeout(
    operation: str, launch: Callable[..., Job]
) -> None:
    for timeout_s in TIMEOUTS_S:
        flags = ["--gloo-timeout-seconds", str(timeout_s), "--no-stall-check"]
        job = launch(3, PRELUDE + SIGNALLED, "1", "SIGSTOP", operation, flags=flags, survivors_report=True)
        job.read_until(lambda text: told(text) >= 2)
        for pid in re.findall(r"VICTIM (\d+)\.", job.text):
            resume(int(pid))
        assert job.end() != 0
        if all(re.search(r"\brank 1 on \S+", line) for line in re.findall(r"TOLD [02] .*", job.text)):
            break
    else:
        pytest.fail(job.text)
    assert "has made no progress" in job.text


# Rank 0 is interrupted while it waits for rank 1, which calls the operation only after that.
INTERRUPTED = """
import select, threading
from farandole.common import job

def tell(before):
    while job.runtime.counters()["submitted"] == before:
        select.select([], [], [], 0.02)  # polls without occupying a core
    print("WAITS", flush=True)

tensor = numpy.full(1 << 18, hvd.rank() + 1, dtype=numpy.float32)
operation = {
    "allreduce": lambda: (hvd.allreduce(tensor, name="x", op=hvd.Sum) == 3).all(),
    "barrier": lambda: hvd.barrier() is None,
}[sys.argv[2]]
for _ in range(5):
    hvd.allreduce(tensor, name="x", op=hvd.Sum)
    hvd.barrier()
if hvd.rank() == 0:
    threading.Thread(target=tell, args=[job.runtime.counters()["submitted"]]).start()
    try:
        operation()
    except KeyboardInterrupt:
        print("INTERRUPTED", flush=True)
else:
    open(sys.argv[1]).close()
    assert operation()
    print("CAME", flush=True)
for _ in range(5):
    assert (hvd.allreduce(tensor, name="y", op=hvd.Sum) == 3).all()
    hvd.barrier()
print("went on", flush=True)
"""


@pytest.mark.parametrize("operation", ["allreduce", "barrier"])
def test_an_operation_completes_on_another_thread_after_its_caller_is_interrupted(
    operation: str, tmp_path: Path, launch: Callable[..., Job]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    job = launch(2, PRELUDE + INTERRUPTED, str(pipe), operation)
    job.read_until(lambda text: "WAITS" in text)
    pid = int(re.findall(r"\[0\]<stdout>:pid (\d+)", job.text)[-1])
    wait_until(lambda: asleep(pid), "rank 0 waits")
    os.kill(pid, signal.SIGINT)
    job.read_until(lambda text: "INTERRUPTED" in text)
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text
    assert job.text.count("went on") == 2
    assert "CAME" in job.text


def asleep(pid: int) -> bool:
    """Whether the main thread waits in the kernel."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S"


# Rank 1 submits another shape, then joins while the other ranks wait for it; then all ranks continue.
DIFFERS = """
tensor = numpy.full(1 << 17, hvd.rank() + 1, dtype=numpy.float32)
total = sum(range(1, hvd.size() + 1))
for _ in range(5):
    assert (hvd.allreduce(tensor, name="x", op=hvd.Sum) == total).all()
try:
    hvd.allreduce(tensor[: 1 << 16] if hvd.rank() == 1 else tensor, name="x", op=hvd.Sum)
    print("no error")
except hvd.HorovodInternalError as end:
    assert "131072" in str(end) and "65536" in str(end), end
for _ in range(5):
    assert (hvd.allreduce(tensor, name="x", op=hvd.Sum) == total).all()
if hvd.rank() != 1:
    assert (hvd.allreduce(tensor, name="x", op=hvd.Sum) == total - 2).all()
hvd.join()
for _ in range(5):
    assert (hvd.allreduce(tensor, name="x", op=hvd.Sum) == total).all()
print("went on", flush=True)
"""


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_mismatch_and_a_join_move_the_tensor_to_the_leader(ranks: int, launch: Callable[..., Job]) -> None:
    job = launch(ranks, PRELUDE + DIFFERS)
    assert job.end() == 0, job.text
    assert job.text.count("went on") == ranks
    assert "no error" not in job.text


# There are more threads than the fast path has room for; the leader negotiates the other operations.
MANY_THREADS = """
import threading
from farandole.common import job
wrong = []

def work(number):
    tensor = numpy.full(1 << 20, hvd.rank() + number, dtype=numpy.float32)
    wanted = sum(rank + number for rank in range(hvd.size()))
    for _ in range(12):
        if not (hvd.allreduce(tensor, name=f"t{number}", op=hvd.Sum) == wanted).all():
            wrong.append(number)

threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
assert job.runtime.counters()["on_fast_path"] > 0
print("went on", flush=True)
"""


def test_concurrent_threads_get_correct_results(launch: Callable[..., Job]) -> None:
    job = launch(2, PRELUDE + MANY_THREADS)
    assert job.end() == 0, job.text
    assert job.text.count("went on") == 2
