"""The processes of one stack: started by the stack's own launcher, then commanded by the coordinator."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from namespaces import Hosts, Process
from namespaces.ports import free_ports

from benchmarks.works import Work

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 120
ANSWER_SECONDS = 300


class WorkersFailed(Exception):
    """A stack could not be started, or one of its workers ended or reported a problem."""


class Member:
    """The coordinator's connection to one worker."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(START_SECONDS)
        self.connection = connection
        self.lines = connection.makefile("rw")
        self.pid = int(json.loads(self.lines.readline())["pid"])

    def tell(self, command: dict[str, Any]) -> None:
        self.lines.write(json.dumps(command) + "\n")
        self.lines.flush()

    def hear(self) -> dict[str, Any]:
        self.connection.settimeout(ANSWER_SECONDS)
        line = self.lines.readline()
        if not line:
            raise WorkersFailed("a worker ended")
        answer: dict[str, Any] = json.loads(line)
        if "problem" in answer:
            raise WorkersFailed(answer["problem"])
        return answer


class WorkerGroup:
    """The workers of one stack. `name` is the stack, followed by words that denote other settings of the library."""

    def __init__(self, name: str, np: int, python: str = "", environment: dict[str, str] | None = None) -> None:
        self.name = name
        self.np = np
        self.python = python or sys.executable
        self.environment = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self.launched: list[subprocess.Popen[bytes]] = []
        self.members: list[Member] = []
        self.start()

    def start(self) -> None:
        # A socket with a path in the file system can also be reached from other network namespaces.
        with (
            tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            where = f"{folder}/coordinator"
            listener.bind(where)
            listener.listen()
            listener.settimeout(START_SECONDS)
            self.launch([self.python, "-m", "benchmarks.worker", self.name, where])
            try:
                for _ in range(self.np):
                    self.members.append(Member(listener.accept()[0]))
            except TimeoutError as late:
                self.kill()
                raise WorkersFailed(f"{self.name}: no {self.np} workers came up in {START_SECONDS} s") from late

    def launch(self, worker: list[str]) -> None:
        library = self.name.split()[0]
        bin_folder = ROOT / ".venv" / "bin"
        if library == "farandole":
            self.spawn([str(bin_folder / "horovodrun"), "-np", str(self.np), *worker])
        elif library == "horovod":
            self.spawn([self.python, "-m", "horovod.runner.launch", "-np", str(self.np), *worker])
        elif library == "mpi4py":
            as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            self.spawn(["mpirun", "--oversubscribe", *as_root, "-np", str(self.np), *worker])
        else:
            shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1)[0]), "WORLD_SIZE": str(self.np)}
            for rank in range(self.np):
                self.spawn(worker, {**shared, "RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"})

    def spawn(self, command: list[str], more: dict[str, str] | None = None) -> None:
        environment = {**self.environment, **(more or {})}
        self.launched.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=2))

    def do(self, command: str, **arguments: Any) -> list[dict[str, Any]]:
        """Sends a command to every member, then receives every member's answer."""
        arguments = {name: asdict(each) if isinstance(each, Work) else each for name, each in arguments.items()}
        try:
            for member in self.members:
                member.tell({"do": command, **arguments})
            return [member.hear() for member in self.members]
        except (OSError, TimeoutError, WorkersFailed) as problem:
            raise WorkersFailed(f"{self.name} at {self.np} ranks: {command}: {problem}") from problem

    def join(self) -> list[dict[str, Any]]:
        """Loads the library in all members, then lets all of them join the job at the same time."""
        try:
            self.do("load")
            return self.do("init")
        except WorkersFailed:
            self.kill()
            raise

    def freeze(self, still: bool) -> None:
        """Stops the members or lets them continue, for libraries that poll while they wait."""
        for member in self.members:
            os.kill(member.pid, signal.SIGSTOP if still else signal.SIGCONT)

    def run_first(self) -> None:
        """Gives the members real-time priority, so that no ordinary process takes a core from them. Needs root."""
        for member in self.members:
            for task in Path(f"/proc/{member.pid}/task").iterdir():
                os.sched_setscheduler(int(task.name), os.SCHED_FIFO, os.sched_param(1))

    def stop(self) -> None:
        try:
            self.do("stop")
            for process in self.launched:
                process.wait(timeout=30)
        except (WorkersFailed, subprocess.TimeoutExpired):
            self.kill()

    def kill(self) -> None:
        for member in self.members:
            try:
                os.kill(member.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for process in self.launched:
            process.kill()
            process.wait()


class HostWorkers(WorkerGroup):
    """Farandole on several hosts, with one worker on each. `settings` configure the workers; `name` is a label."""

    def __init__(self, name: str, hosts: Hosts, settings: dict[str, str]) -> None:
        self.hosts = hosts
        self.settings = settings
        self.workers: list[Process] = []
        super().__init__(name, len(hosts.addresses))

    def launch(self, worker: list[str]) -> None:
        arguments = ["worker", "farandole", worker[-1]]
        script = f"import sys\nfrom benchmarks.worker import main\nsys.argv = {arguments!r}\nmain()\n"
        self.workers = self.hosts.job(script, settings=self.settings)

    def stop(self) -> None:
        try:
            self.do("stop")
            for worker in self.workers:
                worker.end(30)
        except (WorkersFailed, TimeoutError):
            self.kill()

    def kill(self) -> None:
        for worker in self.workers:
            worker.kill()
