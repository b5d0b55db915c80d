"""How long a change of the members holds up those who stay: a worker that is killed, that joins, that leaves."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.crew import ROOT
from benchmarks.report import machine, row, verdict

RANKS = 4
DEADLINE_S = 120
AT_STEP = 300

# Every line tells a time in ms of the clock that all processes of a machine share. KILL: the victim's last one. TOLD: a
# survivor was told. GO: the last step before and the first step after the members changed, from so many to so many.
FARANDOLE = f"""
import os, signal, sys, time
import torch, horovod.torch as hvd

def now():
    return time.monotonic() * 1e3

scenario, wanted = sys.argv[1], int(sys.argv[2])
victim = scenario == "kill" and os.environ["HOROVOD_RANK"] == "2"
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(100, 10), step=0)
before, last = 0, 0.0

@hvd.elastic.run
def train(state):
    global before, last
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
            print(f"GO {{before}} {{size}} {{last:.3f}} {{now():.3f}}", flush=True)
            before = size
        last = now()
        state.commit()

train(state)
"""

# The same with what PyTorch brings: every worker is started anew.
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
        print(f"GO 4 4 0 {{now():.3f}}", flush=True)
if not again and dist.get_rank() == 2:
    print(f"KILL {{now():.3f}}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if not again:
    dist.all_reduce(torch.ones(1000))
dist.destroy_process_group()
"""


@dataclass
class Elastic:
    """Milliseconds by round."""

    told: list[float] = field(default_factory=list)
    regrouped: list[float] = field(default_factory=list)
    killed: list[float] = field(default_factory=list)
    joined: list[float] = field(default_factory=list)
    removed: list[float] = field(default_factory=list)
    torchrun: list[float] = field(default_factory=list)


def _run(command: list[str], hosts: Path, change: tuple[int, str] | None = None, must_end_well: bool = True) -> str:
    """What a job says. Once so many members have begun, the hosts are these."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
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


def _times(said: str, word: str) -> list[float]:
    return [float(each) for each in re.findall(rf"{word} ([0-9.]+)", said)]


def _pauses(said: str, size: int) -> list[float]:
    """Of those who were there before and came to be so many."""
    found = re.findall(rf"GO [1-9]\d* {size} ([0-9.]+) ([0-9.]+)", said)
    return [float(after) - float(before) for before, after in found]


def _round(into: Elastic, folder: Path) -> None:
    ours, theirs, hosts, script = (folder / name for name in ("ours.py", "theirs.py", "hosts.txt", "hosts.sh"))
    ours.write_text(FARANDOLE)
    theirs.write_text(TORCHRUN)
    script.write_text(f"#!/bin/sh\ncat {hosts}\n")
    script.chmod(0o755)
    run = [str(ROOT / ".venv/bin/horovodrun"), "--min-np", "2", "--max-np", str(RANKS)]
    found = [*run, "--host-discovery-script", str(script)]
    python = str(ROOT / ".venv/bin/python")

    said = _run([*run, "-np", str(RANKS), "-H", f"localhost:{RANKS}", python, str(ours), "kill", "3"], hosts)
    kill, told = _times(said, "KILL")[0], max(_times(said, "TOLD"))
    first = max(float(each) for each in re.findall(r"GO 4 3 [0-9.]+ ([0-9.]+)", said))
    into.told.append(told - kill)
    into.regrouped.append(first - told)
    into.killed.append(first - kill)

    _write(hosts, "localhost:3\n")
    said = _run([*found, "-np", "3", python, str(ours), "join", "4"], hosts, (3, "localhost:4\n"))
    into.joined.append(max(_pauses(said, 4)))

    _write(hosts, "localhost:3\n127.0.0.1:1\n")
    said = _run([*found, "-np", "4", python, str(ours), "leave", "3"], hosts, (4, "localhost:3\n"))
    into.removed.append(max(_pauses(said, 3)))

    said = _run(
        [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", "--max-restarts=1", str(theirs)],
        hosts,
        must_end_well=False,
    )
    again = [float(each) for each in re.findall(r"GO 4 4 0 ([0-9.]+)", said)]
    if len(again) == RANKS:  # its workers do not always find each other again
        into.torchrun.append(max(again) - _times(said, "KILL")[0])


def measure(rounds: int) -> Elastic:
    """In each round all of it, one after the other."""
    measured = Elastic()
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        for number in range(rounds):
            _round(measured, Path(folder))
            print(f"bench: members that change: round {number + 1} of {rounds}", file=sys.stderr)
    return measured


def markdown(measured: Elastic) -> str:
    """The table."""

    def line(what: str, times: list[float], wanted: float | None = None) -> str:
        if not times:
            return row(what, "never came to it", "report")
        middle = statistics.median(times)
        text = f"{middle:.0f} ({min(times):.0f} to {max(times):.0f})"
        if wanted is None:
            return row(what, text, "report")
        return row(what, verdict(text, middle <= wanted), f"≤ {wanted:g}")

    lines = [
        row(f"{RANKS} workers on one host, ms", "median (least to most)", "wanted"),
        row("---", "---", "---"),
        line("SIGKILL of one, to the survivors' first completed step", measured.killed, 250),
        line("of that: until the last survivor is told", measured.told),
        line("of that: from then on, with the state given to all", measured.regrouped, 50),
        line("one more joins: pause of the others, with the state given to all", measured.joined, 100),
        line("a host with one worker is taken out: pause of the others", measured.removed, 50),
        line(
            "torchrun, SIGKILL of one, to the first completed step of all, started anew"
            f" (in {len(measured.torchrun)} of {len(measured.killed)} rounds)",
            measured.torchrun,
        ),
    ]
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    return "\n".join([f"Measured {today} on {machine()}; {len(measured.killed)} rounds.", "", *lines]) + "\n"
