"""An elastic job that plays one recipe: its hosts, of which each has one worker, and what its workers tell."""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from elastic_jobs import Hosts
from jobs import JobEnded, RecipeJob
from recipe import from_words

from elastic.plan import HOST, SIZE, SOCKET, parse
from elastic.recipes import of_framework, plan_of
from elastic.verdict import verdict

WORKER = Path(__file__).with_name("worker.py")
SETTINGS = {"FARANDOLE_DISCOVERY_INTERVAL": "0.05"}


class Connection:
    """Reads the messages of a worker."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.worker: Optional[int] = None
        self._rest = b""

    def read(self) -> Optional[List[Dict[str, Any]]]:
        """The messages that have come; None if the worker has ended."""
        chunk = self.socket.recv(1 << 16)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [json.loads(line) for line in lines] if chunk else None


class ElasticJob(RecipeJob):
    """A job that begins with so many workers, for each recipe anew."""

    def play(self, words: str) -> str:
        self._plan = plan_of(from_words(of_framework(self.framework).kind, words.split()), self.size)
        self._told: Dict[int, List[Dict[str, Any]]] = {}
        self._hosts = Hosts(Path(self._folder.name))
        self._present = set(range(self.size))
        self._print_hosts()
        flags = ["-np", str(self.size), "--min-np", "1", "--max-np", str(self._plan.workers)]
        flags += ["--host-discovery-script", str(self._hosts.script)]
        path = Path(self._folder.name) / "socket"
        path.unlink(missing_ok=True)
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(path))
                listener.listen(self._plan.workers)
                settings = {**SETTINGS, SOCKET: str(path), SIZE: str(self.size), "XDG_STATE_HOME": self._folder.name}
                self._launch([*flags, sys.executable, str(WORKER), self.framework, *words.split()], settings)
                self._listen(listener)
            problem = verdict(self._plan, self._told)
            assert self._process is not None
            if self._process.returncode:
                problem += f"\nthe job ended with status {self._process.returncode}"
            return problem and f"{problem}\n{self._output()}"
        except (JobEnded, OSError) as ended:
            return str(ended)
        finally:
            self.end()

    def _listen(self, listener: socket.socket) -> None:
        """Hears all workers until the job has ended."""
        assert self._process is not None
        connections: Dict[socket.socket, Connection] = {}
        deadline = time.monotonic() + self.deadline_s
        self._asked: Optional[socket.socket] = None
        while connections or self._process.poll() is None:
            if time.monotonic() > deadline:
                raise JobEnded(f"the job has not ended within {self.deadline_s:.0f} s: {self._output()}")
            ready, _, _ = select.select([listener, *connections], [], [], 0.05)
            for each in ready:
                if each is listener:
                    accepted, _ = listener.accept()
                    connections[accepted] = Connection(accepted)
                elif (messages := connections[each].read()) is None:
                    connections.pop(each).socket.close()
                else:
                    for message in messages:
                        self._hear(connections[each], message)

    def _hear(self, connection: Connection, message: Dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "starts":
            connection.worker = message["worker"]
            if self._asked is not None and connection.worker >= self.size:
                self._asked.sendall(b"\n")
                self._asked = None
        assert connection.worker is not None
        self._told.setdefault(connection.worker, []).append(message)
        if kind == "error":
            raise JobEnded(f"worker {connection.worker}: {message['text']}")
        if kind == "change":
            event = parse(message["event"])
            if event.kind == "join":
                self._present.add(max(self._told) + 1)
                self._asked = connection.socket
            else:
                self._present.discard(event.worker)
                connection.socket.sendall(b"\n")
            self._print_hosts()

    def _print_hosts(self) -> None:
        self._hosts.print_lines(*(f"{HOST}{worker}:1" for worker in sorted(self._present)))
