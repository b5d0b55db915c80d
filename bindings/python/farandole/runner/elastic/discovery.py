"""Finds the hosts that an elastic job may use, and keeps those off the list that have failed."""

from __future__ import annotations

import io
import random
import re
import threading
import time
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set

from farandole.common.elastic.notices import HostUpdateResult
from farandole.runner.common.util import hosts as host_lists
from farandole.runner.common.util import safe_shell_exec


class HostDiscovery:
    """Finds the present hosts."""

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        """The slots of each present host."""
        raise NotImplementedError(f"{type(self).__name__} does not say which hosts are present")


class HostDiscoveryScript(HostDiscovery):
    """Runs a command that prints a line "host" or "host:slots" for each present host, and perhaps comments (#)."""

    def __init__(self, discovery_script: str, slots: Optional[int]) -> None:
        """
        :param discovery_script: a program, or a command for the shell
        :param slots: of hosts for which it prints none
        """
        self._discovery_script = discovery_script
        self._default_slots = slots

    @property
    def script(self) -> str:
        """The program."""
        return self._discovery_script

    @property
    def default_slots(self) -> Optional[int]:
        """The slots of hosts for which the program prints none."""
        return self._default_slots

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        hosts: Dict[str, int] = {}
        for line in filter(None, (each.partition("#")[0].strip() for each in self._printed().splitlines())):
            try:
                found = host_lists.HostInfo.from_string(
                    line if re.search(r":\d+$", line) else f"{line}:{self._default_slots}"
                )
            except ValueError:
                raise ValueError(
                    f"the host discovery script {self._discovery_script} printed '{line}', which is no host and its "
                    "slots; print host:slots, or set the slots of each host (--slots-per-host)"
                ) from None
            hosts[found.hostname] = hosts.get(found.hostname, 0) + found.slots
        return hosts

    def _printed(self) -> str:
        """What the command prints; ``RuntimeError`` if it fails, or does not end in the launcher's time."""
        from farandole import _native

        limit_s = _native.discovery_timeout_s()
        overdue = threading.Event()
        timer = threading.Timer(limit_s, overdue.set)
        stdout, stderr = io.StringIO(), io.StringIO()
        timer.start()
        try:
            code = safe_shell_exec.execute(self._discovery_script, stdout=stdout, stderr=stderr, events=[overdue])
        finally:
            timer.cancel()
        if overdue.is_set():
            raise RuntimeError(
                f"the host discovery script {self._discovery_script} did not end within {limit_s:g} s "
                "(FARANDOLE_DISCOVERY_TIMEOUT) and was killed"
            )
        if code != 0:
            raise RuntimeError(
                f"the host discovery script {self._discovery_script} exited with code {code}: "
                f"{stderr.getvalue().strip()}"
            )
        return stdout.getvalue()


class FixedHosts(HostDiscovery):
    """Hosts that the caller gives, and can change."""

    def __init__(self, host_slots: Mapping[str, int]) -> None:
        self._host_slots = dict(host_slots)

    def find_available_hosts_and_slots(self) -> Mapping[str, int]:
        return self._host_slots

    def set(self, host_slots: Mapping[str, int]) -> None:
        """Other hosts from now on."""
        self._host_slots = dict(host_slots)


class HostState:
    """Whether a host may get workers. ``cooldown_range``: the shortest and the longest time in seconds after which a
    host that has failed may get workers again; without it, never."""

    def __init__(self, cooldown_range: Optional[Sequence[int]] = None) -> None:
        if cooldown_range is not None:
            shortest, longest = cooldown_range
            if not 1 <= shortest <= longest <= 3600:
                raise ValueError(
                    f"the cooldown range ({shortest}, {longest}) is out of range: give two ascending numbers of "
                    "seconds from 1 to 3600"
                )
        self._cooldown_range = cooldown_range
        self._event = threading.Event()
        self._is_blacklisted = False
        self._failures = 0
        self._cooldown_end: Optional[float] = None

    def get_event(self) -> threading.Event:
        """The event that is set when the host fails; a new one after it was set."""
        if self._event.is_set():
            self._event = threading.Event()
        return self._event

    def set_event(self) -> None:
        """Notifies those that wait for the host's failure."""
        self._event.set()

    def blacklist(self) -> None:
        """The host has failed: it gets no more workers, until its cooldown has ended."""
        if not self._is_blacklisted and self._cooldown_range is not None:
            self._cooldown_end = time.monotonic() + self._cooldown_s(*self._cooldown_range)
            self._failures += 1
        self._is_blacklisted = True
        self.set_event()

    def _cooldown_s(self, shortest: float, longest: float) -> float:
        delay = shortest * 2.0**self._failures + random.uniform(0, 1) * shortest
        return max(shortest, min(longest, delay))

    def whitelist(self) -> None:
        """The host may get workers again."""
        self._is_blacklisted = False
        self._cooldown_end = None

    def is_blacklisted(self) -> bool:
        """Whether the host gets no workers."""
        return self._is_blacklisted

    def is_resurrected(self) -> bool:
        """Whether the cooldown of a host that has failed has ended."""
        return self._is_blacklisted and self._cooldown_end is not None and time.monotonic() >= self._cooldown_end


class DiscoveredHosts:
    """The present hosts at one time. Does not change except by ``update``."""

    def __init__(self, host_slots: Mapping[str, int], host_assignment_order: Sequence[str]) -> None:
        self._host_slots = dict(host_slots)
        self._host_assignment_order = list(host_assignment_order)

    @property
    def host_slots(self) -> Dict[str, int]:
        """The slots of each present host."""
        return self._host_slots

    @property
    def available_hosts(self) -> Set[str]:
        """The hosts that may get workers."""
        return set(self._host_assignment_order)

    @property
    def host_assignment_order(self) -> List[str]:
        """The hosts that may get workers, in the order of their ranks."""
        return self._host_assignment_order

    def get_slots(self, host: str) -> int:
        """The slots of a host; 0 if it is not present."""
        return self._host_slots.get(host, 0)

    def count_available_slots(self) -> int:
        """The slots of the hosts that may get workers."""
        return sum(self.get_slots(host) for host in self._host_assignment_order)

    def update(self, hosts_state: Mapping[str, HostState]) -> DiscoveredHosts:
        """Removes the hosts that have failed since."""
        self._host_assignment_order = [
            host
            for host in self._host_assignment_order
            if host not in hosts_state or not hosts_state[host].is_blacklisted()
        ]
        return self


class HostManager:
    """The hosts of an elastic job over time."""

    def __init__(self, discovery: HostDiscovery, cooldown_range: Optional[Sequence[int]] = None) -> None:
        self._discovery = discovery
        self._cooldown_range = cooldown_range
        self._lock = threading.Lock()
        self._states: Dict[str, HostState] = {}
        self._current = DiscoveredHosts({}, [])

    def _state(self, host: str) -> HostState:
        return self._states.setdefault(host, HostState(self._cooldown_range))

    def update_available_hosts(self) -> HostUpdateResult:
        """Asks the discovery, and says how the hosts have changed."""
        found = dict(self._discovery.find_available_hosts_and_slots())
        with self._lock:
            before = self._current.host_slots
            result = HostUpdateResult.no_update
            if any(found.get(host, 0) < slots for host, slots in before.items()):
                result |= HostUpdateResult.removed
            if any(slots > before.get(host, 0) for host, slots in found.items()):
                result |= HostUpdateResult.added
            for host in found:
                if self._state(host).is_resurrected():
                    self._state(host).whitelist()
                    result |= HostUpdateResult.added
            available = [host for host in found if not self._state(host).is_blacklisted()]
            order = self.order_available_hosts(available, self._current.host_assignment_order)
            self._current = DiscoveredHosts(found, order)
        return result

    @property
    def current_hosts(self) -> DiscoveredHosts:
        """The hosts at the last update, without those that have failed since."""
        with self._lock:
            return self._current.update(self._states)

    def blacklist(self, host: str) -> None:
        """The host has failed."""
        with self._lock:
            self._state(host).blacklist()

    def is_blacklisted(self, host: str) -> bool:
        """Whether the host gets no workers."""
        with self._lock:
            return self._state(host).is_blacklisted()

    def get_host_event(self, host: str) -> threading.Event:
        """The event that is set when the host fails."""
        with self._lock:
            return self._state(host).get_event()

    @staticmethod
    def order_available_hosts(available_hosts: Iterable[str], prev_host_assignment_order: Sequence[str]) -> List[str]:
        """Known hosts in their order, then the new ones in the order in which they were found."""
        available = list(available_hosts)
        known = [host for host in prev_host_assignment_order if host in available]
        return known + [host for host in available if host not in known]
