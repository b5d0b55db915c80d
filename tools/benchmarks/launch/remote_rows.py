"""Jobs on several hosts, which are namespaces with an sshd each (`tools/namespaces`). Needs root."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Callable, ContextManager, Iterator, Sequence

from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import SshHosts, why_not

from benchmarks.launch.measurement import DEADLINE_S, OURS, Failed, Options, Row, Target, pieces_of, seconds_of
from benchmarks.launch.other_launchers import AS_ROOT, HYDRA, OPEN_MPI, compile_with_mpich, hydra, open_mpi
from benchmarks.worker_group import ROOT

BARE_SSH = "the slower of two `ssh HOST true`"
SSH_CAT = "`ssh HOST cat`"
MPI = "MPI under Hydra"

FARANDOLE_PROGRAM = """
#include <farandole/farandole.h>
#include <stddef.h>
#include <stdio.h>

int main(void) {
  farandole_runtime* runtime = NULL;
  farandole_handle* handle = NULL;
  farandole_error reason;
  farandole_submission barrier = FARANDOLE_SUBMISSION_INIT;
  barrier.name = "barrier";
  barrier.operation = FARANDOLE_BARRIER;
  if (farandole_start(NULL, &runtime, &reason) != FARANDOLE_OK ||
      farandole_submit(runtime, &barrier, &handle, &reason) != FARANDOLE_OK ||
      farandole_wait(handle, -1, &reason) != FARANDOLE_OK) {
    fprintf(stderr, "%s\\n", reason.text);
    return 1;
  }
  farandole_release(handle);
  printf("rank %d of %d\\n", farandole_rank(runtime), farandole_size(runtime));
  farandole_shutdown(runtime);
  farandole_free(runtime);
  return 0;
}
"""

MPI_PROGRAM = """
#include <mpi.h>
#include <stdio.h>

int main(int count, char** words) {
  int rank, size;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Barrier(MPI_COMM_WORLD);
  printf("rank %d of %d\\n", rank, size);
  MPI_Finalize();
  return 0;
}
"""

# The members of 4 compute until the job has lost two of them. Each survivor prints when its next step was complete, in
# seconds of CLOCK_MONOTONIC, which all processes of this machine share.
ELASTIC = """
import os, time
import numpy, farandole.numpy as hvd

hvd.init()
state = hvd.elastic.NumPyState(step=0)

@hvd.elastic.run
def train(state):
    size, began = hvd.size(), state.step
    while size == 4 or state.step < began + 20:
        hvd.allreduce(numpy.ones(1000), name="gradients")
        state.step += 1
        if state.step == began + 20 and size == 4:
            print("STEADY on", os.environ["HOROVOD_HOSTNAME"], "pid", os.getpid(), flush=True)
        if state.step == began + 1 and size == 2:
            print("NEXT", time.monotonic(), flush=True)
        state.commit()

train(state)
"""

# Rank 0 prints as fast as it can while rank 1 prints the time, in seconds of CLOCK_MONOTONIC.
PRINTING = """
import os, sys, time

end = time.monotonic() + 3
while time.monotonic() < end:
    if os.environ["HOROVOD_RANK"] == "0":
        sys.stdout.buffer.write(b"loss 0.123456 of step 1234567, 1234.5 images/s, 12.3 GB of memory\\n" * 1000)
    else:
        print("AT", time.monotonic(), flush=True)
        time.sleep(0.02)
"""


class Launches:
    """Jobs that start on the first of some hosts."""

    def __init__(self, hosts: SshHosts) -> None:
        self.hosts = hosts

    def command(self, words: Sequence[str]) -> list[str]:
        return [*self.hosts.entering(0), *words]

    def seconds_of(self, *commands: Sequence[str], more: dict[str, str] | None = None) -> float:
        settings = {"HOME": str(self.hosts.home), **(more or {})}
        return seconds_of(*map(self.command, commands), settings=settings)

    def job(self, processes: int, hosts: str, command: Sequence[str]) -> list[str]:
        return [FARANDOLE, "run", "-np", str(processes), "-H", hosts, *command]


@contextlib.contextmanager
def _hosts(folder: Path, names: Sequence[str]) -> Iterator[Launches]:
    if reason := why_not():
        raise Failed(reason)
    made = SshHosts(folder, names)
    try:
        made.make()
        yield Launches(made)
    finally:
        made.remove()


@contextlib.contextmanager
def _scripted(
    folder: Path, script: str, work: str, seconds: Callable[[Launches, Path], float], limit_ms: float
) -> Iterator[Row]:
    """A row of a script of Python in a job on two hosts, beside no other launcher."""
    with _hosts(folder, ["a", "b"]) as launches:
        file = launches.hosts.shared / "script.py"
        file.write_text(script)
        yield Row(work, {OURS: partial(seconds, launches, file)}, limit_ms=limit_ms)


@contextlib.contextmanager
def true_by_ssh(options: Options, folder: Path) -> Iterator[Row]:
    """The launcher is on a third host, so that both of the job's are reached by ssh."""
    placed, words = "b:2,c:2", ["true"]
    with _hosts(folder, ["a", "b", "c"]) as launches:
        yield Row(
            "2 hosts × 2 × `true` by ssh",
            {
                OURS: partial(launches.seconds_of, launches.job(4, placed, words)),
                BARE_SSH: partial(launches.seconds_of, ["ssh", "b", "true"], ["ssh", "c", "true"]),
                HYDRA: partial(launches.seconds_of, hydra().run(4, words, placed)),
                OPEN_MPI: partial(launches.seconds_of, open_mpi().run(4, words, placed), more=AS_ROOT),
            },
            [Target(BARE_SSH, 1.2, allowance_ms=50), Target(HYDRA, 0.8), Target(OPEN_MPI, 0.8)],
        )


@contextlib.contextmanager
def many_hosts(options: Options, folder: Path) -> Iterator[Row]:
    """The launcher is on the first of the hosts, on which both launchers start processes without ssh."""
    names = [f"h{number}" for number in range(2 if options.smoke else 16)]
    placed = ",".join(f"{name}:4" for name in names)
    processes = 4 * len(names)
    hydra_launcher = hydra()
    with _hosts(folder, names) as launches:
        ours, theirs = launches.hosts.shared / "ours", launches.hosts.shared / "theirs"
        compile_barrier_program(ours)
        _compile(theirs, MPI_PROGRAM, compile_with_mpich)
        yield Row(
            f"{len(names)} hosts × 4 workers in C: init, barrier, leave",
            {
                OURS: partial(launches.seconds_of, launches.job(processes, placed, [str(ours)])),
                MPI: partial(launches.seconds_of, hydra_launcher.run(processes, [str(theirs)], placed)),
            },
            [Target(MPI, 1.0)],
        )


def compile_barrier_program(program: Path) -> None:
    """Makes a worker in C, which takes part in one barrier and prints its rank and the number of ranks."""
    _compile(program, FARANDOLE_PROGRAM, _compile_with_farandole)


def _compile(program: Path, text: str, command: Callable[[Path, Path], list[str]]) -> None:
    source = program.with_suffix(".c")
    source.write_text(text)
    done = subprocess.run(command(source, program), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise Failed(f"{source.name} does not compile: {done.stderr.strip()}")


def _compile_with_farandole(source: Path, program: Path) -> list[str]:
    library, headers = ROOT / "build" / "bindings" / "c", ROOT / "bindings" / "include"
    found = ["-I", str(headers), "-L", str(library), f"-Wl,-rpath,{library}"]
    return ["cc", "-O2", str(source), "-o", str(program), *found, "-lfarandole"]


@contextlib.contextmanager
def printed_output(options: Options, folder: Path) -> Iterator[Row]:
    """The output goes to /dev/null, so that reading it costs nothing."""
    line = b"loss 0.123456 of step 1234567 on worker 0, 1234.5 images/s, 12.3 GB of memory\n"
    size = 10**7 if options.smoke else 10**9
    with _hosts(folder, ["a", "b"]) as launches:
        path = launches.hosts.shared / "lines"
        with path.open("wb") as file:
            for _ in range(10):
                file.write(line * (size // 10 // len(line)))
        command = ["cat", str(path)]
        moved = path.stat().st_size
        yield Row(
            f"{moved / 1e9:.2g} GB that a remote worker prints",
            {
                OURS: partial(launches.seconds_of, launches.job(1, "b:1", command)),
                SSH_CAT: partial(launches.seconds_of, ["ssh", "b", *command]),
            },
            [Target(SSH_CAT, 0.8, bytes_moved=moved)],
        )


def delayed_lines(options: Options, folder: Path) -> ContextManager[Row]:
    work = "the longest delay of a line beside a rank that prints without a pause, on another host"
    return _scripted(folder, PRINTING, work, _longest_delay, 100)


def _longest_delay(launches: Launches, script: Path) -> float:
    """Of the lines of rank 1, from its clock to their arrival here."""
    job = launches.command(launches.job(2, "b:2", [sys.executable, str(script)]))
    longest, count, rest = 0.0, 0, b""
    for piece in pieces_of(job, {"HOME": str(launches.hosts.home)}):
        arrived = time.monotonic()
        lines, _, rest = (rest + piece).rpartition(b"\n")
        for line in re.finditer(rb"(?m)^\[1\]<stdout>:AT ([0-9.]+)$", lines):
            longest = max(longest, arrived - float(line.group(1)))
            count += 1
    if count < 20:
        raise Failed(f"rank 1 printed {count} lines")
    return longest


def killed_agent(options: Options, folder: Path) -> ContextManager[Row]:
    work = "kill of an agent with 2 of 4 workers, to the next step of the others (elastic)"
    return _scripted(folder, ELASTIC, work, _seconds_after_kill, 250)


def _seconds_after_kill(launches: Launches, script: Path) -> float:
    """From the kill of the agent of host b until the last survivor has completed a step."""
    hosts = launches.hosts
    arguments = ["-np", "4", "--min-np", "2", "-H", "a:2,b:2", sys.executable, str(script)]
    job = hosts.launch(*arguments, settings={"OMP_NUM_THREADS": "1"})
    try:
        steady = job.read_matches(r"STEADY on (\w) pid (\d+)\n", 4, DEADLINE_S)
        worker = next(int(each.group(2)) for each in steady if each.group(1) == "b")
        agent = next(each.parent for each in hosts.processes(1) if each.pid == worker)
        begin = time.monotonic()
        os.kill(agent, signal.SIGKILL)
        first = job.read_matches(r"NEXT ([0-9.]+)\n", 2, DEADLINE_S)
        _end_well(job)
    except (TimeoutError, EOFError) as problem:
        raise Failed(str(problem)) from None
    finally:
        job.kill()
    return max(float(each.group(1)) for each in first) - begin


def _end_well(job: Process) -> None:
    code = job.end(DEADLINE_S)
    if code != 0:
        raise Failed(f"the job ended with {code}: {job.text}")
