"""Lets the tasks of a job register with one process, and learn one another's addresses."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple

from farandole.runner.common.util import network
from farandole.runner.common.util.timeout import Timeout

_WAIT_S = 0.1
"""How often a wait looks at its deadline."""


@dataclass
class RegisterTaskRequest:
    """A task has started."""

    index: int
    task_addresses: network.Addresses
    host_hash: str


@dataclass
class RegisterTaskToTaskAddressesRequest:
    """The addresses at which a task was reached by another one."""

    index: int
    task_addresses: network.Addresses


@dataclass
class AllTaskAddressesRequest:
    """Asks for all addresses of a task."""

    index: int


@dataclass
class AllTaskAddressesResponse:
    """All addresses of a task."""

    all_task_addresses: network.Addresses


class BasicDriverService(network.BasicService):
    """Keeps an account of the tasks of a job."""

    def __init__(self, num_proc: int, name: str, key: bytes, nics: Optional[Iterable[str]]) -> None:
        """
        :param num_proc: the number of tasks, whose indices are 0 to this number less 1
        """
        self._num_proc = num_proc
        self._changed = threading.Condition()
        self._all_addresses: Dict[int, network.Addresses] = {}
        self._host_hashes: Dict[int, str] = {}
        self._addresses_for_driver: Dict[int, network.Addresses] = {}
        self._addresses_for_tasks: Dict[int, network.Addresses] = {}
        super().__init__(name, key, nics)

    def _handle(self, req: Any, client_address: Tuple[str, int]) -> Any:
        of_a_task = (RegisterTaskRequest, RegisterTaskToTaskAddressesRequest, AllTaskAddressesRequest)
        if isinstance(req, of_a_task) and not 0 <= req.index < self._num_proc:
            raise IndexError(
                f"there is no task {req.index}: the service has {self._num_proc}, from 0 on; correct the index"
            )
        if isinstance(req, RegisterTaskRequest):
            reached = _containing(req.task_addresses, client_address[0])
            with self._changed:
                self._all_addresses[req.index] = req.task_addresses
                self._addresses_for_driver[req.index] = reached
                self._host_hashes[req.index] = req.host_hash
                self._changed.notify_all()
            return network.AckResponse()
        if isinstance(req, RegisterTaskToTaskAddressesRequest):
            with self._changed:
                self._addresses_for_tasks[req.index] = req.task_addresses
                self._changed.notify_all()
            return network.AckResponse()
        if isinstance(req, AllTaskAddressesRequest):
            return AllTaskAddressesResponse(self.all_task_addresses(req.index))
        return super()._handle(req, client_address)

    def all_task_addresses(self, index: int) -> network.Addresses:
        """All addresses of a registered task."""
        with self._changed:
            return dict(self._all_addresses[index])

    def task_addresses_for_driver(self, index: int) -> network.Addresses:
        """The addresses of a registered task in the network from which it has registered."""
        with self._changed:
            return dict(self._addresses_for_driver[index])

    def task_addresses_for_tasks(self, index: int) -> network.Addresses:
        """The addresses at which another task has reached this one."""
        with self._changed:
            return dict(self._addresses_for_tasks[index])

    def task_index_host_hash(self, index: int) -> str:
        """The identity of the host of a registered task."""
        with self._changed:
            return self._host_hashes[index]

    def task_host_hash_indices(self) -> Dict[str, List[int]]:
        """The registered tasks of each host."""
        with self._changed:
            indices: Dict[str, List[int]] = {}
            for index in sorted(self._host_hashes):
                indices.setdefault(self._host_hashes[index], []).append(index)
            return indices

    def wait_for_initial_registration(self, timeout: Timeout) -> None:
        """Waits until all tasks have registered; ``TimeoutException`` if that takes too long."""
        self._wait(self._all_addresses, timeout, "the registration of all tasks")

    def wait_for_task_to_task_address_updates(self, timeout: Timeout) -> None:
        """Waits until all tasks have reported where they were reached; ``TimeoutException`` if that takes too long."""
        self._wait(self._addresses_for_tasks, timeout, "the reports of all tasks about their addresses")

    def _wait(self, found: Dict[int, Any], timeout: Timeout, activity: str) -> None:
        with self._changed:
            while len(found) < self._num_proc:
                timeout.check_time_out_for(activity)
                self._changed.wait(min(_WAIT_S, timeout.remaining() + 0.001))


def _containing(addresses: network.Addresses, source: str) -> network.Addresses:
    """The interfaces with this address; all of them if there is none, as behind a translation of addresses."""
    found = {name: each for name, each in addresses.items() if any(ip == source for ip, _ in each)}
    return found or addresses


class BasicDriverClient(network.BasicClient):
    """Registers a task, and asks for the addresses of others."""

    def __init__(
        self, name: str, driver_addresses: network.Addresses, key: bytes, verbose: int, match_intf: bool = False
    ) -> None:
        super().__init__(name, driver_addresses, key, verbose, match_intf)

    def register_task(self, index: int, task_addresses: network.Addresses, host_hash: str) -> None:
        """A task has started, and has a service at these addresses."""
        self._send(RegisterTaskRequest(index, task_addresses, host_hash))

    def register_task_to_task_addresses(self, index: int, task_addresses: network.Addresses) -> None:
        """A task was reached at these addresses."""
        self._send(RegisterTaskToTaskAddressesRequest(index, task_addresses))

    def all_task_addresses(self, index: int) -> network.Addresses:
        """All addresses of a registered task."""
        found: network.Addresses = self._send(AllTaskAddressesRequest(index)).all_task_addresses
        return found
