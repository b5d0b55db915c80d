"""Jobs whose workers the caller starts itself, with a function that is called for each slot.

The launcher runs ``farandole.runner.placed_worker`` in each slot, which asks for the worker here. ``PlacedWorkers``
calls the function in a thread of its own, and sends the exit code back.
"""

from __future__ import annotations

import json
import os
import queue
import shlex
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from farandole.runner import launch_options, program
from farandole.runner.common.util import env as variables_of_hosts
from farandole.runner.common.util import safe_shell_exec
from farandole.runner.common.util.hosts import SlotInfo
from farandole.runner.functions import job_secret, launcher, messages, paths

StartWorker = Callable[[SlotInfo, Dict[str, str], List[threading.Event]], Tuple[int, float]]
"""Runs a worker to its end, in the environment that has these variables in addition. Returns its exit code and the time
of its end. When one of the events is set, the worker shall be ended."""

WORKER_MODULE = "farandole.runner.placed_worker"
_OF_THE_SLOT = (
    messages.VARIABLE,
    "FARANDOLE_SECRET_FD",
    "FARANDOLE_RECORDER_FD",
    "FARANDOLE_LAUNCHER_PROCESS",
)
"""Variables that hold for the process in the slot alone."""


@dataclass
class _Worker:
    event: threading.Event = field(default_factory=threading.Event)
    pieces: List[bytes] = field(default_factory=list)
    """Of its environment, so far."""
    slot_info: Optional[SlotInfo] = None
    """Its place; None: it was not started."""
    thread: Optional[threading.Thread] = None


class PlacedWorkers:
    """The workers of one job. ``running`` and ``results`` may be read in any thread."""

    def __init__(self, start_worker: StartWorker, environment: Mapping[str, str], shutdown: threading.Event) -> None:
        """
        :param environment: of the launcher; a worker is given the variables that differ from it
        :param shutdown: an event of all workers; when it is set, the job ends
        """
        self._start_worker = start_worker
        self._environment = environment
        self._shutdown = shutdown
        self._workers: Dict[int, _Worker] = {}
        self._ended: queue.SimpleQueue[Tuple[int, int]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._running: Dict[int, SlotInfo] = {}
        self.results: Dict[str, Tuple[int, float]] = {}
        """Exit code and time of the workers that have ended, by "host[local rank]"."""
        self.problem: Optional[Exception] = None
        """The first exception of the function."""
        self.wake: Callable[[], None] = lambda: None
        """Ends the wait of the thread that runs the job."""

    @property
    def running(self) -> List[SlotInfo]:
        """The places of the workers that run, in the order in which they were started."""
        with self._lock:
            return [self._running[slot] for slot in sorted(self._running)]

    def take_outgoing(self) -> List[Tuple[int, bytes]]:
        """The messages to be sent to slots."""
        outgoing = []
        while not self._ended.empty():
            slot, code = self._ended.get()
            outgoing.append((slot, messages.json_message(messages.EXITED, {"code": code})))
        return outgoing

    def on_event(self, event: Dict[str, Any]) -> None:
        """The process in a slot has started or ended."""
        slot = event["slot"]
        if event["event"] == "started":
            self._workers[slot] = _Worker()
        elif slot in self._workers:
            self._workers[slot].event.set()  # the launcher may have killed the process

    def on_message(self, slot: int, kind: int, body: bytes) -> None:
        """The process in a slot has sent a message."""
        worker = self._workers.setdefault(slot, _Worker())
        if kind == messages.PIECE:
            worker.pieces.append(body)
        elif kind == messages.PLACE:
            self._start(slot, worker)
        elif kind == messages.STOP:
            worker.event.set()
        else:
            raise messages.ProtocolError(f"a message of kind {kind} arrived from the process in slot {slot}")

    def _start(self, slot: int, worker: _Worker) -> None:
        environment: Dict[str, str] = json.loads(b"".join(worker.pieces))
        worker.pieces = []
        worker.slot_info = slot_info = place_of(environment)
        variables = {
            name: value
            for name, value in environment.items()
            if name not in _OF_THE_SLOT and self._environment.get(name) != value
        }
        variables[job_secret.FILE_VARIABLE] = self._environment[job_secret.FILE_VARIABLE]
        # A worker takes SIGTERM of its launcher as the end of the job, and of others as the request to leave it.
        variables["FARANDOLE_LAUNCHER_PROCESS"] = str(os.getpid())
        with self._lock:
            self._running[slot] = slot_info

        def run() -> None:
            code = 1
            try:
                code, at = self._start_worker(slot_info, variables, [self._shutdown, worker.event])
                name = f"{slot_info.hostname}[{slot_info.local_rank}]"
                with self._lock:
                    self.results[name] = (code, at)
            except Exception as problem:
                traceback.print_exc()
                self.problem = self.problem or problem
            finally:
                with self._lock:
                    self._running.pop(slot, None)
                self._ended.put((slot, code))
                self.wake()

        worker.thread = threading.Thread(target=run, name=f"farandole worker {slot}", daemon=True)
        worker.thread.start()

    def end(self, timeout_s: float) -> None:
        """Tells all workers to end, and waits for their threads."""
        for worker in self._workers.values():
            worker.event.set()
        deadline = time.monotonic() + timeout_s
        for worker in self._workers.values():
            if worker.thread is not None:
                worker.thread.join(max(0.0, deadline - time.monotonic()))


def place_of(environment: Mapping[str, str]) -> SlotInfo:
    """The place that the launcher has put into the environment of a worker."""
    names = ("RANK", "LOCAL_RANK", "CROSS_RANK", "SIZE", "LOCAL_SIZE", "CROSS_SIZE")
    return SlotInfo(environment["HOROVOD_HOSTNAME"], *(int(environment[f"HOROVOD_{name}"]) for name in names))


def command_text(command: Union[str, Sequence[str]], variables: Mapping[str, str]) -> str:
    """A text for the shell that runs a command, itself words or such a text, with more variables."""
    settings = [f"{name}={value}" for name, value in sorted(variables.items())]
    words = ["sh", "-c", command] if isinstance(command, str) else list(command)
    return shlex.join(["env", *settings, *words])


def exportable(environment: Mapping[str, str]) -> Dict[str, str]:
    """The variables that a command line may hold for other hosts: never the job's secret itself."""
    return {
        name: value
        for name, value in environment.items()
        if variables_of_hosts.is_exportable(name) and name != job_secret.TEXT_VARIABLE
    }


def run_job(
    arguments: Any, workers: PlacedWorkers, environment: Dict[str, str], shutdown: threading.Event
) -> Tuple[int, List[str]]:
    """Runs a job to its end. Returns the launcher's exit code and the lines that it has printed.

    :param arguments: how the job is launched; see ``farandole.runner.arguments``
    :param environment: of the launcher; names the file with the job's secret
    """
    words = launch_options.words_of(arguments)

    def command(channel: int) -> List[str]:
        options = ["--call-descriptor", str(channel), *words]
        return [program.path_of_launcher(), "run", *options, "--", sys.executable, "-m", WORKER_MODULE]

    job = launcher.Launcher(command, paths.environment_of(None, environment), workers)
    workers.wake = job.wake
    is_ending = False
    try:
        while job.is_running:
            for slot, content in workers.take_outgoing():
                job.send(slot, content)
            if shutdown.is_set() and not is_ending:
                is_ending = True
                job.terminate()
            job.step(safe_shell_exec.EVENT_CHECK_S)
    finally:
        workers.end(0)  # the launcher may have been interrupted
        workers.wake = lambda: None
        job.close()
        workers.end(safe_shell_exec.GRACEFUL_TERMINATION_TIME_S)
    return job.exit_code, job.stderr.launcher_lines()
