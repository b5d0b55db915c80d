"""Jobs that a test launches as a person would, and whose output it reads as it comes."""

from __future__ import annotations

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

DEADLINE_S = 90.0
KEPT = (
    "HOROVOD_FUSION_THRESHOLD",
    "HOROVOD_HIERARCHICAL_ALLREDUCE",
    "HOROVOD_HIERARCHICAL_ALLGATHER",
    "HOROVOD_TORUS_ALLREDUCE",
)
LAUNCHER = os.environ.get("FARANDOLE_LAUNCHER") or str(Path(sys.executable).with_name("horovodrun"))

FARANDOLE = str(Path(LAUNCHER).with_name("farandole"))

needs_launcher = pytest.mark.skipif(shutil.which(LAUNCHER) is None, reason=f"{LAUNCHER} is not there")


def clean_environment() -> Dict[str, str]:
    return {
        key: value for key, value in os.environ.items() if key in KEPT or not key.startswith(("HOROVOD_", "PYTEST_"))
    }


class Job:
    """A launched job whose output is read as it comes."""

    def __init__(
        self, arguments: List[str], environment: Optional[Dict[str, str]] = None, program: str = LAUNCHER
    ) -> None:
        self.process = subprocess.Popen(
            [program, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment or clean_environment(),
            start_new_session=True,
        )
        self.text = ""

    def read_until(self, enough: Callable[[str], bool], deadline_s: float = DEADLINE_S) -> str:
        """Reads until the text satisfies, or fails the test."""
        assert self.process.stdout is not None
        end = time.monotonic() + deadline_s
        while not enough(self.text):
            descriptor = self.process.stdout.fileno()
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"nothing more came within {deadline_s} s:\n{self.text}"
            chunk = os.read(descriptor, 65536)
            if not chunk:
                assert enough(self.text), f"the output ended:\n{self.text}"
                break
            self.text += chunk.decode(errors="replace")
        return self.text

    def end(self) -> int:
        """Reads the rest; the exit code."""
        rest, _ = self.process.communicate(timeout=DEADLINE_S)
        self.text += rest.decode(errors="replace")
        return self.process.returncode

    def kill(self) -> None:
        """Kills the launcher and its group, if they still run. Workers have groups of their own, and one that is
        stopped keeps the output open, so nothing is read to its end."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(DEADLINE_S)

    def open_for_reader(self, pipe: Path) -> None:
        """Lets the process go on that opens this named pipe for reading. Fails where none does so in time."""

        def opened() -> bool:
            assert self.process.poll() is None, f"the job has ended:\n{self.text}"
            try:
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
            except OSError as refused:
                if refused.errno != errno.ENXIO:  # what is said where there is no reader
                    raise
                return False
            return True

        wait_until(opened, f"a process reads {pipe.name}")

    def pids(self, count: int) -> List[int]:
        """Process ids that the ranks have said, "pid N" a line."""
        self.read_until(lambda text: len(re.findall(r"pid \d+\n", text)) >= count)
        return [int(each) for each in re.findall(r"pid (\d+)\n", self.text)]


def write_script(folder: Path, text: str) -> str:
    """The path of a script in this folder."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text))
    return str(path)


def run_script(
    ranks: int,
    tmp_path: Path,
    script: str,
    deadline_s: float = DEADLINE_S,
    launcher: Sequence[str] = (LAUNCHER,),
    **settings: str,
) -> subprocess.CompletedProcess[str]:
    """A job to its end, with these settings and none of the surroundings'; what it said is one text."""
    ours = ("HOROVOD_", "PYTEST_", "FARANDOLE_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return subprocess.run(
        [*launcher, "-np", str(ranks), sys.executable, write_script(tmp_path, script)],
        check=False,
        env={**kept, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=deadline_s,
        start_new_session=True,
    )


@pytest.fixture
def launch(tmp_path: Path, jobs: List[Job]) -> Callable[..., Job]:
    def start(ranks: int, script: str, *arguments: str, flags: Sequence[str] = ()) -> Job:
        jobs.append(Job(["-np", str(ranks), *flags, sys.executable, write_script(tmp_path, script), *arguments]))
        return jobs[-1]

    return start


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def wait_for(condition: Callable[[], bool], deadline_s: float) -> bool:
    """Waits until the condition holds; False when it does not by the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        select.select([], [], [], 0.02)
    return True


def wait_until(condition: Callable[[], bool], what: str) -> None:
    assert wait_for(condition, DEADLINE_S), f"not within {DEADLINE_S} s: {what}"


def assert_gone(pids: List[int]) -> None:
    wait_until(lambda: not any(is_running(pid) for pid in pids), f"processes {pids} end")


PRELUDE = """
import os, signal, sys
import numpy, farandole.numpy as hvd
hvd.init()
print("pid", os.getpid(), flush=True)
"""

# One rank dies between two operations, and the other says what it is told.
LOSES_A_RANK = """
import os, signal
import farandole.numpy as hvd, numpy
hvd.init()
hvd.allreduce(numpy.ones(4))
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.allreduce(numpy.ones(4))
except hvd.HorovodInternalError as lost:
    print("LOST", lost, flush=True)
"""
