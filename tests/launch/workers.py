"""Scripts that the workers of the tests run, and what the tests read from their output."""

from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
from pathlib import Path
from typing import Callable, Dict, List

from launched import DEADLINE_S, wait_until, without_waits
from namespaces import Process
from namespaces.ssh_hosts import PORT, HostProcess, SshHosts

# A worker prints its place in the job and the host on which it runs.
PLACE = (
    'echo "place $HOROVOD_HOSTNAME rank $HOROVOD_RANK of $HOROVOD_SIZE local $HOROVOD_LOCAL_RANK of $HOROVOD_LOCAL_SIZE'
    ' cross $HOROVOD_CROSS_RANK of $HOROVOD_CROSS_SIZE on $(hostname)"'
)

# A worker prints its process id and runs until a signal ends it.
ENDLESS = 'echo "pid $$ of $HOROVOD_RANK"; exec sleep 3600'

# A worker that SIGTERM does not end.
STUBBORN = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("pid", os.getpid(), "of", os.environ["HOROVOD_RANK"], flush=True)
while True:
    signal.pause()
"""

# A process that accepts connections on ssh's port and never answers.
SILENT = f"""
import socket
listener = socket.create_server(("0.0.0.0", {PORT}))
print("ready", flush=True)
kept = []
while True:
    kept.append(listener.accept())
"""

# A worker runs until the file of its first argument exists.
UNTIL_FILE = """
import os, sys, time
print("pid", os.getpid(), "of", os.environ["HOROVOD_RANK"], flush=True)
end = time.monotonic() + 240
while not os.path.exists(sys.argv[1]):
    assert time.monotonic() < end
    time.sleep(0.01)
print("done", flush=True)
"""

# The members compare their places with the environment, and compute sums over all hosts.
SUMS = """
import os
import numpy, farandole.numpy as hvd

hvd.init()
names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE")
told = [int(os.environ["HOROVOD_" + name]) for name in names]
place = [hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size()]
assert told == place, (told, place)
for elements in (1, 1000, 300_001):
    total = hvd.allreduce(numpy.full(elements, hvd.rank() + 1.0), op=hvd.Sum, name=f"sum.{elements}")
    assert (total == hvd.size() * (hvd.size() + 1) // 2).all()
gathered = hvd.allgather(numpy.full((hvd.rank() + 1, 2), hvd.rank()), name="rows")
assert gathered[:, 0].tolist() == [rank for rank in range(hvd.size()) for _ in range(rank + 1)]
print("local", hvd.local_rank(), "of", hvd.local_size(), "on", os.environ["HOROVOD_HOSTNAME"], flush=True)
hvd.shutdown()
"""

# The members train until the file of the first argument exists; each prints how each generation began.
TRAINING = """
import os, sys
import numpy, farandole.numpy as hvd

hvd.init()
state = hvd.elastic.NumPyState(weight=numpy.zeros(2), step=0)
host = os.environ["HOROVOD_HOSTNAME"]

@hvd.elastic.run
def train(state):
    print(f"BEGIN of {hvd.size()} on {host} step {state.step} pid {os.getpid()}", flush=True)
    done = False
    while not done:
        asked = numpy.array([float(os.path.exists(sys.argv[1]))])
        done = bool(hvd.allreduce(asked, op=hvd.Sum, name="done"))
        state.weight += 1.0
        state.step += 1
        state.commit()
    weights = hvd.allgather(state.weight.reshape(1, 2), name="weights")
    assert (weights == float(state.step)).all(), (weights, state.step)
    print(f"DONE on {host}", flush=True)

train(state)
"""


def python(folder: Path, script: str, *arguments: str) -> List[str]:
    """The command that runs a script, which is written to this folder."""
    path = folder / f"script{len(list(folder.glob('script*.py')))}.py"
    path.write_text(textwrap.dedent(script))
    return [sys.executable, str(path), *arguments]


def add_program(hosts: SshHosts, name: str, script: str) -> None:
    """Puts a program into the folder `programs` of all hosts."""
    path = hosts.shared / "programs" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{textwrap.dedent(script)}\n")
    path.chmod(0o755)


def exit_code(job: Process) -> int:
    """The exit code of the job as a shell reports it."""
    code = job.end(DEADLINE_S)
    return code if code >= 0 else 128 - code


def lines_of(job: Process, rank: int, stream: str = "stdout") -> List[str]:
    """The lines of a rank, without their prefix, in the order in which the launcher wrote them."""
    return re.findall(rf"^\[{rank}\]<{stream}>: ?(.*)$", without_waits(job.text), re.MULTILINE)


def begun(job: Process, size: int, count: int) -> List[str]:
    """Waits until so many members have begun generations of this size in TRAINING; the hosts of these members."""
    pattern = rf"BEGIN of {size} on (\w+) step \d+ pid \d+\n"
    return [found.group(1) for found in job.read_matches(pattern, count, DEADLINE_S)]


def end_training(job: Process, hosts: SshHosts, members: int) -> None:
    """Lets the members of TRAINING finish, and checks that all of them do."""
    (hosts.shared / "enough").touch()
    assert exit_code(job) == 0, job.text
    assert job.text.count("DONE on ") == members, job.text
    wait_until_empty(hosts, *range(len(hosts.names)))


def worker_on(job: Process, host: str) -> int:
    """The process id of the worker of TRAINING that began last on a host."""
    return int(re.findall(rf"BEGIN of \d+ on {host} step \d+ pid (\d+)", job.text)[-1])


def lines_about(job: Process, host: str) -> List[str]:
    """The lines of the launcher itself that name a host."""
    lines = [line for line in job.text.splitlines() if "]<std" not in line]
    return [line for line in lines if re.search(rf"(?<![\w.]){host}(?![\w.])", line)]


def pids_of(job: Process, ranks: int) -> Dict[int, int]:
    """The process id of each rank; waits until all have printed theirs."""
    found = job.read_matches(r"pid (\d+) of (\d+)\n", ranks, DEADLINE_S)
    return {int(match.group(2)): int(match.group(1)) for match in found}


def agent_of(hosts: SshHosts, number: int, worker: int) -> int:
    """The process id of the agent that started this worker on a host."""
    processes = {each.pid: each for each in hosts.processes(number)}
    agent = processes[processes[worker].parent]
    assert " agent" in agent.command, f"the parent of worker {worker} is not an agent: {agent}"
    return agent.pid


def kill_launcher(job: Process) -> None:
    """Kills the launcher."""
    os.kill(job.pid, signal.SIGKILL)
    wait_until(job.has_ended, "the launcher ends")


def only(processes: List[HostProcess], choose: Callable[[HostProcess], bool]) -> int:
    """The process id of the one process that is chosen."""
    chosen = [process for process in processes if choose(process)]
    assert len(chosen) == 1, f"not one process: {chosen} of {processes}"
    return chosen[0].pid


def wait_until_empty(hosts: SshHosts, *numbers: int) -> None:
    """Waits until no process runs on these hosts, apart from the sshd that accepts connections."""
    names = " and ".join(hosts.names[number] for number in numbers)
    wait_until(lambda: not any(hosts.processes(number) for number in numbers), f"all processes on {names} end")
