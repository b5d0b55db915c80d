"""Places and failures of workers, network interfaces and the nodes that a discovery finds, without a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, Dict, List, Optional

import pytest
import ray
from conftest import DEADLINE_S
from farandole.common.exceptions import HorovodInternalError
from horovod.ray import elastic, elastic_job, elastic_v2, utils
from horovod.ray.errors import Failure, Place
from horovod.ray.ranks import adjacent
from horovod.ray.runner import Coordinator, MiniSettings
from horovod.ray.worker import Node


def place(cross_rank: int, cross_size: int, local_rank: int, local_size: int) -> Dict[str, int]:
    return {
        "HOROVOD_CROSS_RANK": cross_rank,
        "HOROVOD_CROSS_SIZE": cross_size,
        "HOROVOD_LOCAL_RANK": local_rank,
        "HOROVOD_LOCAL_SIZE": local_size,
    }


def registered(*nodes: str) -> Coordinator:
    """With a worker on each of these nodes, in the order of their ranks."""
    coordinator = Coordinator(MiniSettings())
    for rank, node in enumerate(nodes):
        coordinator.register(hostname="same", node_id=node, world_rank=rank)
    return coordinator


def test_nodes_with_the_same_host_name_are_distinguished() -> None:
    coordinator = registered("a", "a", "b", "b")
    assert coordinator.world_size == 4
    assert coordinator.hostnames == {"same"}
    assert coordinator.node_id_string == "a:2,b:2"
    assert coordinator.finalize_registration() == {
        0: place(0, 2, 0, 2),
        1: place(0, 2, 1, 2),
        2: place(1, 2, 0, 2),
        3: place(1, 2, 1, 2),
    }


def test_nodes_may_have_different_numbers_of_workers() -> None:
    assert registered("a", "b", "b").finalize_registration() == {
        0: place(0, 2, 0, 1),
        1: place(1, 2, 0, 2),
        2: place(0, 1, 1, 2),
    }


def test_ranks_of_a_node_need_not_be_adjacent() -> None:
    assert registered("a", "b", "a").finalize_registration() == {
        0: place(0, 2, 0, 2),
        1: place(1, 2, 0, 1),
        2: place(0, 1, 1, 2),
    }


def test_nodes_are_numbered_in_the_order_of_their_ranks_however_workers_register() -> None:
    coordinator = Coordinator(MiniSettings())
    for rank, node in ((2, "b"), (1, "a"), (3, "b"), (0, "a")):
        coordinator.register(hostname="same", node_id=node, world_rank=rank)
    assert coordinator.finalize_registration() == registered("a", "a", "b", "b").finalize_registration()


def test_workers_are_ordered_such_that_those_of_a_node_are_adjacent() -> None:
    nodes = [Node(name, "same", 0, (), ()) for name in ("b", "a", "b", "c", "a")]
    assert adjacent(nodes) == [0, 2, 1, 4, 3]


def test_the_variables_of_a_rendezvous_are_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "127.0.0.1")
    coordinator = registered("a", "a")
    try:
        variables = coordinator.establish_rendezvous()
        assert len(variables.pop("FARANDOLE_SECRET")) == 64
        assert os.environ["FARANDOLE_SECRET_FILE"].startswith("/proc/")  # nothing is left when the process is killed
        assert int(variables.pop("HOROVOD_GLOO_RENDEZVOUS_PORT")) > 0
        assert variables == {
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_CONTROLLER": "gloo",
            "HOROVOD_CPU_OPERATIONS": "gloo",
        }
    finally:
        coordinator.close()
    assert "FARANDOLE_SECRET_FILE" not in os.environ


class Remote:
    """A worker whose ``execute`` runs here, and finds these interfaces."""

    def __init__(self, interfaces: Dict[str, bool]) -> None:
        self.execute = SimpleNamespace(remote=lambda function: interfaces)


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "get", lambda values: values)


@pytest.mark.usefixtures("no_cluster")
def test_common_interfaces_are_found() -> None:
    workers: List[Any] = [Remote({"lo": True, "eth0": False, "ib0": False}), Remote({"lo": True, "ib0": False})]
    assert utils.detect_nics(MiniSettings(), ["a", "b"], workers) == ["ib0"]
    assert utils.detect_nics(MiniSettings(), ["a"], workers[1:]) == ["ib0", "lo"]
    assert utils.detect_nics(MiniSettings(nics=["eth1", "eth0"]), ["a", "b"], workers) == ["eth0", "eth1"]
    assert "lo" in utils.detect_nics(MiniSettings(), ["a"])
    assert utils.nics_to_env_var(["eth0", "eth1"]) == {
        "HOROVOD_GLOO_IFACE": "eth0",
        "NCCL_SOCKET_IFNAME": "eth0,eth1",
    }


@pytest.mark.usefixtures("no_cluster")
def test_nodes_without_a_common_interface_are_refused() -> None:
    workers: List[Any] = [Remote({"lo": True, "eth0": False}), Remote({"lo": True, "ib0": False})]
    with pytest.raises(RuntimeError, match=r"a: eth0; b: ib0\); name the interfaces in the settings"):
        utils.detect_nics(MiniSettings(), ["a", "b"], workers)


def node(address: str, alive: bool = True, **resources: float) -> Dict[str, Any]:
    return {"NodeID": f"id of {address}", "Alive": alive, "NodeManagerAddress": address, "Resources": resources}


NODES = [
    node("10.0.0.1", CPU=5, GPU=1),
    node("10.0.0.2", CPU=4),
    node("10.0.0.3", CPU=4, GPU=8),
    node("10.0.0.4", alive=False, CPU=4),
    node("10.0.0.5", CPU=1, GPU=4),
    node("10.0.0.6", CPU=8, GPU=8),
]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with these nodes, of which the last is being drained."""
    from ray._private.state import state

    monkeypatch.setattr(ray, "nodes", lambda: NODES)
    monkeypatch.setattr(state, "get_draining_nodes", lambda: {"id of 10.0.0.6": 0})


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("module", [elastic, elastic_v2])
def test_slots_follow_cpus_and_gpus_of_nodes_that_are_alive(module: Any) -> None:
    assert module.RayHostDiscovery(False, 2).find_available_hosts_and_slots() == {
        "10.0.0.1": 2,
        "10.0.0.2": 2,
        "10.0.0.3": 2,
    }
    assert module.RayHostDiscovery(True, 1, 2).find_available_hosts_and_slots() == {"10.0.0.3": 4, "10.0.0.5": 1}


@pytest.mark.usefixtures("nodes")
@pytest.mark.parametrize("module", [elastic, elastic_v2])
def test_a_test_discovery_changes_nodes_within_its_limits(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    discovery = module.TestDiscovery(2, 3, change_frequency_s=0, verbose=True)
    assert isinstance(discovery, module.RayHostDiscovery)
    everything = discovery.find_available_hosts_and_slots()
    assert len(everything) == 4
    counts = [len(discovery.find_available_hosts_and_slots()) for _ in range(40)]
    assert counts[:2] == [3, 2]  # it first comes down to the greatest number
    assert set(counts) == {2, 3}
    assert "TestDiscovery: node 10.0.0." in capsys.readouterr().out


@pytest.mark.usefixtures("nodes")
def test_a_test_discovery_removes_and_returns_nodes() -> None:
    discovery = elastic.TestDiscovery(0, 4, change_frequency_s=1000, verbose=False)
    hosts = dict(discovery.find_available_hosts_and_slots())
    for count in (3, 2, 1, 0, 0):
        discovery.remove_host(hosts)
        assert len(discovery.find_available_hosts_and_slots()) == count
    for count in (1, 2, 3, 4, 4):
        discovery.add_host(hosts)
        assert len(discovery.find_available_hosts_and_slots()) == count


def test_the_environment_of_a_raylet_need_not_be_utf_8() -> None:
    program = "from farandole.ray.worker import _gpus_of_raylet; print(_gpus_of_raylet())"
    environment = {**os.environb, b"CUDA_VISIBLE_DEVICES": b"5,7", b"FOLDER": b"caf\xe9"}
    command = [sys.executable, "-c", program]
    assert subprocess.check_output(command, env=environment, text=True, timeout=DEADLINE_S) == "('5', '7')\n"


@pytest.mark.parametrize(("at", "cause"), [(100.0, TimeoutError), (40.0, ValueError)])
def test_a_failure_that_an_elastic_job_has_survived_is_not_its_cause(at: float, cause: type) -> None:
    lost = HorovodInternalError("lost rank 0")
    lost.consequence = True
    actors = elastic_job._Actors(elastic_job.ElasticJob(None, 1), print, "", None)
    actors._failures = [
        Failure(Place(3), TimeoutError("no room"), at),
        Failure(Place(0, Node("a", "same", 0, (), ())), ValueError("no such data set"), 100.0),
        Failure(Place(1), lost, 200.0),
    ]
    problem = actors.error("the job has failed")
    assert type(problem.__cause__) is cause
    assert "no room" in str(problem)  # the job may have waited in vain since then


def test_a_lost_cluster_neither_hides_the_error_of_a_clients_job_nor_keeps_its_actor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def get(_: Any) -> None:
        raise LookupError("no such data set")

    def wait(_: Any, timeout: Optional[float] = None) -> None:
        waits.append(timeout)
        raise ConnectionError("the cluster is lost")

    killed: List[Any] = []
    waits: List[Optional[float]] = []
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "wait", wait)
    monkeypatch.setattr(ray, "kill", killed.append)
    call = SimpleNamespace(remote=lambda *_: None)
    run = elastic_job.ClusterRun.__new__(elastic_job.ClusterRun)
    run._run = SimpleNamespace(results=call, stop=call)
    with pytest.raises(LookupError):
        run.results(print, None)
    assert killed == [run._run]
    assert waits == [elastic_job.ENDING_S]
