"""Jobs started by the launcher: how they end after success and after failures. Run by a plain pytest."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Callable, Dict, List

import pytest
from launched import DEADLINE_S, LAUNCHER, PRELUDE, Job, assert_gone, is_running, launch, needs_launcher, write_script

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher


def test_a_successful_job_exits_with_0_and_prefixes_its_output(launch: Callable[..., Job]) -> None:
    job = launch(
        3,
        PRELUDE
        + """
total = hvd.allreduce(numpy.array([hvd.rank()]), op=hvd.Sum)[0]
print(f"rank {hvd.rank()} of {hvd.size()} sees {total}")
""",
    )
    assert job.end() == 0, job.text
    for rank in range(3):
        assert re.search(rf"^\[{rank}\]<stdout>: ?rank {rank} of 3 sees 3$", job.text, re.M), job.text


@pytest.mark.parametrize("code", [3, 1, 77])
def test_the_job_exits_with_the_code_of_the_first_failure(code: int, launch: Callable[..., Job]) -> None:
    job = launch(
        2,
        PRELUDE
        + """
if hvd.rank() == 1:
    os._exit(int(sys.argv[1]))
try:
    hvd.allreduce(numpy.ones(2), name="lonely")
except hvd.HorovodInternalError as problem:
    print("rank 0 was told:", problem, flush=True)
    raise
""",
        str(code),
        survivors_report=True,
    )
    assert job.end() == code, job.text
    told = re.search(r"rank 0 was told: (.*)", job.text)
    assert told and re.search(r"\b1\b", told.group(1)), job.text
    assert_gone(job.pids(2))


def test_an_exception_on_one_rank_ends_the_job(launch: Callable[..., Job]) -> None:
    job = launch(2, PRELUDE + "raise KeyError('on purpose') if hvd.rank() == 0 else hvd.barrier()\n")
    assert job.end() == 1, job.text
    assert "on purpose" in job.text


def assert_no_warnings(job: Job) -> None:
    """A lost link to a process causes no warning once the process is known to have ended."""
    assert not re.search(r": W \w+\.cpp", job.text), job.text


SURVIVORS = (
    PRELUDE
    + """
step = 0
try:
    while True:
        step += 1
        hvd.allreduce(numpy.ones(int(sys.argv[1])), name="x")
        if hvd.rank() == 1 and step == 20:
            os.kill(os.getpid(), signal.SIGKILL)
except hvd.WorkerLostError as problem:
    print(f"rank {hvd.rank()} was told: {problem} ({problem.kind})", flush=True)
    sys.exit(9)
"""
)


@pytest.mark.parametrize("elements", [1, 4_000_000], ids=["fast_path", "lane"])
def test_a_killed_rank_is_named_in_the_errors_of_the_others(elements: int, launch: Callable[..., Job]) -> None:
    job = launch(4, SURVIVORS, str(elements), survivors_report=True)
    assert job.end() == 128 + signal.SIGKILL, job.text
    for rank in (0, 2, 3):
        told = re.search(rf"rank {rank} was told: (.*)", job.text)
        assert told and re.search(r"\brank 1\b", told.group(1)), job.text
    assert_gone(job.pids(4))
    assert_no_warnings(job)


def test_a_killed_relay_is_named_in_the_errors_of_the_others(
    launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FARANDOLE_RELAY_RANKS", "1")
    # Rank 1 relays the requests of rank 3 to the leader.
    hosts = """
import os
os.environ["FARANDOLE_HOST_ID"] = "host" + str(int(os.environ["HOROVOD_RANK"]) % 2)
"""
    job = launch(4, hosts + SURVIVORS, "1000", survivors_report=True)
    assert job.end() == 128 + signal.SIGKILL, job.text
    for rank in (0, 2, 3):
        told = re.search(rf"rank {rank} was told: (.*)", job.text)
        assert told and re.search(r"\brank 1\b", told.group(1)), job.text
    assert_gone(job.pids(4))


def test_a_killed_rank_is_detected_while_its_children_live_on(launch: Callable[..., Job]) -> None:
    job = launch(
        2,
        PRELUDE
        + """
import torch.utils.data

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        return index

# Of numbers, not tensors: a child that is killed while it makes a tensor leaves a file in /dev/shm.
loader = iter(torch.utils.data.DataLoader(Numbers(), batch_size=None, num_workers=2, persistent_workers=True,
                                          multiprocessing_context="fork"))
next(loader)
hvd.barrier()
if hvd.rank() == 1:
    # Stopped children cannot notice by themselves that their parent is gone.
    for worker in loader._workers:
        os.kill(worker.pid, signal.SIGSTOP)
        print("child", worker.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(numpy.ones(2), name="lonely")
except hvd.HorovodInternalError as problem:
    print("rank 0 was told:", problem, flush=True)
    os._exit(9)
""",
        survivors_report=True,
    )
    job.read_until(lambda text: "rank 0 was told:" in text)
    children = [int(pid) for pid in re.findall(r"child (\d+)", job.text)]
    for child in children:
        if is_running(child):
            os.kill(child, signal.SIGKILL)
    assert job.end() == 128 + signal.SIGKILL, job.text
    assert len(children) == 2


def test_sigint_to_the_launcher_ends_all_ranks(launch: Callable[..., Job]) -> None:
    job = launch(2, PRELUDE + "hvd.allreduce(numpy.ones(2), name=str(hvd.rank()))  # never matched\n")
    pids = job.pids(2)
    job.process.send_signal(signal.SIGINT)
    assert job.end() != 0
    assert_gone(pids)
    assert_no_warnings(job)


def test_sigterm_to_the_launcher_ends_all_ranks(launch: Callable[..., Job]) -> None:
    job = launch(2, PRELUDE + "hvd.allreduce(numpy.ones(2), name=str(hvd.rank()))\n")
    pids = job.pids(2)
    job.process.send_signal(signal.SIGTERM)
    assert job.end() != 0
    assert_gone(pids)


def test_signals_that_are_ignored_at_the_start_stay_ignored_by_the_launcher_and_its_workers(
    jobs: List[Job], tmp_path: Path
) -> None:
    """nohup ignores SIGHUP, and the shell of a script ignores SIGINT in a command in the background."""
    script = f"""
import pathlib, signal, time
print("ignored", [signal.getsignal(each).name for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)], flush=True)
while not pathlib.Path("{tmp_path}/go").exists():
    time.sleep(0.01)
"""
    worker = [sys.executable, write_script(tmp_path, script)]
    jobs.append(Job(["-c", "trap '' HUP INT; exec \"$@\"", "sh", LAUNCHER, "-np", "2", *worker], program="/bin/sh"))
    job = jobs[-1]
    job.read_until(lambda text: text.count("ignored ['SIG_IGN', 'SIG_IGN', 'SIG_DFL']") == 2)
    for number in (signal.SIGHUP, signal.SIGINT):
        job.process.send_signal(number)
    (tmp_path / "go").touch()
    assert job.end() == 0, job.text


@pytest.mark.parametrize("busy", ["waiting", "ignoring_sigterm"])
def test_all_ranks_end_after_the_launcher_is_killed(busy: str, launch: Callable[..., Job]) -> None:
    work = {
        "waiting": "hvd.allreduce(numpy.ones(2), name=str(hvd.rank()))\n",
        "ignoring_sigterm": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()\n",
    }[busy]
    job = launch(2, PRELUDE + work)
    pids = job.pids(2)
    job.process.kill()
    assert_gone(pids)
    job.process.wait(DEADLINE_S)


def test_a_job_whose_ranks_call_shutdown_exits_with_0(launch: Callable[..., Job]) -> None:
    job = launch(2, PRELUDE + "hvd.barrier()\nhvd.shutdown()\nprint('left', hvd.is_initialized(), flush=True)\n")
    assert job.end() == 0, job.text
    assert job.text.count("left False") == 2


def test_two_concurrent_jobs_do_not_mix(launch: Callable[..., Job], tmp_path: Path) -> None:
    script = (
        PRELUDE
        + """
for step in range(50):
    assert (hvd.allreduce(numpy.full(1000, float(sys.argv[1])), name="x") == float(sys.argv[1])).all()
"""
    )
    first, second = launch(2, script, "3"), launch(2, script, "5")
    assert first.end() == 0, first.text
    assert second.end() == 0, second.text


@pytest.mark.parametrize("settings", [{"FARANDOLE_FAST_PATH": "0"}, {"HOROVOD_FUSION_THRESHOLD": "0"}], ids=str)
def test_settings_of_the_path_and_fusion_do_not_change_sums(
    settings: Dict[str, str], launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in settings.items():
        monkeypatch.setenv(key, value)
    job = launch(
        2,
        PRELUDE
        + """
handles = [hvd.allreduce_async(numpy.full(i + 1, float(i)), name=str(i), op=hvd.Sum) for i in range(100)]
assert all(hvd.synchronize(h)[0] == 2 * i for i, h in enumerate(handles))
""",
    )
    assert job.end() == 0, job.text


def test_ranks_on_two_host_ids_communicate_over_the_network(launch: Callable[..., Job]) -> None:
    script = """
import os
os.environ["FARANDOLE_HOST_ID"] = "host" + os.environ["HOROVOD_RANK"]
import numpy, farandole.numpy as hvd
hvd.init()
for count in (1, 1000, 300_001):
    for step in range(3):
        x = numpy.full(count, float(hvd.rank() + 1), dtype="float32")
        assert (hvd.allreduce(x, name=str(count), op=hvd.Sum) == 3).all()
gathered = hvd.allgather(numpy.full((hvd.rank() + 1, 2), hvd.rank()))
assert gathered.tolist() == [[0, 0], [1, 1], [1, 1]]
assert hvd.broadcast(numpy.array([hvd.rank()]), 1).tolist() == [1]
hvd.barrier()
print("local size", hvd.local_size())
"""
    job = launch(2, script)
    assert job.end() == 0, job.text


def test_two_names_of_one_machine_are_one_host_in_the_environment(launch: Callable[..., Job]) -> None:
    script = """
import os
import farandole.numpy as hvd
hvd.init()
names = ("LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
told = [int(os.environ["HOROVOD_" + name]) for name in names]
assert told == [hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()] == [hvd.rank(), 4, 0, 1], told
assert os.environ["HOROVOD_HOSTNAME"] == ("localhost" if hvd.rank() < 2 else "127.0.0.1")
"""
    job = launch(4, script, flags=["-H", "localhost:2,127.0.0.1:2"])
    assert job.end() == 0, job.text


@pytest.mark.parametrize(
    "hosts, settings",
    [
        ("0011", ["HOROVOD_HIERARCHICAL_ALLREDUCE", "HOROVOD_HIERARCHICAL_ALLGATHER"]),
        ("0010", ["HOROVOD_HIERARCHICAL_ALLREDUCE", "HOROVOD_HIERARCHICAL_ALLGATHER"]),
        ("0011", ["HOROVOD_TORUS_ALLREDUCE"]),
    ],
)
def test_hierarchical_and_torus_paths_give_the_same_results(
    hosts: str, settings: List[str], launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in settings:
        monkeypatch.setenv(setting, "1")
    script = f"""
import os
os.environ["FARANDOLE_HOST_ID"] = "host" + {hosts!r}[int(os.environ["HOROVOD_RANK"])]
import numpy, farandole.numpy as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
assert hvd.local_size() == {hosts!r}.count({hosts!r}[rank])
for count in (0, 1, 1000, 800_001):
    for step in range(3):
        x = numpy.arange(count) % 97 + rank
        got = hvd.allreduce(x, name=f"sum.{{count}}", op=hvd.Sum)
        assert (got == (x - rank) * size + size * (size - 1) // 2).all(), f"sum of {{count}}"
noise = [numpy.random.default_rng(number).standard_normal(100_003, dtype="float32") for number in range(size)]
average = hvd.allreduce(noise[rank], op=hvd.Average, name="noise")
# Additions round, so the bits show their order: first the members of each host, then the hosts.
sums_of_hosts = [sum(one for one, host in zip(noise, {hosts!r}) if host == name) for name in "01"]
assert numpy.array_equal(average, sum(sums_of_hosts) / size), "another order"
assert not numpy.array_equal(average, sum(noise) / size)
assert (hvd.allgather(average.reshape(1, -1), name="noises") == average).all(), "members hold different bits"
wanted = numpy.concatenate([numpy.full((2 * other, 7), other) for other in range(size)])
assert numpy.array_equal(hvd.allgather(numpy.full((2 * rank, 7), rank), name="rows"), wanted)
handles = [hvd.allreduce_async(numpy.full(i + 1, float(i)), name=str(i), op=hvd.Sum) for i in range(100)]
assert all((hvd.synchronize(h) == size * i).all() for i, h in enumerate(handles))
assert hvd.broadcast(numpy.array([rank]), size - 1).tolist() == [size - 1]
assert (hvd.reducescatter(numpy.ones((size, 3)), op=hvd.Sum) == size).all()
if rank == 1:
    assert (hvd.allreduce(numpy.ones(500_000), name="late", op=hvd.Sum) == 1).all()
hvd.join()
"""
    job = launch(4, script)
    assert job.end() == 0, job.text


def test_adasum_gives_the_same_bits_on_one_and_two_hosts(launch: Callable[..., Job], tmp_path: Path) -> None:
    script = """
import os, sys
if sys.argv[2] == "two":
    os.environ["FARANDOLE_HOST_ID"] = "host" + str(int(os.environ["HOROVOD_RANK"]) // 2)
    os.environ["HOROVOD_ADASUM_MPI_CHUNK_SIZE"] = "1000"
import farandole.numpy as hvd, ml_dtypes, numpy
hvd.init()
draw = numpy.random.default_rng(hvd.rank())
tensors = [draw.standard_normal(count, numpy.float32) for count in (0, 1, 3, 1001, 70_003)]
results = hvd.grouped_allreduce(tensors, op=hvd.Adasum, name="group")
results.append(hvd.allreduce(tensors[-1].astype(ml_dtypes.bfloat16), op=hvd.Adasum, name="one"))
with open(f"{sys.argv[1]}/{sys.argv[2]}.{hvd.rank()}", "wb") as bits:
    bits.write(b"".join(result.tobytes() for result in results))
"""
    for hosts in ("one", "two"):
        job = launch(4, script, str(tmp_path), hosts)
        assert job.end() == 0, job.text
    wanted = (tmp_path / "one.0").read_bytes()
    assert len(wanted) == 4 * (0 + 1 + 3 + 1001 + 70_003) + 2 * 70_003
    for path in tmp_path.glob("*.[0-3]"):
        assert path.read_bytes() == wanted, path.name
