"""Finds and kills processes by a mark, a text NAME=VALUE that is in the environment of a process and that all programs
inherit which this process starts."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Dict

KILLING_S = 60.0


def marked(mark: str) -> Dict[int, str]:
    """The processes with this mark, with their command lines. A process that has ended is not among them, also if its
    parent has not waited for it."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(folder.name)] = f"process {folder.name}: {command[:200]}"
        except OSError:  # it has ended, or belongs to another user
            continue
    return found


def kill_marked(mark: str) -> None:
    """Kills the processes with this mark, those too that they start meanwhile, and waits until they have ended."""
    deadline = time.monotonic() + KILLING_S
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
