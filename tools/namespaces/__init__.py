"""Hosts made of network namespaces on this machine, joined by a bridge in one more namespace.

Nothing is added to the machine's own network, so nothing is left there either; ``Hosts.remove`` takes them away. Making
them needs root: ``why_not`` says what stands in the way.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

DEADLINE_S = 120.0
FARANDOLE = os.environ.get("FARANDOLE_COMMAND") or str(Path(sys.executable).with_name("farandole"))
_numbers = itertools.count()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=DEADLINE_S)


class Process:
    """A process on a host, whose output can be read while it runs."""

    def __init__(self, command: List[str], environment: Dict[str, str]) -> None:
        self._child = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.pid = self._child.pid
        self.text = ""

    def read_until(self, pattern: str, deadline_s: float = DEADLINE_S) -> re.Match[str]:
        """The first match of the pattern in the output; TimeoutError when it does not come."""
        return self.read_matches(pattern, 1, deadline_s)[0]

    def read_matches(self, pattern: str, count: int, deadline_s: float = DEADLINE_S) -> List[re.Match[str]]:
        """All matches of the pattern in the output, of which there are at least so many; else TimeoutError."""
        assert self._child.stdout is not None
        descriptor = self._child.stdout.fileno()
        end = time.monotonic() + deadline_s
        while True:
            found = list(re.finditer(pattern, self.text, re.MULTILINE))
            if len(found) >= count:
                return found
            expected = f"{pattern!r}" if count == 1 else f"{count} times {pattern!r}"
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{expected} did not come within {deadline_s} s:\n{self.text}")
            chunk = os.read(descriptor, 65536)
            if not chunk:
                raise EOFError(f"the output ended without {expected}:\n{self.text}")
            self.text += chunk.decode(errors="replace")

    def end(self, deadline_s: float = DEADLINE_S) -> int:
        """Reads the rest and returns the exit code."""
        try:
            rest, _ = self._child.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise TimeoutError(f"the process did not end within {deadline_s} s:\n{self.text}") from None
        self.text += rest.decode(errors="replace")
        return self._child.returncode

    def stop(self) -> str:
        """Ends the process, and returns all of its output."""
        os.killpg(self.pid, signal.SIGTERM)
        self.end()
        return self.text

    def has_ended(self) -> bool:
        return self._child.poll() is not None

    def kill(self) -> None:
        if not self.has_ended():
            os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()


class Hosts:
    """Some hosts with an address each, and what runs on them. On the last `guests` of them no workers run."""

    not_inherited: Tuple[str, ...] = ("HOROVOD_", "FARANDOLE_")  # the beginnings of names of variables

    def __init__(self, count: int, folder: Path, guests: int = 0, has_only_ipv6: bool = False) -> None:
        self._name = f"fdl{os.getpid()}n{next(_numbers)}"
        self._folder = folder
        self._made: List[str] = []
        self._processes: List[Process] = []
        self.rendezvous_process: Optional[Process] = None
        network, self._bits = ("fd00:219:7::", 64) if has_only_ipv6 else ("10.219.7.", 24)
        self.addresses = [f"{network}{number + 1}" for number in range(count + guests)]
        self._with_workers = count
        self.secret = folder / "secret"
        self.secret.write_text(secrets.token_hex(32))
        self.secret.chmod(0o600)

    def make(self) -> None:
        switch = f"{self._name}s"
        self._add(switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for number in range(len(self.addresses)):
            host = self._host(number)
            self._add(host)
            _ip("-n", switch, "link", "add", f"port{number}", "type", "veth", "peer", "name", "net0", "netns", host)
            _ip("-n", switch, "link", "set", f"port{number}", "master", "bridge", "up")
            # Without the search for another host with the same IPv6 address, which takes a second.
            search = ["nodad"] if ":" in self.addresses[number] else []
            _ip("-n", host, "addr", "add", f"{self.addresses[number]}/{self._bits}", "dev", "net0", *search)
            _ip("-n", host, "link", "set", "net0", "up")
            _ip("-n", host, "link", "set", "lo", "up")

    def add_first_address(self, number: int, address: str) -> None:
        """Gives a host one more address, which is listed before the one that the other hosts reach."""
        host = self._host(number)
        _ip("-4", "-n", host, "addr", "flush", "dev", "net0")
        for each in (f"{address}/32", f"{self.addresses[number]}/24"):
            _ip("-n", host, "addr", "add", each, "dev", "net0")

    def add_address(self, number: int, address: str) -> None:
        """Gives a host one more address, with the length of its network: "10.1.0.2/24"."""
        _ip("-n", self._host(number), "addr", "add", address, "dev", "net0")

    def rename_interface(self, number: int, name: str) -> None:
        """Gives the interface net0 of a host another name."""
        host = self._host(number)
        _ip("-n", host, "link", "set", "net0", "down")
        _ip("-n", host, "link", "set", "net0", "name", name, "up")

    def _add(self, namespace: str) -> None:
        _ip("netns", "add", namespace)
        self._made.append(namespace)

    def _host(self, number: int) -> str:
        return f"{self._name}h{number}"

    def entering(self, number: int) -> List[str]:
        """The command prefix that runs a command on a host."""
        return ["ip", "netns", "exec", self._host(number)]

    def start(self, number: int, command: List[str], more: Optional[Dict[str, str]] = None) -> Process:
        """Runs a command on a host."""
        return self._start(self.entering(number), command, more)

    def _start(self, entering: List[str], command: List[str], more: Optional[Dict[str, str]] = None) -> Process:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(self.not_inherited)}
        process = Process([*entering, *command], {**kept, **(more or {})})
        self._processes.append(process)
        return process

    def tap(self, number: int, command: List[str]) -> Process:
        """Cuts a host's cable and runs a command between its ends, the interfaces ``host`` and ``rest``."""
        switch = f"{self._name}s"
        _ip("-n", switch, "link", "set", f"port{number}", "down")
        _ip("-n", switch, "link", "set", f"port{number}", "nomaster", "name", "host", "up")
        _ip("-n", switch, "link", "add", "rest", "type", "veth", "peer", "name", "far")
        _ip("-n", switch, "link", "set", "far", "master", "bridge", "up")
        _ip("-n", switch, "link", "set", "rest", "up")
        return self._start(["ip", "netns", "exec", switch], command)

    def rendezvous(self, size: int, settings: Optional[Dict[str, str]] = None) -> str:
        """Starts the rendezvous of a job on host 0; its port."""
        process = self.start(
            0,
            [FARANDOLE, "rendezvous", "--size", str(size), "--bind", self.addresses[0], "--port", "0"]
            + ["--secret-file", str(self.secret)],
            settings,
        )
        self.rendezvous_process = process
        return process.read_until(re.escape(self.addresses[0]) + r":(\d+)\s").group(1)

    def job(
        self,
        script: str,
        per_host: int = 1,
        settings: Optional[Dict[str, str]] = None,
        rendezvous_settings: Optional[Dict[str, str]] = None,
        arguments: Sequence[str] = (),
        header: str = "import horovod.torch as hvd\nimport torch\n\n",
    ) -> List[Process]:
        """One job over all hosts, its workers by rank; each runs the script behind the header.

        The rendezvous has the same settings, unless it is given its own.
        """
        hosts = self._with_workers
        size = hosts * per_host
        port = self.rendezvous(size, settings if rendezvous_settings is None else rendezvous_settings)
        program = self._folder / f"worker{next(_numbers)}.py"
        program.write_text(header + textwrap.dedent(script))
        workers = []
        for rank in range(size):
            number, local = divmod(rank, per_host)
            place = {
                **(settings or {}),
                "HOROVOD_RANK": rank,
                "HOROVOD_SIZE": size,
                "HOROVOD_LOCAL_RANK": local,
                "HOROVOD_LOCAL_SIZE": per_host,
                "HOROVOD_CROSS_RANK": number,
                "HOROVOD_CROSS_SIZE": hosts,
                "HOROVOD_HOSTNAME": self.addresses[number],
                "HOROVOD_GLOO_RENDEZVOUS_ADDR": self.addresses[0],
                "HOROVOD_GLOO_RENDEZVOUS_PORT": port,
                "FARANDOLE_SECRET_FILE": self.secret,
                "PYTHONUNBUFFERED": 1,
                "OMP_NUM_THREADS": 1,
            }
            command = [sys.executable, str(program), *arguments]
            workers.append(self.start(number, command, {key: str(value) for key, value in place.items()}))
        return workers

    def limit(self, rate: str) -> None:
        """Lets each host send at most this much, as ``tc`` writes rates: "1gbit"."""
        for number in range(len(self.addresses)):
            bucket = ["tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
            command = ["tc", "-n", self._host(number), "qdisc", "add", "dev", "net0", "root", *bucket]
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=DEADLINE_S)

    def cut(self, number: int) -> None:
        """Simulates a pulled cable: drops all packets of a host without notice to either end."""
        _ip("-n", f"{self._name}s", "link", "set", f"port{number}", "nomaster")

    def remove(self) -> None:
        for process in self._processes:
            process.kill()
        for namespace in self._made:
            subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True, timeout=DEADLINE_S)


def why_not() -> str:
    """Why hosts cannot be made here; "" when they can."""
    if shutil.which("ip") is None:
        return "hosts are network namespaces: they need the command ip (Debian package iproute2)"
    probe = f"fdl{os.getpid()}probe"
    try:
        _ip("netns", "add", probe)
        _ip("-n", probe, "link", "add", "bridge", "type", "bridge")
    except subprocess.SubprocessError as problem:
        reason = getattr(problem, "stderr", None) or str(problem)
        return f"hosts are network namespaces, which may not be made here (root is needed): {reason.strip()}"
    finally:
        subprocess.run(["ip", "netns", "delete", probe], check=False, capture_output=True, timeout=DEADLINE_S)
    return ""
