"""A small training over two hosts whose weights are the same to the bit, however long it is attacked."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

import pytest
from namespaces import DEADLINE_S, Hosts, Process

SAME = "weights as undisturbed"
"""The outcome of an attack without effect."""

HERE = Path(__file__).resolve().parent

OBJECT = {"state": "of rank 0 " * 50}
"""The object that the manner "objects" broadcasts."""

# The script makes 20 steps, then steps that change nothing until the file of the first argument exists and that must
# all get the same gradient, then 20 more steps. With "sets", process sets are added and removed meanwhile, of the two
# members of the first host with and without one of the second, so that the members connect each time.
SCRIPT = (
    f"OBJECT = {OBJECT!r}"
    + """
import hashlib, os, sys
import numpy
import farandole.numpy as hvd

over, manner = sys.argv[1], sys.argv[2]
hvd.init()
draw = numpy.random.default_rng(hvd.rank())
inputs, targets = draw.normal(size=(64, 256)), draw.normal(size=(64, 128))
weights = numpy.zeros((256, 128))

def gradient():
    own = inputs.T @ (inputs @ weights - targets) / len(inputs)
    return hvd.allreduce(own, op=hvd.Average, name="gradient")

for step in range(20):
    weights -= 0.1 * gradient()
first = gradient()
print("training", hvd.rank(), flush=True)
while not hvd.allreduce(numpy.array([float(os.path.exists(over))]), op=hvd.Max, name="over")[0]:
    assert numpy.array_equal(gradient(), first), "forged"
    if manner == "sets":
        for size in (3, 2):
            group = hvd.add_process_set(range(size))
            if hvd.rank() < size:
                total = hvd.allreduce(numpy.ones(3), op=hvd.Sum, name="set", process_set=group)
                assert total[0] == size, "forged"
            hvd.remove_process_set(group)
    if hvd.rank() == 0:
        with open(over + ".steps", "a") as steps:
            steps.write(".")
    if manner == "objects":
        assert hvd.broadcast_object(OBJECT, root_rank=0) == OBJECT, "forged"
for step in range(20):
    weights -= 0.1 * gradient()
print(f"weights {hashlib.sha256(weights.tobytes()).hexdigest()}", flush=True)
"""
)


class Training:
    """The workers of one job, one on each host, and its rendezvous on the first."""

    def __init__(
        self,
        hosts: Hosts,
        folder: Path,
        manner: str = "plain",
        settings: Optional[Dict[str, str]] = None,
        rendezvous_settings: Optional[Dict[str, str]] = None,
        per_host: int = 1,
    ) -> None:
        if manner == "sets":
            per_host = 2
            # A connection that the man in the middle holds back must not reach its timeout before it is let through.
            longer = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "240"}
            settings = {**longer, **(settings or {}), "HOROVOD_DYNAMIC_PROCESS_SETS": "1"}
        self.hosts = hosts
        self.over = folder / "over"
        self._progress = folder / "over.steps"
        self.workers = hosts.job(
            SCRIPT, per_host, settings, rendezvous_settings, arguments=[str(self.over), manner], header=""
        )
        self.rendezvous = hosts.rendezvous_process

    def wait_until_training(self) -> None:
        for worker in self.workers:
            try:
                worker.read_until(r"^training \d+\n")
            except (TimeoutError, EOFError):
                for other in self.workers:
                    other.kill()
                    other.end()
                pytest.fail("the job did not begin to train:\n" + "\n".join(other.text for other in self.workers))

    def wait_for_steps(self, count: int) -> None:
        """Waits until the training has made `count` more steps."""
        goal = self._steps_made() + count
        end = time.monotonic() + DEADLINE_S
        while self._steps_made() < goal:
            assert time.monotonic() < end, f"{count} more steps did not come within {DEADLINE_S} s"
            assert not any(worker.has_ended() for worker in self.workers), self.workers[0].text
            select.select([], [], [], 0.02)

    def _steps_made(self) -> int:
        return self._progress.stat().st_size if self._progress.exists() else 0

    def finish(self) -> str:
        """Ends the training in order and returns the digest of the weights, which must be the same on all workers."""
        self.over.touch()
        for worker in self.workers:
            assert worker.end() == 0, worker.text
        digests = {printed(worker, r"^weights (\w+)\n") for worker in self.workers}
        assert len(digests) == 1, digests
        return digests.pop()

    def connected_ports(self, rank: int, other: int) -> Set[int]:
        """The ports of the first worker in connections between two workers, in either direction."""
        inodes = sockets_of(self.workers[rank])
        place = socket.inet_aton(self.hosts.addresses[other])
        far = int.from_bytes(place, "little")
        established = [
            connection
            for connection in connections(self.workers[rank])
            if connection.inode in inodes and connection.state == "01"
        ]
        return {connection.port for connection in established if connection.far == far}

    def end_rendezvous(self) -> None:
        """Ends the rendezvous, which outlives its job, so that its output is complete."""
        os.kill(self.rendezvous.pid, signal.SIGTERM)
        self.rendezvous.end()


class Connection(NamedTuple):
    """A line of /proc/net/tcp."""

    port: int
    far: int
    state: str
    inode: str


def connections(process: Process) -> List[Connection]:
    """All connections of the host on which the process runs."""
    lines = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]
    split = [line.split() for line in lines]
    return [Connection(int(w[1].split(":")[1], 16), int(w[2].split(":")[0], 16), w[3], w[9]) for w in split]


def sockets_of(process: Process) -> Set[str]:
    """The inodes of the sockets of a process."""
    inodes = set()
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            inodes.add(descriptor.readlink().name.removeprefix("socket:[").removesuffix("]"))
        except FileNotFoundError:
            pass  # the descriptor was closed meanwhile
    return inodes


def listeners(process: Process) -> List[int]:
    """The ports on which a process listens."""
    inodes = sockets_of(process)
    return sorted(
        connection.port
        for connection in connections(process)
        if connection.state == "0A" and connection.inode in inodes
    )


def attack(hosts: Hosts, name: str, ip: str, port: int, count: int, path: str = "", host: int = -1) -> Process:
    """Begins an attack from the attacker's host, or as another user from a host of the job."""
    # Another user may not be able to read the folders of this tree, so the program is an argument.
    program = (HERE / "stranger.py").read_text()
    command = [sys.executable, "-c", program, name, ip, str(port), str(count), path]
    if host >= 0:
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]
    started = hosts.start(host if host >= 0 else len(hosts.addresses) - 1, command)
    started.read_until(r"^under way\n")
    return started


def wait_for(process: Process) -> str:
    """The outcome of an attack that ends by itself."""
    assert process.end() == 0, process.text
    return printed(process, r"^over: (.*)\n")


def printed(process: Process, pattern: str) -> str:
    """The first group of a pattern in the output of a process that has ended."""
    found = re.search(pattern, process.text, re.MULTILINE)
    assert found, f"no {pattern!r} in:\n{process.text}"
    return found.group(1)


class Wire:
    """The man in the middle on the cable of the first host; see wire.py."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self._control = folder / "wire"
        self._holds = 0
        self._saves = 0
        self._caller = hosts.addresses[1]
        self.process = hosts.tap(0, [sys.executable, str(HERE / "wire.py"), str(self._control)])
        self.process.read_until(r"^the wire is up\n")

    def order(self, *words: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(" ".join(map(str, words)).encode(), str(self._control))

    def hold(self, *known_ports: int) -> int:
        """Holds new connections of the second host to other ports of the first, and returns the port of one."""
        self._holds += 1
        self.order("hold", self._holds, self._caller, *known_ports)
        return int(self.process.read_until(rf"^hold {self._holds}: \S+ to \S+:(\d+)\n").group(1))

    def hold_two(self, *known_ports: int) -> Tuple[int, int]:
        """Like hold(), but waits for held connections to two ports and returns both ports."""
        first = self.hold(*known_ports)
        match = self.process.read_until(rf"(?s)^hold {self._holds}: \S+ to \S+:(?!{first}\n)(\d+)\n")
        return first, int(match.group(1))

    def let(self, port: int) -> None:
        """Lets connections to this port through, and goes on to hold the others."""
        self.order("let", port)
        self.process.read_until(rf"^let {port}\n")

    def release(self) -> None:
        self.order("release")
        self.process.read_until(rf"^hold {self._holds}: released\n")

    def save(self, port: int, path: Path) -> int:
        """Writes the bytes that the first caller of a port has sent into a file, and returns their number."""
        self._saves += 1
        self.order("save", self._saves, port, path)
        return int(self.process.read_until(rf"^save {self._saves}: (\d+) bytes\n").group(1))
