"""Measures how long a change of membership delays the other members: a worker is killed, joins or leaves."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple, Optional

from benchmarks.report import machine, row, verdict
from benchmarks.worker_group import ROOT

RANKS = 4
DEADLINE_S = 120
AT_STEP = 300
WORLD_TEST = ROOT / "build" / "tests" / "world" / "world_test"

# Output of the script. Times are in ms of CLOCK_MONOTONIC, which all processes of a machine share.
# - KILL TIME: the victim is about to kill itself.
# - TOLD TIME: an operation of a survivor has failed.
# - GO BEFORE AFTER LAST FIRST LOST: the number of members changed from BEFORE to AFTER. LAST and FIRST are the times
# of
#   the last step before and the first step after; LOST is the number of completed steps that were rolled back.
# The victim is alone on its host, because Horovod ends all workers of a host on which one has failed.
HOROVOD = f"""
import os, signal, sys, time
import torch, horovod.torch as hvd

def now():
    return time.monotonic() * 1e3

wanted = int(sys.argv[1])
victim = sys.argv[2:] == [os.environ["HOROVOD_HOSTNAME"]]
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(100, 10), step=0)
before, last, done = 0, 0.0, 0

@hvd.elastic.run
def train(state):
    global before, last, done
    began, size = state.step, hvd.size()
    while size != wanted or state.step < began + {AT_STEP}:
        if victim and state.step == {AT_STEP}:
            print(f"KILL {{now():.3f}}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            hvd.allreduce(torch.ones(1000), name="gradients")
        except hvd.HorovodInternalError:
            print(f"TOLD {{now():.3f}}", flush=True)
            raise
        state.step += 1
        if size != before:
            print(f"GO {{before}} {{size}} {{last:.3f}} {{now():.3f}} {{done - began}}", flush=True)
            before = size
        last, done = now(), state.step
        state.commit()

train(state)
"""

# The same with torchrun, which restarts every worker. The new workers connect through a new store.
TORCHRUN = f"""
import os, signal, time
import torch, torch.distributed as dist

def now():
    return time.monotonic() * 1e3

dist.init_process_group("gloo")
again = int(os.environ["TORCHELASTIC_RESTART_COUNT"]) > 0
for step in range({AT_STEP}):
    dist.all_reduce(torch.ones(1000))
    if step == 0 and again:
        print(f"GO 4 4 0 {{now():.3f}} 0", flush=True)
if not again and dist.get_rank() == 2:
    print(f"KILL {{now():.3f}}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if not again:
    dist.all_reduce(torch.ones(1000))
dist.destroy_process_group()
"""


# By default all restarts share one store, in which workers find addresses of the previous workers (PyTorch 135712).
TORCHRUN_SETTINGS = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
VICTIMS_HOST = "127.0.0.1"
HOSTS = f"localhost:{RANKS - 1},{VICTIMS_HOST}:1"


@dataclass
class Elastic:
    """Milliseconds and rolled-back steps, one entry for each round."""

    told: list[float] = field(default_factory=list)
    regrouped: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    joined: list[float] = field(default_factory=list)
    removed: list[float] = field(default_factory=list)
    lost_by_kill: list[int] = field(default_factory=list)
    lost_by_removal: list[int] = field(default_factory=list)
    torchrun: list[float] = field(default_factory=list)
    horovod: list[float] = field(default_factory=list)
    rendezvous_ms: Optional[float] = None


class Change(NamedTuple):
    """A change of membership as one remaining member saw it: the times of its last step before and its first step
    after."""

    last: float
    first: float
    steps_lost: int


def _run(
    command: list[str],
    hosts: Path,
    change: tuple[int, str] | None = None,
    settings: dict[str, str] | None = None,
    must_end_well: bool = True,
) -> str:
    """Runs a job and returns its output. `change` is (n, text): once n members have begun, `text` becomes the list of
    hosts."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **(settings or {})},
    )
    said = ""
    assert process.stdout is not None
    for line in process.stdout:
        said += line
        if change is not None and len(re.findall("GO 0 ", said)) == change[0]:
            _write(hosts, change[1])
            change = None
    if process.wait(DEADLINE_S) != 0 and must_end_well:
        sys.exit(f"bench: a job ended with {process.returncode}:\n{said}")
    return said


def _write(hosts: Path, text: str) -> None:
    fresh = hosts.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(hosts)


def times(said: str, word: str) -> list[float]:
    return [float(each) for each in re.findall(rf"{word} ([0-9.]+)", said)]


def changes_to(said: str, size: int) -> list[Change]:
    """The changes to `size` members, of members that existed before."""
    found = re.findall(rf"GO [1-9]\d* {size} ([0-9.]+) ([0-9.]+) (-?\d+)", said)
    return [Change(float(last), float(first), int(lost)) for last, first, lost in found]


def _pause(changes: list[Change]) -> float:
    return max(each.first - each.last for each in changes)


def _steps_lost(changes: list[Change]) -> int:
    return max(each.steps_lost for each in changes)


def _round(into: Elastic, folder: Path, horovod_python: str) -> None:
    ours, theirs, hosts, script = (folder / name for name in ("ours.py", "theirs.py", "hosts.txt", "hosts.sh"))
    ours.write_text(HOROVOD)
    theirs.write_text(TORCHRUN)
    script.write_text(f"#!/bin/sh\ncat {hosts}\n")
    script.chmod(0o755)
    sizes = ["--min-np", "2", "--max-np", str(RANKS)]
    run = [str(ROOT / ".venv/bin/horovodrun"), *sizes]
    found = [*run, "--host-discovery-script", str(script)]
    python = str(ROOT / ".venv/bin/python")
    killed = ["-np", str(RANKS), "-H", HOSTS]

    said = _run([*run, *killed, python, str(ours), "3", VICTIMS_HOST], hosts)
    kill, told, changes = times(said, "KILL")[0], max(times(said, "TOLD")), changes_to(said, 3)
    first = max(each.first for each in changes)
    into.told.append(told - kill)
    into.regrouped.append(first - told)
    into.killed.append(first - kill)
    into.lost_by_kill.append(_steps_lost(changes))

    _write(hosts, "localhost:3\n")
    said = _run([*found, "-np", "3", python, str(ours), "4"], hosts, (3, "localhost:4\n"))
    into.joined.append(_pause(changes_to(said, 4)))

    _write(hosts, "localhost:3\n127.0.0.1:1\n")
    said = _run([*found, "-np", "4", python, str(ours), "3"], hosts, (4, "localhost:3\n"))
    into.removed.append(_pause(changes_to(said, 3)))
    into.lost_by_removal.append(_steps_lost(changes_to(said, 3)))

    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}", "--max-restarts=1"]
    said = _run([python, *torchrun, str(theirs)], hosts, settings=TORCHRUN_SETTINGS, must_end_well=False)
    if len(changes_to(said, RANKS)) == RANKS:
        into.torchrun.append(max(each.first for each in changes_to(said, RANKS)) - times(said, "KILL")[0])

    if horovod_python:
        launch = [horovod_python, "-m", "horovod.runner.launch", *sizes, *killed, horovod_python, str(ours)]
        said = _run([*launch, "3", VICTIMS_HOST], hosts, must_end_well=False)
        if len(changes_to(said, 3)) == 3:
            into.horovod.append(max(each.first for each in changes_to(said, 3)) - times(said, "KILL")[0])


def _rendezvous_ms() -> Optional[float]:
    """The rendezvous' own time for a regroup of 512 simulated ranks, in ms; None if the tests are not built."""
    if not WORLD_TEST.exists():
        return None
    page = subprocess.run([WORLD_TEST, "--regroup-scale"], capture_output=True, text=True, timeout=300, check=True)
    found = re.search(r"^\| 512 \|.*\*\*([0-9.]+)\*\*", page.stdout, re.MULTILINE)
    assert found, page.stdout
    return float(found[1])


def measure(rounds: int, horovod_python: str) -> Elastic:
    """Runs the simulated regroup once, and then in each round all other measurements, one after the other."""
    measured = Elastic(rendezvous_ms=_rendezvous_ms())
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        for number in range(rounds):
            _round(measured, Path(folder), horovod_python)
            print(f"bench: members that change: round {number + 1} of {rounds}", file=sys.stderr)
    return measured


def markdown(measured: Elastic) -> str:
    """The table."""
    rounds = len(measured.killed)

    def line(what: str, times: list[float], wanted: float | None = None) -> str:
        if len(times) < rounds:
            what += f" (came to it in {len(times)} of {rounds} rounds)"
        if not times:
            return row(what, "", "report")
        middle = statistics.median(times)
        text = f"{middle:.0f} ({min(times):.0f} to {max(times):.0f})"
        if wanted is None:
            return row(what, text, "report")
        return row(what, verdict(text, middle <= wanted), f"≤ {wanted:g}")

    def steps(what: str, lost: list[int], wanted: int | None = None) -> str:
        text = str(max(lost))
        return row(
            what, text if wanted is None else verdict(text, max(lost) <= wanted), "report" if wanted is None else "0"
        )

    lines = [
        row(f"{RANKS} workers on one host, ms", "median (least to most)", "wanted"),
        row("---", "---", "---"),
        line("SIGKILL of one, to the survivors' first completed step", measured.killed, 250),
        line("of that: until the last survivor is told", measured.told),
        line("of that: from then on, with the state given to all", measured.regrouped, 50),
        steps("completed steps that are taken back, at the most", measured.lost_by_kill),
        line("one more joins: pause of the others, with the state given to all", measured.joined, 100),
        line("a host with one worker is taken out: pause of the others", measured.removed, 50),
        steps("completed steps that are taken back, at the most", measured.lost_by_removal, 0),
        line("torchrun, SIGKILL of one, to the first completed step of all, started anew", measured.torchrun),
    ]
    if measured.rendezvous_ms is not None:
        text = verdict(f"{measured.rendezvous_ms:.1f}", measured.rendezvous_ms <= 50)
        lines.append(row("512 simulated ranks, one lost: the rendezvous' own time for the regroup", text, "≤ 50"))
    if measured.horovod:
        lines.append(line("Horovod, SIGKILL of one, to the survivors' first completed step", measured.horovod))
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    return "\n".join([f"Measured {today} on {machine()}; {rounds} rounds, all in turns.", "", *lines]) + "\n"
