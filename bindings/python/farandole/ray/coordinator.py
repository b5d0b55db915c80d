"""The places of workers on nodes, and the rendezvous at which they meet."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any, Dict, List, Optional, Sequence, Set

import ray

from farandole.ray.environment import settings_in_environment
from farandole.ray.utils import nics_to_env_var
from farandole.runner.functions import job_secret
from farandole.runner.http.http_server import RendezvousServer
from farandole.runner.util import network

_CPU_OPERATIONS = "HOROVOD_CPU_OPERATIONS"


class Rendezvous:
    """A running rendezvous of a job of fixed size, as a child of this process, with the secret that the environment
    names, or a new one."""

    def __init__(self, size: int, nics: Optional[Sequence[str]], verbose: int = 0) -> None:
        address = network.get_driver_ip(nics) if nics else ray.util.get_node_ip_address()
        self._server = RendezvousServer(verbose)
        self._server.address = address
        operations = os.environ.get(_CPU_OPERATIONS, "gloo")
        try:
            port = self._server.start()
            self.secret = job_secret.read_secret(self._server.secret_file)
            with settings_in_environment({_CPU_OPERATIONS: operations}):
                self._server.init([None] * size)
        except BaseException:
            self._server.stop()
            raise
        self.variables: Dict[str, str] = {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": address,
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
            "HOROVOD_CONTROLLER": "gloo",
            _CPU_OPERATIONS: operations,
            **(nics_to_env_var(sorted(nics)) if nics else {}),
        }

    def close(self) -> None:
        """Ends the rendezvous."""
        self._server.stop()


class Coordinator:
    """Collects the nodes of all workers, and computes their places. Ray Train's Horovod trainer calls it, too."""

    def __init__(self, settings: Any) -> None:
        """
        :param settings: a ``MiniSettings``, or an object with its attributes
        """
        self.settings = settings
        self._hostnames: Set[str] = set()
        self._ranks_of_nodes: Dict[str, List[int]] = defaultdict(list)
        self._rendezvous: Optional[Rendezvous] = None

    @property
    def world_size(self) -> int:
        """The number of workers that have registered."""
        return sum(len(ranks) for ranks in self._ranks_of_nodes.values())

    @property
    def hostnames(self) -> Set[str]:
        """The host names of all nodes."""
        return self._hostnames

    @property
    def node_id_string(self) -> str:
        """Node ids and their numbers of workers, as ``id:2,id:2``."""
        return ",".join(f"{node_id}:{len(ranks)}" for node_id, ranks in self._ranks_of_nodes.items())

    def register(self, hostname: str, node_id: str, world_rank: int) -> None:
        """Adds a worker."""
        self._hostnames.add(hostname)
        self._ranks_of_nodes[node_id].append(world_rank)

    def finalize_registration(self) -> Dict[int, Dict[str, int]]:
        """The place of each worker by rank: HOROVOD_CROSS_RANK, HOROVOD_CROSS_SIZE, HOROVOD_LOCAL_RANK and
        HOROVOD_LOCAL_SIZE. Nodes are numbered in the order of their lowest ranks."""
        nodes = sorted(sorted(ranks) for ranks in self._ranks_of_nodes.values())
        places: Dict[int, Dict[str, int]] = {}
        for ranks in nodes:
            for local_rank, rank in enumerate(ranks):
                peers = [others[local_rank] for others in nodes if len(others) > local_rank]
                places[rank] = {
                    "HOROVOD_CROSS_RANK": peers.index(rank),
                    "HOROVOD_CROSS_SIZE": len(peers),
                    "HOROVOD_LOCAL_RANK": local_rank,
                    "HOROVOD_LOCAL_SIZE": len(ranks),
                }
        return {rank: places[rank] for rank in sorted(places)}

    def establish_rendezvous(self) -> Dict[str, str]:
        """Starts the rendezvous on this node. Returns the variables that workers need, among them the job's secret,
        which ``init()`` removes from a worker's environment. The rendezvous ends with this process."""
        self._rendezvous = Rendezvous(self.world_size, self.settings.nics, self.settings.verbose)
        return {**self._rendezvous.variables, job_secret.TEXT_VARIABLE: self._rendezvous.secret}

    def close(self) -> None:
        """Ends the rendezvous, if this object has started it."""
        rendezvous, self._rendezvous = self._rendezvous, None
        if rendezvous is not None:
            rendezvous.close()
