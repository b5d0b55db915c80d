"""Elastic jobs that tests launch, and what their workers said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, NamedTuple, Tuple

# Trains until a generation of the wanted size has made fifty steps, and says of each generation how it began.
TRAINING = """
import os, signal, sys
import numpy, farandole.numpy as hvd

wanted, victims = int(sys.argv[1]), [int(slot) for slot in sys.argv[2:]]
slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.zeros(2), step=0)

@hvd.elastic.run
def train(state):
    began = state.step
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {began} pid {os.getpid()}", flush=True)
    while hvd.size() != wanted or state.step < began + 50:
        if victims and victims[0] == slot and state.step == 30:
            os.kill(os.getpid(), signal.SIGKILL)
        count = hvd.allreduce(numpy.ones(1), op=hvd.Sum, name="count")
        assert count == hvd.size()
        state.weight += 1.0
        state.step += 1
        state.commit()
    weights = hvd.allgather(state.weight.reshape(1, 2), name="weights")
    assert (weights == float(state.step)).all(), (weights, state.step)
    print(f"DONE slot {slot} step {state.step}", flush=True)

train(state)
"""


class Beginning(NamedTuple):
    """A generation, as one member saw it begin."""

    slot: int
    rank: int
    size: int
    step: int
    pid: int


def beginnings(text: str) -> List[Beginning]:
    found = re.findall(r"BEGIN slot (\d+) rank (\d+) of (\d+) step (\d+) pid (\d+)", text)
    return [Beginning(*map(int, each)) for each in found]


def of_size(text: str, size: int) -> List[Tuple[int, int]]:
    """Slots and ranks of the generations of this size."""
    return sorted((each.slot, each.rank) for each in beginnings(text) if each.size == size)


class Hosts:
    """What the discovery script does; changed while the job runs."""

    def __init__(self, folder: Path) -> None:
        self.answer = folder / "answer.sh"
        self.script = folder / "discover.sh"
        self.script.write_text(f"#!/bin/sh\n. {self.answer}\n")
        self.script.chmod(0o755)

    def are(self, *lines: str) -> None:
        """It prints these."""
        self.come_by("".join(f"echo '{line}'\n" for line in lines))

    def come_by(self, commands: str) -> None:
        """It runs these commands of a shell."""
        # Never half of them: the script may run at any moment.
        fresh = self.answer.with_suffix(".new")
        fresh.write_text(commands)
        fresh.rename(self.answer)


_LOSES_A_WORKER = """
import os, runpy, signal, sys
from horovod.common.elastic import State

commits, commit = 0, State.commit

def commit_and_end(self):
    global commits
    commit(self)
    commits += 1
    if os.environ["HOROVOD_RANK"] == "1" and commits == {commits}:
        os.kill(os.getpid(), signal.SIGKILL)

State.commit = commit_and_end
sys.argv = {command}
sys.path[0] = os.path.dirname(sys.argv[0])
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def losing_a_worker(script: Path, arguments: str, commits: int) -> str:
    """A script that runs this one, and in which the worker of slot 1 dies after so many commits."""
    return _LOSES_A_WORKER.format(command=[str(script), *arguments.split()], commits=commits)
