"""Horovod's timeline: the file that rank 0 writes, on every path, and what happens if it cannot be written."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest
from elastic_jobs import TRAINING, of_size
from launched import DEADLINE_S, Job, clean_environment, launch, needs_launcher, wait_until

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

FIELDS = {
    "M": ["name", "ph", "pid", "args"],
    "B": ["ph", "name", "ts", "pid"],
    "X": ["ph", "name", "ts", "pid", "dur"],
    "E": ["ph", "ts", "pid"],
    "i": ["ph", "name", "ts", "s"],
}


class Timeline:
    """The records of a file, which must be well formed."""

    def __init__(self, path: Path, complete: bool = True) -> None:
        self.records: List[Dict[str, Any]] = json.loads(path.read_text())
        first, second = self.records[:2]
        assert list(first["args"]) == ["start_time_since_epoch_in_micros"], first
        assert second == {"name": "process_sort_index", "ph": "M", "pid": 0, "args": {"sort_index": 0}}
        assert all(list(record) == FIELDS[record["ph"]] for record in self.records), self.records
        self.tensors: Dict[int, str] = {}
        self.stories: Dict[int, List[str]] = defaultdict(list)
        for record in self.records[2:]:
            self._add(record)
        if complete:
            assert all(self._depth(pid) == 0 for pid in self.tensors), self.stories

    def _add(self, record: Dict[str, Any]) -> None:
        pid, kind = record.get("pid", 0), record["ph"]
        if kind == "M" and "name" in record["args"]:
            assert pid == len(self.tensors) + 1, record
            self.tensors[pid] = record["args"]["name"]
        elif kind == "X":
            # Requests may come in any order.
            self.stories[pid].append(record["name"])
            position = len(self.stories[pid])
            while self.stories[pid][position - 1].isdigit():
                position -= 1
            self.stories[pid][position:] = sorted(self.stories[pid][position:])
        elif kind in "BE":
            self.stories[pid].append(record["name"] if kind == "B" else "E")
            assert self._depth(pid) >= 0, self.stories

    def _depth(self, pid: int) -> int:
        ends = self.stories[pid].count("E")
        return sum(not each.isdigit() for each in self.stories[pid]) - 2 * ends

    def story(self, tensor: str) -> str:
        """The names of the phases of a tensor, the ticks of ranks, and E for each end."""
        (pid,) = [pid for pid, name in self.tensors.items() if name == tensor]
        return " ".join(self.stories[pid])

    def cycles(self) -> int:
        return sum(record.get("name") == "CYCLE_START" for record in self.records)


def negotiated(kind: str, ranks: str = "0 1") -> str:
    return f"NEGOTIATE_{kind} {ranks} E"


def executed(kind: str, path: str, ending: str = "") -> str:
    return f"{negotiated(kind)} {kind} {path}_{ending or kind} E E"


def eventually_shows(path: Path, text: str) -> None:
    wait_until(lambda: text in path.read_text(), f"{path.name} contains {text}")


# Settings that the program makes itself. After three operations the ranks wait for the test.
SET_BY_PROGRAM = """
import os, sys
folder, rank = sys.argv[1], os.environ["HOROVOD_RANK"]
os.environ["HOROVOD_TIMELINE"] = f"{folder}/{rank}.json"
os.environ["HOROVOD_TIMELINE_MARK_CYCLES"] = "1"
import numpy, farandole.numpy as hvd
hvd.init()
for _ in range(3):
    hvd.allreduce(numpy.ones(4), name="three times")
hvd.allreduce(numpy.ones(4), name="once")
print(f"RANK {rank} PID {os.getpid()}.", flush=True)
open(f"{folder}/pipe.{rank}").close()
while True:
    hvd.allreduce(numpy.ones(4), name="until the end")
"""


@pytest.mark.parametrize(
    ("path", "settings"),
    [
        pytest.param("FAST_PATH", {}, id="fast-path"),
        pytest.param("LOCAL", {"FARANDOLE_FAST_PATH": "0", "FARANDOLE_RECORDER_EVENTS": "0"}, id="leader"),
    ],
)
def test_rank_0_alone_writes_a_file_that_is_valid_while_the_job_runs_and_after_sigkill(
    path: str,
    settings: Dict[str, str],
    launch: Callable[..., Job],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for rank in range(2):
        os.mkfifo(tmp_path / f"pipe.{rank}")
    job = launch(2, SET_BY_PROGRAM, str(tmp_path))
    job.read_until(lambda text: len(re.findall(r"PID \d+\.", text)) >= 2)
    file = tmp_path / "0.json"
    # Each of the four operations ends three phases.
    wait_until(lambda: file.exists() and file.read_text().count('"ph": "E"') == 12, "0.json has four operations")
    running = Timeline(file)
    assert running.story("allreduce.once") == executed("ALLREDUCE", "LOCAL")
    assert running.story("allreduce.three times") == " ".join(
        executed("ALLREDUCE", each) for each in ("LOCAL", "LOCAL", path)
    )
    assert running.cycles() >= 4

    second = subprocess.run(
        [sys.executable, "-c", "import farandole.numpy as hvd; hvd.init(); hvd.barrier(); print('goes on')"],
        check=True,
        capture_output=True,
        text=True,
        env={**clean_environment(), "HOROVOD_TIMELINE": str(file)},
        timeout=DEADLINE_S,
    )
    assert second.stdout == "goes on\n"
    assert second.stderr.count(f"cannot be written to {file}: another process writes its timeline") == 1

    for rank in range(2):
        job.open_for_reader(tmp_path / f"pipe.{rank}")
    eventually_shows(file, "until the end")
    found = re.search(r"RANK 0 PID (\d+)\.", job.text)
    assert found is not None
    os.kill(int(found.group(1)), signal.SIGKILL)
    assert job.end() != 0
    assert "allreduce.until the end" in Timeline(file, complete=False).tensors.values()
    assert [each.name for each in tmp_path.glob("*.json")] == ["0.json"]


# The test's process holds the lock of `taken.json`, as another job would.
STARTED_BY_PROGRAM = """
import json, os, resource, sys
import numpy, farandole.numpy as hvd
folder = sys.argv[1]

def refuses(call, *arguments):
    try:
        call(*arguments)
    except ValueError as problem:
        return str(problem)
    raise SystemExit(f"{call} raised no ValueError")

refuses(hvd.start_timeline, f"{folder}/early.json")
refuses(hvd.stop_timeline)
os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"
hvd.init()

def work(name="work"):
    hvd.allreduce(numpy.ones(4), name=name)

def start(name):
    # All ranks call; none submits before rank 0 writes.
    hvd.start_timeline(f"{folder}/{name}", mark_cycles=True)
    hvd.barrier()

def text(name):
    with open(f"{folder}/{name}") as file:
        return file.read()

work("before")
for number in range(1, 5):
    start(f"{number}.json")
    hvd.start_timeline(f"{folder}/{number}.json")
    work()
    if number % 2 == 0:
        hvd.stop_timeline()
        if hvd.rank() == 0:
            assert "allreduce.work" in text(f"{number}.json")
            json.loads(text(f"{number}.json"))
hvd.barrier()  # rank 0 has stopped its timeline
work("after")
hvd.stop_timeline()

for name in ("folder", "pipe", "missing/t.json", "taken.json"):
    start(name)
    work()

start("removed.json")
work()
if hvd.rank() == 0:
    os.remove(f"{folder}/removed.json")
hvd.barrier()
work()
hvd.stop_timeline()

start("full.json")
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
if hvd.rank() == 0:
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
for _ in range(100):
    work()
hvd.stop_timeline()
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

if hvd.rank() == 1:
    hvd.start_timeline(f"{folder}/of_rank_1.json")
start("names.json")
work('quotes "\\\\" and\\nlines')
work("n" * 4000)
print(refuses(work, "n" * 65536), flush=True)
hvd.barrier()  # rank 1 has been refused too
hvd.shutdown()
print("COMPLETE", len(json.loads(text("names.json"))), flush=True)
"""


def test_a_program_starts_and_stops_timelines_and_training_survives_what_cannot_be_written(
    launch: Callable[..., Job], tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "taken.json").open("w") as taken:
        taken.write("of another job")
        taken.flush()
        fcntl.flock(taken, fcntl.LOCK_EX)
        job = launch(2, STARTED_BY_PROGRAM, str(tmp_path))
        assert job.end() == 0, job.text

    paths = []
    for number in range(1, 5):
        timeline = Timeline(tmp_path / f"{number}.json")
        story = timeline.story("allreduce.work")
        paths.append(re.findall(r"(\w+)_ALLREDUCE E E", story)[0])
        assert story == executed("ALLREDUCE", paths[-1])
        assert not {"allreduce.before", "allreduce.after"} & set(timeline.tensors.values())
        assert timeline.cycles() >= 1
    # The leader assigns an id with the first operation, and a cell of the fast path with the second.
    assert paths == ["LOCAL", "LOCAL", "FAST_PATH", "FAST_PATH"]

    for name, reason in {
        "folder": "Is a directory",
        "pipe": "it is not a regular file",
        "missing/t.json": "No such file or directory",
        "taken.json": "another process writes its timeline to this file; give each job its own",
        "removed.json": "the file was removed",
        "full.json": "File too large",
    }.items():
        line = f"the timeline cannot be written to {tmp_path / name}: {reason}; training continues without the timeline"
        assert job.text.count(line) == 1, job.text
    assert (tmp_path / "taken.json").read_text() == "of another job"
    assert Timeline(tmp_path / "full.json", complete=False).records
    assert not (tmp_path / "of_rank_1.json").exists()
    assert not (tmp_path / "early.json").exists()

    names = Timeline(tmp_path / "names.json").tensors.values()
    assert {'allreduce.quotes "\\" and\nlines', "allreduce." + "n" * 4000} <= set(names)
    assert job.text.count("a tensor's name must have 1 to 4096 bytes, not 65546") == 2
    assert job.text.count("COMPLETE") == 2


# Both ranks are on hosts of their own, so their tensors go over TCP. The second time, the small tensor is reduced by
# the leader.
BETWEEN_HOSTS = """
import os
rank = int(os.environ["HOROVOD_RANK"])
os.environ["FARANDOLE_HOST_ID"] = f"host{rank}"
import numpy, farandole.numpy as hvd
sets = [hvd.ProcessSet([0]), hvd.ProcessSet([1])]
hvd.init(process_sets=sets)
large = numpy.ones((2, 5000), numpy.float32)
hvd.allreduce(numpy.ones(4), name="small")
hvd.allreduce(numpy.ones(4), name="small")
hvd.allreduce(large, name="sum")
hvd.allreduce(large, op=hvd.Adasum, name="adasum")
hvd.allgather(large, name="gathered")
hvd.broadcast(large, root_rank=1, name="root")
hvd.alltoall(large, name="dealt")
hvd.reducescatter(large, name="scattered")
hvd.grouped_allreduce([large, large], name="group")
try:
    hvd.allreduce(numpy.ones(3 + rank), name="different")
    raise SystemExit("ranks may differ")
except hvd.MismatchError:
    pass
hvd.allreduce(large, name="alone", process_set=sets[rank])
hvd.barrier()
hvd.join()
"""


def test_each_operation_between_hosts_shows_its_phases(launch: Callable[..., Job], tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    job = launch(2, BETWEEN_HOSTS, flags=["--timeline-filename", str(file), "--timeline-mark-cycles"])
    assert job.end() == 0, job.text
    timeline = Timeline(file)
    assert timeline.story("allreduce.small") == " ".join(
        [executed("ALLREDUCE", "TCP"), executed("ALLREDUCE", "INLINE")]
    )
    assert timeline.story("allreduce.sum") == executed("ALLREDUCE", "TCP")
    assert timeline.story("allreduce.adasum") == executed("ADASUM", "TCP", "ADASUM_ALLREDUCE")
    assert timeline.story("allgather.gathered") == executed("ALLGATHER", "TCP")
    assert timeline.story("broadcast.root") == executed("BROADCAST", "TCP", "BCAST")
    # The first run tells the ranks how many rows they will receive.
    assert timeline.story("alltoall.dealt") == (negotiated("ALLTOALL") + " ALLTOALL TCP_ALLTOALL E TCP_ALLTOALL E E")
    assert timeline.story("reducescatter.scattered") == executed("REDUCESCATTER", "TCP")
    groups = [name for name in timeline.tensors.values() if "group" in name]
    assert len(groups) == 2, timeline.tensors
    assert {timeline.story(name) for name in groups} == {executed("ALLREDUCE", "TCP")}
    assert timeline.story("allreduce.different") == negotiated("ALLREDUCE") + " ERROR E"
    # Rank 0 does not belong to the other set.
    assert timeline.story("allreduce.alone") == negotiated("ALLREDUCE", "0") + " ALLREDUCE SOLO_ALLREDUCE E E"
    (barrier,) = [name for name in timeline.tensors.values() if "barrier" in name]
    assert timeline.story(barrier) == negotiated("BARRIER")
    assert not [name for name in timeline.tensors.values() if "join" in name]
    assert timeline.cycles() >= 8


def test_the_timeline_goes_on_in_a_new_generation_when_rank_0_dies(elastic: Callable[..., Job], tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    flags = ["-np", "3", "--min-np", "1", "-H", "localhost:3", "--timeline-filename", str(file)]
    job = elastic(TRAINING, flags, "2", "0")
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(1, 0), (2, 1)]
    timeline = Timeline(file)
    assert "2" not in re.findall(r"\d", timeline.story("allreduce.count"))  # the new generation has ranks 0 and 1
    assert timeline.story("allgather.weights").startswith(negotiated("ALLGATHER"))
