"""Runs a command for a bounded time, with its output in a file, and ends the processes that it leaves."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional

PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 15.0
"""For a launcher to end its workers, after it was asked to."""


@dataclass(frozen=True)
class Ended:
    status: Optional[int]
    """The exit status; None if the time was over."""
    seconds: float

    def problem(self, bound: float) -> str:
        if self.status == 0:
            return ""
        return f"did not end within {bound:.0f} s" if self.status is None else f"ended with status {self.status}"


def run(command: List[str], environment: Mapping[str, str], log: Path, seconds: float) -> Ended:
    begin = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        status: Optional[int] = None
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        finally:
            end(process)
    return Ended(status, time.monotonic() - begin)


def end(process: subprocess.Popen) -> None:
    """Ends the command if it still runs, the launcher's workers through the launcher."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# A test that hangs ends its process (see faulthandler_exit_on_timeout), and the job that it has launched stays.


def adopt_orphans() -> None:
    """Makes this process the parent of descendants whose own parent ends. For a process without other children."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl cannot adopt orphans")


def end_orphans() -> None:
    """Ends all children of this process, and those that they leave in turn. Launchers get the time to end workers."""
    deadline = time.monotonic() + GRACE_SECONDS
    asked: Dict[int, int] = {}  # open pidfds of processes that were asked to end
    while found := children():
        in_time = time.monotonic() < deadline
        for pid in found:
            if not in_time:
                os.kill(pid, signal.SIGKILL)
            elif pid not in asked:
                asked[pid] = os.pidfd_open(pid)
                os.kill(pid, signal.SIGTERM)
        wait_for_any([asked[pid] for pid in found if pid in asked], deadline if in_time else time.monotonic() + 1)
        for pid in found:
            if os.waitpid(pid, os.WNOHANG)[0] == pid and pid in asked:
                os.close(asked.pop(pid))


def wait_for_any(pidfds: List[int], deadline: float) -> None:
    """Until a process has ended, or until the deadline."""
    poller = select.poll()
    for pidfd in pidfds:
        poller.register(pidfd, select.POLLIN)
    poller.poll(max(0.0, deadline - time.monotonic()) * 1000)


def children() -> List[int]:
    """Those of this process, ended ones that nobody has waited for included."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = path.read_text().rsplit(")", 1)[1].split()[1]
        except (OSError, IndexError):
            continue  # it has ended meanwhile
        if parent == str(os.getpid()):
            found.append(int(path.parent.name))
    return found
