"""Tensors that some ranks submit and others do not: the one report, its end, the callbacks, and the end of the job."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Callable

import pytest
from launched import PRELUDE, TIMEOUTS_S, Job, launch, needs_launcher, stall_shutdown

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

WARNING_S = 4
WARNS = ["--stall-check-warning-time-seconds", str(WARNING_S)]
MISSING = r"Missing ranks:\n{}: \[{}\]"
REPORT = "Some ranks have submitted tensors"
ROOT = Path(__file__).resolve().parent.parent.parent

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


def check_reports(text: str) -> None:
    """The launcher has printed the reports, and no rank has."""
    assert REPORT in text, text
    assert not re.search(rf"\[\d\]<std\w+>:.*{REPORT}", text), text


# Each rank registers a callback and waits until it is told that the stall is over. A callback that fails harms nothing.
CALLBACK = """
import farandole, threading
over = threading.Event()
def hear(report):
    line = report.text.splitlines()[0 if report.over else 1]
    print(f"HEARD {report.over} on {threading.current_thread().name}: {line}", flush=True)
    if report.over:
        over.set()
    raise ValueError("of the callback")
farandole.on_stall(hear)
"""


@pytest.mark.usefixtures("py_spy")
@pytest.mark.parametrize("fast_path", [pytest.param("0", marks=pytest.mark.slow), "1"])
def test_one_report_names_the_tensor_and_the_missing_rank_and_another_says_that_the_stall_is_over(
    fast_path: str, pipe: Path, launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARANDOLE_FAST_PATH", fast_path)
    script = CALLBACK + PRELUDE + WAIT_FOR_TEST
    script += "for _ in range(4):\n    hvd.allreduce(numpy.ones(4), name='grad.a')\n"
    script += "wait_for_test()\nhvd.allreduce(numpy.ones(4), name='grad.a')\nprint('went on', flush=True)\n"
    # The first rank that leaves ends the job, and a rank that has not heard of the end yet hears nothing more.
    script += "assert over.wait(200)\nhvd.barrier()\nhvd.shutdown()\n"
    script += "assert not any(thread.name == 'farandole-stalls' for thread in threading.enumerate())\n"
    job = launch(3, script, str(pipe), flags=WARNS)
    job.read_until(lambda text: re.search(MISSING.format(1, r"allreduce\.grad\.a"), text) is not None)
    warning = (
        rf"stall warning time \(HOROVOD_STALL_CHECK_TIME_SECONDS\) = {WARNING_S} s: allreduce\.grad\.a for \d+\.\d s"
    )
    assert re.search(warning, job.text), job.text
    # The launcher has asked for no answer of rank 1, and says what it is doing.
    pid = re.search(r"\[1\]<stdout>:pid (\d+)\n", job.text)
    assert pid, job.text
    doing = r"\nrank 1 on \S+ has been in user code for \S+ m?s, since allreduce\.grad\.a was complete\n"
    doing += rf"    Thread of dump --nonblocking --pid {pid.group(1)}\n        wait \(script\.py:9\)\n"
    doing += r"What all ranks are doing: farandole explain script-\d+\n"
    job.read_until(lambda text: re.search(doing, text) is not None)
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text
    assert job.text.count("went on") == 3
    check_reports(job.text)
    # The launcher, and three callbacks. On a busy machine, other operations may stall for so long, too.
    assert job.text.count(": The stall is over: it lasted ") >= 4, job.text
    assert job.text.count("HEARD False on farandole-stalls: 1: [allreduce.grad.a]") >= 3, job.text
    assert job.text.count("HEARD True on farandole-stalls: The stall is over") >= 3, job.text
    assert job.text.count("ValueError: of the callback") == job.text.count("HEARD "), job.text


# Ranks 0 and 1 call two operations in different orders. Each rank can catch the error and exit normally.
IN_DIFFERENT_ORDERS = """
for _ in range(4):
    for name in ("a", "b"):
        hvd.allreduce(numpy.ones(4), name=name)
try:
    for name in ("b", "a") if hvd.rank() == 1 else ("a", "b"):
        hvd.allreduce(numpy.ones(4), name=name)
except hvd.HorovodInternalError as end:
    print("CAUGHT", type(end).__name__, flush=True)
hvd.shutdown()
assert not hvd.is_initialized()
"""

# After some steps, relays request the tensors of a step as one bucket. Rank 3 then leaves one of them out.
OUT_OF_A_BUCKET = """
def step(names):
    handles = [hvd.allreduce_async(numpy.ones(4), name=name) for name in names]
    for handle in handles:
        hvd.synchronize(handle)
names = ["a", "b", "c", "d"]
for _ in range(8):
    step(names)
try:
    step([name for name in names if name != "b" or hvd.rank() != 3])
    hvd.barrier()
except hvd.HorovodInternalError as end:
    print("CAUGHT", type(end).__name__, flush=True)
hvd.shutdown()
"""

RELAYS = """
import os
os.environ["FARANDOLE_HOST_ID"] = "host" + str(int(os.environ["HOROVOD_RANK"]) % 2)
"""


@pytest.mark.parametrize(
    "route", ["leader", *(pytest.param(name, marks=pytest.mark.slow) for name in ("fast path", "relays", "bucket"))]
)
def test_after_a_stall_shutdown_every_rank_can_exit_normally(
    route: str, launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARANDOLE_FAST_PATH", "1" if route == "fast path" else "0")
    monkeypatch.setenv("FARANDOLE_RELAY_RANKS", "1")
    ranks = 4 if route in ("relays", "bucket") else 2
    script = (RELAYS if ranks == 4 else "") + PRELUDE + (OUT_OF_A_BUCKET if route == "bucket" else IN_DIFFERENT_ORDERS)
    # One report has the tensors of both ranks.
    others = "ranks 0, 2 and 3 wait" if ranks == 4 else "rank 0 waits"
    cause = f"{others} for allreduce.a, rank 1 for allreduce.b: they call in different orders\n"
    if route == "bucket":
        cause = "3: [allreduce.b]"
    for timeout_s in TIMEOUTS_S:
        job = launch(ranks, script, flags=stall_shutdown(timeout_s))
        code = job.end()
        if cause in job.text:
            break
    assert code == 0 and cause in job.text, job.text
    assert job.text.count("CAUGHT") == ranks, job.text
    assert "CAUGHT OperationTimeoutError" in job.text
    check_reports(job.text)


@pytest.mark.slow
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
    job = launch(3, script, str(pipe), flags=WARNS)
    names = ", ".join([r"allreduce\.part\.\d"] * 6)
    # Rank 0 waits for the barrier meanwhile.
    expected = rf"Missing ranks of process set 1:\n1: \[{names}, …\]\nrank 1 has called none of these 8 tensors\n"
    job.read_until(lambda text: re.search(expected, text) is not None)
    assert re.search(MISSING.format(1, r"barrier\.\w+"), job.text), job.text
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text


# The lane of the global set runs a path that waits until the program releases it. Rank 1 submits the two other tensors,
# one of them of a process set, when the test has read the report.
BUSY_LANE = """
import ctypes, farandole, threading, time

class Plan(ctypes.Structure):
    _fields_ = [("failing", ctypes.c_size_t), ("status", ctypes.c_int), ("text", ctypes.c_char_p),
                ("never_ends", ctypes.c_int), ("claimed_beyond", ctypes.c_size_t), ("taken", ctypes.c_size_t)]

over = threading.Event()
farandole.on_stall(lambda report: over.set() if report.over else None)
plan = Plan.in_dll(ctypes.CDLL(os.environ["FARANDOLE_PATH_LIBRARY"]), "faulty_path_plan")
hvd.barrier()
plan.failing, plan.never_ends = plan.taken, 1
long = hvd.allreduce_async(numpy.ones(4), name="long")
while plan.taken == plan.failing:
    time.sleep(0.01)

wait_for_test()
other = hvd.allreduce_async(numpy.ones(4), name="other")
part = hvd.allreduce_async(numpy.ones(4), name="part", process_set=pair) if hvd.rank() < 2 else None
assert over.wait(200)
assert not hvd.poll(long)
print("LANE BUSY", flush=True)
plan.never_ends = 0
for handle in (long, other, part):
    if handle is not None:
        hvd.synchronize(handle)
hvd.shutdown()
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_a_stall_is_reported_while_the_lane_is_busy_with_another_tensor(
    pipe: Path, launch: Callable[..., Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libfaulty.so"
    source = ROOT / "collectives" / "transport" / "plugin" / "faulty_path_testing.c"
    includes = [f"-I{ROOT}", f"-I{ROOT / 'bindings' / 'include'}"]
    subprocess.run(["cc", "-std=gnu11", "-shared", "-fPIC", *includes, "-o", library, source], check=True)
    monkeypatch.setenv("FARANDOLE_CPU_PATH", "plugin")
    monkeypatch.setenv("FARANDOLE_PATH_LIBRARY", str(library))
    init = "pair = hvd.ProcessSet([0, 1])\nhvd.init(process_sets=[pair])"
    job = launch(3, PRELUDE.replace("hvd.init()", init) + WAIT_FOR_TEST + BUSY_LANE, str(pipe), flags=WARNS)
    expected = r"Missing ranks:\n1: \[allreduce\.other\]\nMissing ranks of process set 1:\n1: \[allreduce\.part\]\n"
    job.read_until(lambda text: re.search(expected, text) is not None)
    assert "LANE BUSY" not in job.text
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text
    assert job.text.count("LANE BUSY") == 3, job.text
    assert job.text.index("The stall is over") < job.text.index("LANE BUSY"), job.text
    check_reports(job.text)


@pytest.mark.slow
def test_the_stall_shutdown_time_ends_the_job_with_its_reason(pipe: Path, launch: Callable[..., Job]) -> None:
    script = (
        PRELUDE
        + WAIT_FOR_TEST
        + """
try:
    hvd.allreduce(numpy.ones(4), name="good")
    if hvd.rank() == 0:
        hvd.allreduce(numpy.ones(4), name="lonely")
except hvd.OperationTimeoutError as end:
    print("told:", end, flush=True)
wait_for_test()
"""
    )
    for timeout_s in TIMEOUTS_S:
        job = launch(2, script, str(pipe), flags=stall_shutdown(timeout_s))
        job.read_until(lambda text: re.search(r"told:[^\0]*allreduce\.(lonely|good)!?\]", text) is not None)
        message = job.text[job.text.index("told:") :]
        if "lonely" in message:
            break
        job.kill()
    assert f"stall shutdown time (HOROVOD_STALL_SHUTDOWN_TIME_SECONDS) = {timeout_s} s has passed" in message, job.text
    assert re.search(r"1: \[allreduce\.lonely!\]", message), job.text
    job.open_for_reader(pipe)
    job.end()


def test_a_shutdown_time_that_is_no_longer_than_the_warning_time_is_ignored_with_a_warning(
    launch: Callable[..., Job],
) -> None:
    job = launch(2, PRELUDE, flags=[*WARNS, "--stall-check-shutdown-time-seconds", str(WARNING_S)])
    assert job.end() == 0, job.text
    assert len(re.findall(r"stall shutdown time \(.*\) = 4 s is ignored", job.text)) == 1, job.text
