"""A job whose ranks play recipes, one after the other. It is started again after a recipe with which a rank fails."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Set

from launched import LAUNCHER, clean_environment

WORKER = Path(__file__).with_name("worker.py")
DEADLINE_S = 480.0
"""The time after which a recipe hangs. Most take a fraction of a second, but the machine may be shared."""
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
    "TF_NUM_INTRAOP_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
    # The error of a stalled operation names its tensor, which a hang does not.
    "HOROVOD_STALL_CHECK_TIME_SECONDS": "60",
    "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "120",
}


class RecipeJob:
    """The job, as a context manager that ends it.

    :param size: the number of ranks
    :param framework: the name of that whose recipes it plays
    """

    def __init__(self, size: int, framework: str = "torch", deadline_s: float = DEADLINE_S) -> None:
        self.size = size
        self.framework = framework
        self.deadline_s = deadline_s
        self._folder = tempfile.TemporaryDirectory(prefix="recipes-")
        self._log = Path(self._folder.name) / "log"
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._ranks: Dict[int, socket.socket] = {}

    def __enter__(self) -> RecipeJob:
        return self

    def __exit__(self, *_: Any) -> None:
        self.end()
        self._folder.cleanup()

    def play(self, words: str) -> str:
        """Plays the recipe of these words. Returns what is wrong with it, or an empty text."""
        try:
            if self._process is None:
                self._start()
            for connection in self._ranks.values():
                connection.sendall(f"{words}\n".encode())
            return verdict(self._answers())
        except (JobEnded, OSError) as ended:
            self.end()
            return str(ended)
        except BaseException:  # the limit of the test has passed, which has killed the job
            self.end()
            raise

    def end(self) -> None:
        """Ends the job, however it is."""
        for connection in self._ranks.values():
            connection.close()
        self._ranks.clear()
        if self._process is not None:
            # Workers have groups of their own, and end with the launcher.
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        path = Path(self._folder.name) / "socket"
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen(self.size)
            self._launch(
                ["-np", str(self.size), sys.executable, str(WORKER), self.framework], {"RECIPES_SOCKET": str(path)}
            )
            deadline = time.monotonic() + self.deadline_s
            while len(self._ranks) < self.size:
                self._wait_for([listener], deadline)
                connection, _ = listener.accept()
                self._ranks[int(_read_line(connection)["rank"])] = connection

    def _launch(self, words: List[str], settings: Dict[str, str]) -> None:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [LAUNCHER, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**clean_environment(), **SETTINGS, **settings},
                start_new_session=True,
            )

    def _answers(self) -> List[Dict[str, Any]]:
        """The answers of all ranks. `JobEnded` if a rank has failed, so that the others may wait for it."""
        answers: Dict[int, Dict[str, Any]] = {}
        deadline = time.monotonic() + self.deadline_s
        while len(answers) < self.size:
            waiting = {connection: rank for rank, connection in self._ranks.items() if rank not in answers}
            for connection in self._wait_for(list(waiting), deadline):
                answers[waiting[connection]] = found = _read_line(connection)
                if "error" in found:
                    raise JobEnded(found["error"])
        return [answers[rank] for rank in range(self.size)]

    def _wait_for(self, sockets: List[socket.socket], deadline: float) -> List[socket.socket]:
        assert self._process is not None
        while time.monotonic() < deadline:
            ready, _, _ = select.select(sockets, [], [], 1.0)
            if ready:
                return ready
            if self._process.poll() is not None:
                raise JobEnded(f"the job ended with status {self._process.returncode}: {self._output()}")
        raise JobEnded(f"no answer within {self.deadline_s:.0f} s: {self._output()}")

    def _output(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class JobEnded(Exception):
    """The job has ended or hangs, or a rank has failed in a recipe."""


def _read_line(connection: socket.socket) -> Any:
    text = b""
    while not text.endswith(b"\n"):
        chunk = connection.recv(1 << 16)
        if not chunk:
            raise JobEnded("a rank has ended")
        text += chunk
    return json.loads(text)


def verdict(answers: List[Dict[str, Any]]) -> str:
    """What is wrong, from the answers of all ranks; empty if nothing is."""
    first = answers[0]
    lines = list(first["differences"])
    for rank, each in enumerate(answers[1:], 1):
        lines += _unequal(rank, first["digests"], each["digests"])
    warnings: Set[str] = {text for each in answers for text in each["warnings"]}
    lines += [f"a warning that one process does not give: {text}" for text in sorted(warnings - {*first["allowed"]})]
    return "\n".join(lines)


def _unequal(rank: int, first: List[Dict[str, str]], other: List[Dict[str, str]]) -> List[str]:
    """A rank that has joined may have fewer steps, or nothing after one."""
    for step, (expected, found) in enumerate(zip(first, other)):
        keys = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
        if keys and expected and found:
            return [f"after step {step}: ranks 0 and {rank} differ in {', '.join(keys[:5])}"]
    return []
