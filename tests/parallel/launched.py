"""Starts jobs with the launcher, as a user does, and reads their output while they run."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence

import pytest

DEADLINE_S = 240.0
"""The time after which a wait of a test has failed. On a shared machine a process may be descheduled for seconds, so it
is much longer than what a test waits for."""

SURVIVORS_REPORT = {"FARANDOLE_EXIT_GRACE": "60"}
"""Settings for a test that reads the errors of the workers that remain after one has failed. By default the launcher
ends these workers 2 s after the failure, which may be before they have printed anything."""

TIMEOUTS_S = (8, 16, 32, 64)
"""Timeouts that a test lets pass. If a process that should go on was not scheduled for so long, and the job therefore
blames it, the test repeats the job with the next one."""

KEPT_VARIABLES = (
    "HOROVOD_FUSION_THRESHOLD",
    "HOROVOD_HIERARCHICAL_ALLREDUCE",
    "HOROVOD_HIERARCHICAL_ALLGATHER",
    "HOROVOD_TORUS_ALLREDUCE",
)
LAUNCHER = os.environ.get("FARANDOLE_LAUNCHER") or str(Path(sys.executable).with_name("horovodrun"))

FARANDOLE = str(Path(LAUNCHER).with_name("farandole"))

needs_launcher = pytest.mark.skipif(shutil.which(LAUNCHER) is None, reason=f"the launcher {LAUNCHER} does not exist")


def clean_environment() -> Dict[str, str]:
    """This process's environment without the variables of Horovod and pytest, except KEPT_VARIABLES."""
    return {
        key: value
        for key, value in os.environ.items()
        if key in KEPT_VARIABLES or not key.startswith(("HOROVOD_", "PYTEST_"))
    }


def without_waits(output: str) -> str:
    """This output without the warnings of ranks that have waited in init() for others, which a busy machine causes."""
    return re.sub(r".*init\(\) has waited .*\n", "", output)


class Job:
    """A launched job, whose output the test reads while the job runs. `text` is the output that was read so far.
    `survivors_report`: see SURVIVORS_REPORT."""

    def __init__(
        self,
        arguments: List[str],
        environment: Optional[Dict[str, str]] = None,
        program: str = LAUNCHER,
        survivors_report: bool = False,
    ) -> None:
        settings = SURVIVORS_REPORT if survivors_report else {}
        self.process = subprocess.Popen(
            [program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**(environment or clean_environment()), **settings},
            start_new_session=True,
        )
        self.text = ""

    def read_until(self, is_complete: Callable[[str], bool], deadline_s: float = DEADLINE_S) -> str:
        """Reads output until `is_complete(text)` is true. Fails the test if the output ends or the deadline passes."""
        assert self.process.stdout is not None
        end = time.monotonic() + deadline_s
        while not is_complete(self.text):
            descriptor = self.process.stdout.fileno()
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the expected text did not appear within {deadline_s} s; the output so far:\n{self.text}"
            chunk = os.read(descriptor, 65536)
            if not chunk:
                assert is_complete(self.text), f"the output ended before the expected text; it was:\n{self.text}"
                break
            self.text += chunk.decode(errors="replace")
        return self.text

    def end(self, deadline_s: float = DEADLINE_S) -> int:
        """Reads the rest of the output and returns the exit code. `text` is then without_waits."""
        rest, _ = self.process.communicate(timeout=deadline_s)
        self.text = without_waits(self.text + rest.decode(errors="replace"))
        return self.process.returncode

    def kill(self) -> None:
        """Kills the launcher and its process group if the launcher still runs. Workers have their own process groups,
        and a stopped worker keeps the output open, so this method does not read the output to its end."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(DEADLINE_S)

    def open_for_reader(self, pipe: Path) -> None:
        """Opens this named pipe for writing, so that the process that waits to read it continues. Fails the test if
        no process opens the pipe for reading before the deadline."""

        def opened() -> bool:
            assert self.process.poll() is None, (
                f"the job ended before a process opened {pipe.name}; its output so far:\n{self.text}"
            )
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as problem:
                if problem.errno != errno.ENXIO:  # ENXIO: the pipe has no reader yet
                    raise
                return False
            return True

        wait_until(opened, f"a process opens {pipe.name} for reading")

    def pids(self, count: int) -> List[int]:
        """Waits until `count` ranks have printed a line "pid N" (see PRELUDE), and returns the process ids."""
        self.read_until(lambda text: len(re.findall(r"pid \d+\n", text)) >= count)
        return [int(number) for number in re.findall(r"pid (\d+)\n", self.text)]


def stall_shutdown(timeout_s: int) -> List[str]:
    """The launcher's flags for this stall shutdown time, and a warning at half of it."""
    flags = ["--stall-check-warning-time-seconds", str(timeout_s // 2)]
    return [*flags, "--stall-check-shutdown-time-seconds", str(timeout_s)]


def write_script(folder: Path, text: str) -> str:
    """Writes a script into this folder and returns its path."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def run_script(
    ranks: int,
    tmp_path: Path,
    script: str,
    deadline_s: float = DEADLINE_S,
    launcher: Sequence[str] = (LAUNCHER,),
    survivors_report: bool = False,
    **settings: str,
) -> subprocess.CompletedProcess[str]:
    """Runs a job to its end with these settings and without those of this process. stdout of the result also holds
    stderr. `survivors_report`: see SURVIVORS_REPORT."""
    dropped = ("HOROVOD_", "PYTEST_", "FARANDOLE_")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return subprocess.run(
        [*launcher, "-np", str(ranks), sys.executable, write_script(tmp_path, script)],
        check=False,
        env={**environment, **(SURVIVORS_REPORT if survivors_report else {}), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline_s,
        start_new_session=True,
    )


@pytest.fixture
def launch(tmp_path: Path, jobs: List[Job]) -> Callable[..., Job]:
    """A function that starts a script on this many ranks. The fixture `jobs` kills the job after the test.
    `survivors_report`: see SURVIVORS_REPORT."""

    def start(
        ranks: int, script: str, *arguments: str, flags: Sequence[str] = (), survivors_report: bool = False
    ) -> Job:
        words = ["-np", str(ranks), *flags, sys.executable, write_script(tmp_path, script), *arguments]
        jobs.append(Job(words, survivors_report=survivors_report))
        return jobs[-1]

    return start


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended; a zombie has ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def is_stopped(pid: int) -> bool:
    try:
        states = [(each / "stat").read_text() for each in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:  # a thread has ended meanwhile
        return False
    return all(each.rsplit(")", 1)[1].split()[0] == "T" for each in states)


def stop(pid: int) -> None:
    """Stops a process. On a busy machine its threads may go on for a while after the signal was sent."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), f"process {pid} stops")


def resume(pid: int) -> None:
    """Lets a stopped process go on, if it has not ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def wait_for(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Polls the condition until it is true. Returns False if the deadline passes."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        select.select([], [], [], 0.02)
    return True


def wait_until(condition: Callable[[], bool], description: str) -> None:
    """Polls the condition until it is true. Fails the test with its description if the deadline passes."""
    assert wait_for(condition, DEADLINE_S), f"this did not happen within {DEADLINE_S} s: {description}"


def assert_gone(pids: List[int]) -> None:
    wait_until(lambda: not any(is_running(pid) for pid in pids), f"processes {pids} end")


PRELUDE = """
import os, signal, sys
import numpy, farandole.numpy as hvd
hvd.init()
print("pid", os.getpid(), flush=True)
"""

# Rank 1 kills itself between two operations, and the other ranks print the error that they receive.
LOSES_A_RANK = """
import os, signal
import farandole.numpy as hvd, numpy
hvd.init()
hvd.allreduce(numpy.ones(4))
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(numpy.ones(4))
except hvd.HorovodInternalError as error:
    print("LOST", error, flush=True)
"""
