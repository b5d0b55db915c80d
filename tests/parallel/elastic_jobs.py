"""Scripts of elastic jobs for tests, a discovery script that a test controls, and a parser of the workers' output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, NamedTuple, Tuple

# Trains until a generation of `wanted` members has made fifty steps. Each member prints a BEGIN line for each of its
# generations. The worker of slot `victim`, if there is one, kills itself at step 30.
TRAINING = """
import os, signal, sys
import numpy, farandole.numpy as hvd

wanted, victim = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None
slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.zeros(2), step=0)

@hvd.elastic.run
def train(state):
    began = state.step
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {began} pid {os.getpid()}", flush=True)
    while hvd.size() != wanted or state.step < began + 50:
        if slot == victim and state.step == 30:
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
    """The BEGIN line that one member printed at the start of a generation."""

    slot: int
    rank: int
    size: int
    step: int
    pid: int


def beginnings(text: str) -> List[Beginning]:
    """All BEGIN lines in the output of a job."""
    lines = re.findall(r"BEGIN slot (\d+) rank (\d+) of (\d+) step (\d+) pid (\d+)\n", text)
    return [Beginning(*map(int, numbers)) for numbers in lines]


def of_size(text: str, size: int) -> List[Tuple[int, int]]:
    """The slot and the rank of every member of a generation of this size, in ascending order."""
    return sorted((beginning.slot, beginning.rank) for beginning in beginnings(text) if beginning.size == size)


class Hosts:
    """A discovery script whose output the test can change while the job runs."""

    def __init__(self, folder: Path) -> None:
        self.answer = folder / "answer.sh"
        self.script = folder / "discover.sh"
        self.script.write_text(f"#!/bin/sh\n. {self.answer}\n")
        self.script.chmod(0o755)

    def print_lines(self, *lines: str) -> None:
        """From now on the script prints these lines."""
        self.run_commands("".join(f"echo '{line}'\n" for line in lines))

    def run_commands(self, commands: str) -> None:
        """From now on the script runs these shell commands."""
        # The script may run at any time and must never read a partly written file, so a complete one is renamed.
        complete = self.answer.with_suffix(".new")
        complete.write_text(commands)
        complete.rename(self.answer)


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
    """A script that runs the given script, and in which the worker of slot 1 kills itself after `commits` commits."""
    return _LOSES_A_WORKER.format(command=[str(script), *arguments.split()], commits=commits)
