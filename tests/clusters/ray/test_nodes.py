"""Jobs on several nodes, which have the same host name: they come, are lost, and are drained."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Iterator, List, Tuple

import numpy
import pytest
import ray
from conftest import STORE_BYTES, wait_until
from horovod.ray import RayExecutor, ray_logger
from horovod.ray.elastic_v2 import RayHostDiscovery
from horovod.runner.elastic.discovery import FixedHosts
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.usefixtures("nothing_is_left")
Start = Callable[..., RayExecutor]


class Nodes:
    """Adds nodes to the cluster, and removes them at the end."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._added: List[Any] = []

    def add(self, name: str, cpus: int, **options: Any) -> str:
        """Adds a node with a resource ``node:NAME``, and returns its id."""
        resources = {f"node:{name}": 100}
        node = self._cluster.add_node(
            num_cpus=cpus, resources=resources, object_store_memory=STORE_BYTES, include_dashboard=False, **options
        )
        self._added.append(node)
        return str(node.node_id)

    def remove(self) -> None:
        """Removes the node that was added last, with its processes."""
        self._cluster.remove_node(self._added.pop())

    def remove_all(self) -> None:
        while self._added:
            self.remove()


@pytest.fixture
def extra(cluster: Cluster, nothing_is_left: None) -> Iterator[Nodes]:
    """Nodes for a single test."""
    nodes = Nodes(cluster)
    yield nodes
    nodes.remove_all()


def place() -> Tuple[Any, ...]:
    import farandole.numpy as hvd

    hvd.init()
    node = ray.get_runtime_context().get_node_id()
    assert os.environ["HOROVOD_HOSTNAME"] == node
    return hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size(), node


def test_equal_numbers_of_workers_are_spread_over_nodes(start: Start, extra: Nodes) -> None:
    extra.add("host-4", 4)
    found = start(num_hosts=2, num_workers_per_host=2).run(place)
    assert [each[:5] for each in found] == [(0, 0, 2, 0, 2), (1, 1, 2, 0, 2), (2, 0, 2, 1, 2), (3, 1, 2, 1, 2)]
    first, second = found[0][5], found[2][5]
    assert [each[5] for each in found] == [first, first, second, second]
    assert first != second


@pytest.mark.slow
def test_workers_of_a_node_have_adjacent_ranks(start: Start, extra: Nodes) -> None:
    extra.add("host-4", 4)
    found = start(num_workers=5).run(place)  # neither node has so many CPUs free
    nodes = [each[5] for each in found]
    assert len(set(nodes)) == 2
    assert nodes == sorted(nodes, key=nodes.index)
    for node in set(nodes):
        local_ranks = [each[1] for each in found if each[5] == node]
        assert local_ranks == list(range(nodes.count(node)))
        assert {each[2] for each in found if each[5] == node} == {nodes.count(node)}


@pytest.mark.slow
def test_a_discovery_sees_nodes_that_come_and_go(extra: Nodes) -> None:
    discovery = RayHostDiscovery(cpus_per_worker=2)
    address = ray.nodes()[0]["NodeManagerAddress"]  # all nodes of this machine have it
    before = discovery.find_available_hosts_and_slots()[address]
    node_id = extra.add("host-5", 5)
    assert discovery.find_available_hosts_and_slots() == {address: before + 2}
    drain(node_id)
    wait_until(
        lambda: discovery.find_available_hosts_and_slots() == {address: before}, lambda: "the node is still offered"
    )


def drain(node_id: str) -> None:
    """Announces that a node will be removed."""
    from ray._raylet import GcsClient
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    deadline_ms = int((time.time() + 600) * 1000)
    is_accepted, message = GcsClient(address=ray.get_runtime_context().gcs_address).drain_node(
        node_id, reason, "the test drains this node", deadline_ms
    )
    assert is_accepted, message


def wait_on_each_node(step: str) -> None:
    import farandole.numpy as hvd

    hvd.init()
    ray_logger.log((step, ray.get_runtime_context().get_node_id()))
    if hvd.local_size() != hvd.size():
        threading.Event().wait()


@pytest.mark.slow
def test_a_node_that_is_lost_is_named(start: Start, extra: Nodes) -> None:
    extra.add("host-5", 2)
    executor = start(num_hosts=2)

    def remove(_: Any) -> None:
        seen.append(1)
        if len(seen) == 2:
            extra.remove()

    seen: List[int] = []
    with pytest.raises(RuntimeError) as caught:
        executor.run(wait_on_each_node, ["fixed"], callbacks=[remove])
    text = str(caught.value)
    places = [str(place) for place in executor.adapter._places]
    assert any(text.startswith(f"{place} died, so that the job has ended: ") for place in places), text


@pytest.mark.slow
def test_an_elastic_job_continues_when_a_node_is_lost(extra: Nodes) -> None:
    extra.add("host-5", 2)
    settings = RayExecutor.create_settings()
    settings.discovery = FixedHosts({"host-1": 1, "host-5": 1})
    executor = RayExecutor(settings, min_workers=1, max_workers=2, override_discovery=False)
    executor.start()

    def train() -> str:
        import farandole.numpy as hvd

        hvd.init()

        @hvd.elastic.run
        def loop(state: Any) -> None:
            while not (state.was_two and hvd.size() == 1):
                hvd.allreduce(numpy.ones(1))
                state.was_two = state.was_two or hvd.size() == 2
                state.commit()
                ray_logger.log(hvd.size())

        loop(hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, was_two=False))
        return os.environ["HOROVOD_HOSTNAME"]

    removed: List[int] = []

    def remove(size: int) -> None:
        if size == 2 and not removed:
            removed.append(size)
            extra.remove()

    assert executor.run(train, callbacks=[remove]) == ["host-1"]
    assert removed == [2]


@pytest.mark.slow
def test_workers_see_gpus_among_those_of_the_raylet(start: Start, extra: Nodes) -> None:
    extra.add("host-7", 2, num_gpus=2, env_vars={"CUDA_VISIBLE_DEVICES": "5,7"})

    def visible() -> str:
        return os.environ["CUDA_VISIBLE_DEVICES"]

    fixed = start(num_hosts=2, num_workers_per_host=2, use_gpu=True)
    assert sorted(fixed.run(visible)) == ["0,1"] * 2 + ["5,7"] * 2
    fixed.shutdown()
    settings = RayExecutor.create_settings()
    settings.discovery = FixedHosts({"host-7": 1})
    executor = RayExecutor(settings, min_workers=1, max_workers=1, use_gpu=True, override_discovery=False)
    executor.start()
    assert executor.run(visible) == ["5,7"]


@pytest.mark.slow
def test_a_worker_leaves_a_node_that_is_drained_at_a_commit(extra: Nodes) -> None:
    node_id = extra.add("host-6", 4, node_ip_address="127.0.0.2")  # a host of its own for the discovery
    executor = RayExecutor(RayExecutor.create_settings(), min_workers=1, max_workers=2, cpus_per_worker=4)
    executor.start()

    def train() -> Tuple[str, List[int]]:
        import farandole.numpy as hvd

        hvd.init()
        steps: List[int] = []

        @hvd.elastic.run
        def loop(state: Any) -> None:
            while not (state.was_two and hvd.size() == 1):
                hvd.allreduce(numpy.ones(1))
                state.was_two = state.was_two or hvd.size() == 2
                state.step += 1
                steps.append(state.step)
                state.commit()
                ray_logger.log(hvd.size())

        loop(hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, was_two=False, step=0))
        return ray.get_runtime_context().get_node_id(), steps

    drained: List[str] = []

    def see(size: int) -> None:
        if size == 2 and not drained:
            drained.append(node_id)
            drain(node_id)

    ((remaining, steps),) = executor.run(train, callbacks=[see])  # the one that has left has no result
    assert drained == [node_id]
    assert remaining == ray.nodes()[0]["NodeID"] != node_id
    assert steps == list(range(steps[0], steps[0] + len(steps)))  # no step was lost
