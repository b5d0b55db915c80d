"""Helpers for code that starts workers on Ray: network interfaces, and one call on many actors."""

from __future__ import annotations

import socket
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

import ray

from farandole.runner.util import network


def _interfaces_of_node(_executable: Any = None) -> Dict[str, bool]:
    """The interfaces of this node that have an IPv4 address, and whether it is 127.0.0.1."""
    loopback = network.get_local_intfs()
    return {name: name in loopback for _, name in socket.if_nameindex() if network.get_local_intfs(name)}


def detect_nics(settings: Any, all_host_names: List[str], node_workers: Optional[List[Any]] = None) -> List[str]:
    """The interfaces that the nodes have in common: those of the settings, if they name some.

    :param all_host_names: of the nodes; on a single node, the loopback interface is one of the interfaces
    :param node_workers: a worker of each node, whose ``execute`` is called; None: this process alone is asked
    """
    if settings.nics:
        return sorted(settings.nics)
    found = map_blocking(lambda worker: worker.execute.remote(_interfaces_of_node), node_workers or [])
    found = found or [_interfaces_of_node()]
    is_single = len(found) == 1
    names: List[Set[str]] = [
        {name for name, is_loopback in interfaces.items() if is_single or not is_loopback} for interfaces in found
    ]
    common = set.intersection(*names)
    if not common:
        nodes = "; ".join(
            f"{host}: {', '.join(sorted(found_there))}" for host, found_there in zip(all_host_names, names)
        )
        raise RuntimeError(
            f"the nodes have no network interface of the same name ({nodes}); name the interfaces in the settings, as "
            "in create_settings(nics=['eth0'])"
        )
    return sorted(common)


def nics_to_env_var(nics: Iterable[str]) -> Dict[str, str]:
    """The variables that tell workers their interfaces."""
    names = list(nics)
    return {"HOROVOD_GLOO_IFACE": names[0], "NCCL_SOCKET_IFNAME": ",".join(names)}


def is_client() -> bool:
    """Whether this process is connected to the cluster by Ray Client (``ray://``), and so is not part of it."""
    return bool(ray.util.client.ray.is_connected())


def map_blocking(fn: Callable[[Any], Any], collection: Iterable[Any]) -> List[Any]:
    """Calls a function that returns an object reference for each element, and waits for all results."""
    return ray.get([fn(each) for each in collection])
