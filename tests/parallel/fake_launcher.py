"""A small launcher for tests of functions: ``farandole run --call-descriptor`` on one host, without a network.

Workers get their ranks and a socket pair each; frames go between the sockets and the descriptor. A worker that fails
ends the job, or, in an elastic job (``--min-np``), is replaced. FAKE_HOSTS names the hosts that ranks are told.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from typing import Any, Dict, List, Optional, Tuple

HEADER = struct.Struct("<II")
EVENTS = 0xFFFFFFFF


class Worker:
    """A process, the launcher's end of its socket, and the output that has no line end yet."""

    def __init__(self, slot: int, rank: int, host: str, size: int, command: List[str]) -> None:
        self.slot, self.host = slot, host
        self.channel, theirs = socket.socketpair()
        place = {"HOROVOD_RANK": rank, "HOROVOD_LOCAL_RANK": rank, "HOROVOD_SIZE": size, "HOROVOD_HOSTNAME": host}
        environment = {**os.environ, **{name: str(value) for name, value in place.items()}, "PYTHONUNBUFFERED": "1"}
        environment["FARANDOLE_CALL_DESCRIPTOR"] = str(theirs.fileno())
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.open_streams = 3
        self.rank = rank


class FakeLauncher:
    def __init__(self, channel: int, options: Dict[str, str], command: List[str]) -> None:
        self.channel = socket.socket(fileno=channel)
        os.set_inheritable(channel, False)
        self.options, self.command = options, command
        self.size = int(options["--num-proc"])
        self.hosts = os.environ.get("FAKE_HOSTS", "localhost").split(",")
        self.selector = selectors.DefaultSelector()
        self.workers: Dict[int, Worker] = {}
        self.unread = b""
        self.code = 0
        self.next_slot = 0
        self.replacements = int(options.get("--reset-limit", "2")) if "--min-np" in options else 0

    def start(self, rank: int) -> None:
        worker = Worker(self.next_slot, rank, self.hosts[rank % len(self.hosts)], self.size, self.command)
        self.next_slot += 1
        self.workers[worker.slot] = worker
        self.event(event="started", slot=worker.slot, host=worker.host, process=worker.process.pid)
        for stream in (worker.channel, worker.process.stdout, worker.process.stderr):
            self.selector.register(stream, selectors.EVENT_READ, worker)

    def event(self, **fields: Any) -> None:
        self.send(EVENTS, json.dumps(fields).encode())

    def send(self, slot: int, content: bytes) -> None:
        try:
            self.channel.sendall(HEADER.pack(slot, len(content)) + content)
        except OSError:
            pass  # the parent has ended; the next read says so

    def run(self) -> int:
        self.selector.register(self.channel, selectors.EVENT_READ)
        for rank in range(self.size):
            self.start(rank)
        while self.workers:
            for key, _ in self.selector.select():
                if key.data is None:
                    self.from_parent()
                elif key.fileobj is key.data.channel:
                    self.from_worker(key.data)
                else:
                    self.output(key)
        return self.code

    def from_parent(self) -> None:
        chunk = self.channel.recv(1 << 20)
        if not chunk:
            self.selector.unregister(self.channel)
            self.code = self.code or 143
            self.end_all()
        self.unread += chunk
        while len(self.unread) >= HEADER.size:
            slot, length = HEADER.unpack_from(self.unread)
            assert 1 <= length <= 1 << 20
            if len(self.unread) < HEADER.size + length:
                break
            content, self.unread = self.unread[HEADER.size : HEADER.size + length], self.unread[HEADER.size + length :]
            if slot in self.workers:
                try:
                    self.workers[slot].channel.sendall(content)
                except OSError:
                    pass  # the worker has ended

    def from_worker(self, worker: Worker) -> None:
        try:
            chunk = worker.channel.recv(1 << 20)
        except ConnectionResetError:
            chunk = b""
        if chunk:
            self.send(worker.slot, chunk)
        else:
            self.closed(worker.channel, worker)

    def output(self, key: Any) -> None:
        worker = key.data
        is_stdout = key.fileobj is worker.process.stdout
        # A line at a time; workers of tests print whole lines.
        line = key.fileobj.readline()
        if not line:
            self.closed(key.fileobj, worker)
            return
        stream = sys.stdout.buffer if is_stdout else sys.stderr.buffer
        stream.write(b"[%d]<%s>:" % (worker.rank, b"stdout" if is_stdout else b"stderr") + line)
        stream.flush()

    def closed(self, stream: Any, worker: Worker) -> None:
        self.selector.unregister(stream)
        stream.close()
        worker.open_streams -= 1
        if worker.open_streams == 0:
            self.ended(worker, worker.process.wait())

    def ended(self, worker: Worker, code: int) -> None:
        del self.workers[worker.slot]
        manner = f"exited with code {code}" if code >= 0 else f"was killed by signal {-code}"
        self.event(event="ended", slot=worker.slot, manner=manner)
        if code == 0 or self.code:
            return
        if self.replacements > 0:
            self.replacements -= 1
            self.start(worker.rank)
            return
        self.code = code if code > 0 else 128 - code
        name = f"{worker.host}[{worker.rank}]" if "--min-np" in self.options else str(worker.rank)
        print(
            "Horovod detected that one or more processes exited with non-zero status. The one that caused it was:\n"
            f"Process name: {name}\nExit code: {self.code}\nCause: Process {name} {manner}",
            file=sys.stderr,
            flush=True,
        )
        self.end_all()

    def end_all(self) -> None:
        for worker in self.workers.values():
            os.killpg(worker.process.pid, signal.SIGTERM)


def parsed(words: List[str]) -> Tuple[Dict[str, str], List[str]]:
    """The options, and the command behind them."""
    split = words.index("--")
    options, command = words[:split], words[split + 1 :]
    found: Dict[str, str] = {}
    name: Optional[str] = None
    for word in options:
        if word.startswith("-"):
            name, _, value = word.partition("=")
            found[name] = value
        elif name is not None:
            found[name] += f" {word}" if found[name] else word
    return found, command


def main() -> int:
    options, command = parsed(sys.argv[2:])
    for line in os.environ.get("FAKE_PRINTS", "").splitlines():
        print(line, file=sys.stderr, flush=True)
    if "--verbose" in options:
        print(json.dumps(options), flush=True)
    descriptor, other = options.get("--call-descriptor"), None
    if descriptor is None:  # the job of a command
        channel, other = socket.socketpair()
        descriptor = str(channel.detach())
    launcher = FakeLauncher(int(descriptor), options, command)
    if os.environ.get("FAKE_TIMES_OUT"):
        launcher.event(event="timed out")
    if os.environ.get("FAKE_EXIT"):
        return int(os.environ["FAKE_EXIT"])
    code = launcher.run()
    if other is not None:
        other.close()
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: None)  # the end of the parent's socket says the same
    sys.exit(main())
