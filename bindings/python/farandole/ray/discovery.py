"""The nodes of a Ray cluster as hosts of an elastic job."""

from __future__ import annotations

import random
import signal
import time
from typing import Any, Dict, List, Optional, Set

import ray

from farandole.runner.elastic.discovery import HostDiscovery


class RayHostDiscovery(HostDiscovery):
    """The nodes of the cluster that are alive and not being drained, by their addresses, and the number of workers that
    fit on each; asked at each call."""

    def __init__(self, use_gpu: bool = False, cpus_per_worker: int = 1, gpus_per_worker: int = 1) -> None:
        self.use_gpu, self._cpus, self._gpus = use_gpu, cpus_per_worker, gpus_per_worker

    def find_available_hosts_and_slots(self) -> Dict[str, int]:
        """The number of workers that fit on each node, by address. Nodes on which none fits are left out."""
        found: Dict[str, int] = {}
        draining = _draining_nodes()
        for node in ray.nodes():
            if node["Alive"] and node["NodeID"] not in draining:
                slots = self._slots_of(node["Resources"])
                if slots:  # several nodes may have the same address
                    found[node["NodeManagerAddress"]] = found.get(node["NodeManagerAddress"], 0) + slots
        return found

    def _slots_of(self, resources: Dict[str, float]) -> int:
        if self._cpus:
            slots = int(resources.get("CPU", 0) // self._cpus)
        else:
            slots = int(resources.get("GPU", 0) // self._gpus) if self.use_gpu else 1
        return min(slots, int(resources.get("GPU", 0) // self._gpus)) if self.use_gpu else slots


def _draining_nodes() -> Set[str]:
    """The ids of nodes that are about to be removed; none in old versions of Ray, which do not tell."""
    from ray._private.state import state  # Ray has no public function for this

    return set(state.get_draining_nodes()) if hasattr(state, "get_draining_nodes") else set()


class TestDiscovery(RayHostDiscovery):
    """Pretends that nodes come and go, to test elastic jobs: about every few seconds, one node leaves or returns."""

    __test__ = False  # for pytest

    def __init__(
        self,
        min_hosts: int,
        max_hosts: int,
        change_frequency_s: float,
        use_gpu: bool = False,
        cpus_per_worker: int = 1,
        gpus_per_worker: int = 1,
        verbose: bool = True,
        _graceful: bool = True,
    ) -> None:
        """
        :param change_frequency_s: seconds between changes, at least
        :param _graceful: False: a node that leaves is shut down without notice
        """
        super().__init__(use_gpu, cpus_per_worker, gpus_per_worker)
        self._min_hosts, self._max_hosts, self._change_frequency_s = min_hosts, max_hosts, change_frequency_s
        self._verbose, self._graceful = verbose, _graceful
        self._changed_at: Optional[float] = None
        self._removed: List[str] = []

    def add_host(self, hosts: Dict[str, int]) -> None:
        """Lets a node return that has left."""
        present = [host for host in self._removed if host in hosts]
        if present:
            host = random.choice(present)
            self._removed.remove(host)
            self._tell(f"node {host} returns")

    def remove_host(self, hosts: Dict[str, int]) -> None:
        """Lets one of the nodes leave. If the discovery is not graceful, the node is shut down without notice."""
        present = [host for host in hosts if host not in self._removed]
        if present:
            host = random.choice(present)
            self._removed.append(host)
            self._tell(f"node {host} leaves")
            if not self._graceful:
                _kill_node(host)

    def change_hosts(self, hosts: Dict[str, int]) -> None:
        """Lets a node leave or return, such that their number stays between the two limits."""
        count = len([host for host in hosts if host not in self._removed])
        may_grow = count < self._max_hosts and any(host in hosts for host in self._removed)
        may_shrink = count > self._min_hosts
        if may_grow and (not may_shrink or random.random() < 0.5):
            self.add_host(hosts)
        elif may_shrink:
            self.remove_host(hosts)

    def find_available_hosts_and_slots(self) -> Dict[str, int]:
        """The nodes that have not left. Changes them if the last change is long enough ago."""
        hosts = super().find_available_hosts_and_slots()
        now = time.monotonic()
        if self._changed_at is None:
            self._changed_at = now
        elif now - self._changed_at >= self._change_frequency_s:
            self._changed_at = now
            self.change_hosts(hosts)
        return {host: slots for host, slots in hosts.items() if host not in self._removed}

    def _tell(self, text: str) -> None:
        if self._verbose:
            print(f"TestDiscovery: {text}", flush=True)


def _kill_node(host: str) -> None:
    """Kills Ray's process on a node, and with it the node's workers."""

    def kill_parent() -> None:
        import os

        os.kill(os.getppid(), signal.SIGKILL)

    options: Dict[str, Any] = {"num_cpus": 0, "max_retries": 0, "resources": {f"node:{host}": NODE_SHARE}}
    ray.remote(kill_parent).options(**options).remote()


NODE_SHARE = 0.001
"""The part of a node's resource ``node:NAME`` that pins a task or an actor to the node."""
