"""Creates the actors of a job of fixed size, and the placement group that reserves their resources."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import ray
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from farandole.ray.utils import is_client
from farandole.ray.worker import BaseHorovodWorker

_REPORT_S = 10.0
"""How long an error message waits for the nodes' resources."""
PLACING_SETTING = "create_settings(placement_group_timeout_s=...)"


def resources_by_node() -> str:
    """The free and the total resources of each node that is alive, as text for a message."""
    from ray._private.state import state  # Ray has no public function for this

    free = getattr(state, "available_resources_per_node", None) or state._available_resources_per_node
    left_by_node = free()
    lines = []
    for node in ray.nodes():
        if node["Alive"]:
            total, left = node["Resources"], left_by_node.get(node["NodeID"], {})
            counts = [
                f"{left.get(name, 0):g} of {total[name]:g} {name} free" for name in ("CPU", "GPU") if name in total
            ]
            lines.append(f"node {node['NodeID']} ({node['NodeManagerHostname']}): {', '.join(counts) or 'no CPU'}")
    return "; ".join(lines)


def _report_of_resources() -> str:
    """``resources_by_node()``, called in the cluster if the driver is a client of it."""
    try:
        if not is_client():
            return resources_by_node()
        return str(ray.get(ray.remote(num_cpus=0)(resources_by_node).remote(), timeout=_REPORT_S))
    except Exception as problem:  # it must not hide the error that the text belongs to
        return f"the resources of the nodes are not known ({type(problem).__name__}: {problem})"


def shortage(unmet: str, timeout_s: float, setting: str) -> TimeoutError:
    """The error for what the cluster has not done in time: it names the free resources and the remedies.

    :param setting: of the timeout
    """
    return TimeoutError(
        f"the cluster did not {unmet} within {timeout_s:g} s; it has {_report_of_resources()}. Ask for fewer workers "
        f"or smaller ones, free resources, add nodes, look into Ray's log files, or wait longer ({setting})"
    )


def create_placement_group(
    resources_per_bundle: Dict[str, int], num_bundles: int, pg_timeout: int, pg_strategy: str
) -> Tuple[PlacementGroup, List[Dict[str, int]]]:
    """Reserves equal bundles of resources. Returns the placement group and its bundles.

    ``TimeoutError`` with the wanted and the free resources if the cluster does not have them within ``pg_timeout``
    seconds; nothing is reserved then.

    :param pg_strategy: ``PACK``, ``STRICT_SPREAD`` or another strategy of Ray
    """
    bundles = [dict(resources_per_bundle) for _ in range(num_bundles)]
    group = placement_group(bundles, strategy=pg_strategy)
    is_ready = False
    try:
        is_ready = group.wait(pg_timeout)
        if not is_ready:
            wanted = f"reserve {num_bundles} bundles of {resources_per_bundle} ({pg_strategy})"
            raise shortage(wanted, pg_timeout, PLACING_SETTING)
    finally:
        if not is_ready:
            remove_placement_group(group)
    return group, bundles


class BaseStrategy:
    """Creates the workers of a job."""

    placement_group: Optional[PlacementGroup] = None
    """The group that the workers are in, if there is one."""
    is_owner = False
    """Whether this object has created the group."""
    _resources: Dict[str, int]
    workers: List[Any]
    """The actors that were created, also if creating the others has failed."""

    def create_workers(self) -> List[Any]:
        """Creates the actors, and returns them. They may not have started yet."""
        raise NotImplementedError(f"{type(self).__name__} does not create workers")

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        raise NotImplementedError(f"{type(self).__name__} does not know its number of workers")

    @classmethod
    def get_node_workers(cls, workers: List[Any]) -> List[Any]:
        """The first worker of each node."""
        first: Dict[str, Any] = {}
        for worker, node_id in zip(workers, ray.get([worker.node_id.remote() for worker in workers])):
            first.setdefault(node_id, worker)
        return list(first.values())

    @property
    def demand(self) -> str:
        """The resources of a worker, and the bundles that they are taken from."""
        bundles = self.placement_group.bundle_specs if self.placement_group is not None else []
        return f"{self._resources} in the bundles {bundles}"

    def _create_actor(self, rank: int, resources: Dict[str, int], bundle: int) -> None:
        """Creates an actor that needs these resources, in this bundle of the group; -1: any bundle."""
        scheduling = PlacementGroupSchedulingStrategy(
            placement_group=self.placement_group,
            placement_group_bundle_index=bundle,
            placement_group_capture_child_tasks=False,
        )
        actor = ray.remote(BaseHorovodWorker).options(
            num_cpus=resources.get("CPU", 0), num_gpus=resources.get("GPU", 0), scheduling_strategy=scheduling
        )
        self.workers.append(actor.remote(world_rank=rank, world_size=self.num_workers))

    def shutdown(self) -> None:
        """Removes the placement group, if this object has created it."""
        group, self.placement_group = self.placement_group, None
        if group is not None and self.is_owner:
            remove_placement_group(group)


def resources_of(cpus: int, use_gpu: bool, gpus: Optional[int]) -> Dict[str, int]:
    return {"CPU": cpus, **({"GPU": gpus or 1} if use_gpu else {})}


class ColocatedStrategy(BaseStrategy):
    """The same number of workers on each of several nodes."""

    def __init__(
        self,
        *,
        settings: Any,
        num_hosts: int,
        num_workers_per_host: int,
        use_gpu: bool,
        cpus_per_worker: int,
        gpus_per_worker: Optional[int],
    ) -> None:
        self.settings = settings
        self.num_hosts = num_hosts
        self.num_workers_per_host = num_workers_per_host
        self._resources = resources_of(cpus_per_worker, use_gpu, gpus_per_worker)
        self.workers = []

    @property
    def num_workers(self) -> int:
        """The number of workers on all nodes."""
        return self.num_hosts * self.num_workers_per_host

    def create_workers(self) -> List[Any]:
        """Reserves a bundle on each node for the node's workers, and creates the actors."""
        per_host = {name: count * self.num_workers_per_host for name, count in self._resources.items()}
        timeout_s = self.settings.placement_group_timeout_s
        self.placement_group, _ = create_placement_group(per_host, self.num_hosts, timeout_s, "STRICT_SPREAD")
        self.is_owner = True
        for rank in range(self.num_workers):
            self._create_actor(rank, self._resources, rank // self.num_workers_per_host)
        return self.workers


class PGStrategy(BaseStrategy):
    """A number of workers on as few nodes as possible, or in a placement group that exists."""

    def __init__(
        self,
        *,
        settings: Any,
        num_workers: int,
        use_gpu: bool,
        cpus_per_worker: int,
        gpus_per_worker: Optional[int],
        placement_group: Optional[PlacementGroup] = None,
        force_create_placement_group: bool = False,
    ) -> None:
        """
        :param placement_group: the group for the workers; None: the current one of this task or actor, if it has one
        :param force_create_placement_group: whether to create a group also if there is a current one
        """
        self.settings = settings
        self._num_workers = num_workers
        self._resources = resources_of(cpus_per_worker, use_gpu, gpus_per_worker)
        if force_create_placement_group:
            self.placement_group = None
        else:
            self.placement_group = placement_group or ray.util.get_current_placement_group()
        self.workers = []

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return self._num_workers

    def resources_per_worker(self) -> Dict[str, int]:
        """The resources of each worker, by Ray's names."""
        return dict(self._resources)

    def create_workers(self) -> List[Any]:
        """Creates the actors in the group, which is created first if there is none. ``ValueError`` if an existing
        group is too small."""
        if self.placement_group is None:
            timeout_s = self.settings.placement_group_timeout_s
            self.placement_group, bundles = create_placement_group(
                self.resources_per_worker(), self.num_workers, timeout_s, "PACK"
            )
            self.is_owner = True
        else:
            bundles = self.placement_group.bundle_specs
            self._require_room(bundles)
        for rank in range(self.num_workers):
            self._create_actor(rank, self._resources, rank if self.is_owner else -1)
        return self.workers

    def _require_room(self, bundles: List[Dict[str, float]]) -> None:
        wanted = {name: count for name, count in self._resources.items() if count}
        if not wanted:
            return
        room = sum(int(min(bundle.get(name, 0) // count for name, count in wanted.items())) for bundle in bundles)
        if room < self.num_workers:
            raise ValueError(
                f"the current placement group has room for {room} workers of {wanted}, and {self.num_workers} are "
                f"asked for; its bundles are {bundles}. Make it larger, or create another one for this job "
                "(RayExecutor(use_current_placement_group=False))"
            )
