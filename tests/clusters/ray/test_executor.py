"""Jobs of fixed size on a cluster of a single node."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy
import pytest
import ray
from conftest import DEADLINE_S, SETTINGS, groups, processes
from horovod.ray import BaseHorovodWorker, RayExecutor, ray_logger
from horovod.ray.functions import sendable
from horovod.ray.strategy import PGStrategy, create_placement_group
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group, remove_placement_group

pytestmark = pytest.mark.usefixtures("nothing_is_left")
Start = Callable[..., RayExecutor]


def sums(first: float, second: float = 0) -> Tuple[int, int, float]:
    """The rank, the size, and the sum of a value of each rank."""
    import farandole.numpy as hvd

    hvd.init()
    total = hvd.allreduce(numpy.full(1, first + second + hvd.rank()), op=hvd.Sum)
    return hvd.rank(), hvd.size(), float(total[0])


def place() -> Dict[str, Any]:
    import farandole.numpy as hvd

    hvd.init()
    return {
        "ranks": (hvd.rank(), hvd.local_rank(), hvd.cross_rank()),
        "sizes": (hvd.size(), hvd.local_size(), hvd.cross_size()),
        "host": os.environ["HOROVOD_HOSTNAME"],
        "node": ray.get_runtime_context().get_node_id(),
        "process": os.getpid(),
    }


def test_results_come_in_the_order_of_the_ranks(two: RayExecutor) -> None:
    assert two.run(sums, args=[1], kwargs={"second": 2}) == [(0, 2, 7.0), (1, 2, 7.0)]
    assert ray.get(two.run_remote(sums, args=[2])) == [(0, 2, 5.0), (1, 2, 5.0)]
    assert two.execute_single(lambda _: os.getpid()) == two.run(os.getpid)[0]


def test_workers_know_their_places(two: RayExecutor) -> None:
    found = two.run(place)
    assert [each["ranks"] for each in found] == [(0, 0, 0), (1, 1, 0)]
    assert [each["sizes"] for each in found] == [(2, 2, 1), (2, 2, 1)]
    assert all(each["host"] == each["node"] for each in found)
    assert two.run(place) == found  # the processes survive between calls


class Model:
    """An object that each worker keeps."""

    def __init__(self, start: float, step: float = 1) -> None:
        self.weight, self.step = start, step

    def train(self) -> float:
        import farandole.numpy as hvd
        import numpy

        hvd.init()
        self.weight += float(hvd.allreduce(numpy.full(1, self.step * hvd.rank()), op=hvd.Sum)[0])
        return self.weight


@pytest.mark.slow
def test_an_executable_keeps_its_state_between_calls(start: Start) -> None:
    executor = start(Model, [10.0], {"step": 2}, {"OWN_VARIABLE": 5}, num_workers=2)
    assert executor.execute(lambda model: model.train()) == [12.0, 12.0]
    assert executor.execute(Model.train) == [14.0, 14.0]
    assert executor.execute_single(lambda model: model.weight) == 14.0
    assert executor.run(lambda: os.environ["OWN_VARIABLE"]) == ["5", "5"]
    executor.shutdown()
    executor.shutdown()  # does nothing
    executor.start(Model, [20.0])  # may be started again
    assert executor.execute(lambda model: model.train()) == [21.0, 21.0]


def test_callbacks_get_logged_values_while_the_job_runs(two: RayExecutor) -> None:
    def log(path: str) -> None:
        import time

        import farandole.numpy as hvd

        hvd.init()
        for step in range(3):
            ray_logger.log({"rank": hvd.rank(), "step": step})
        while not os.path.exists(path):  # the callback makes the file
            time.sleep(0.01)

    path = Path(os.environ["XDG_STATE_HOME"], "seen")
    seen: List[Dict[str, int]] = []

    def see(value: Dict[str, int]) -> None:
        seen.append(value)
        if len(seen) == 6:
            path.touch()

    two.run(log, [str(path)], callbacks=[see])
    assert sorted(seen, key=lambda value: (value["rank"], value["step"])) == [
        {"rank": rank, "step": step} for rank in range(2) for step in range(3)
    ]
    two.execute(lambda _: ray_logger.log("nobody listens"))
    assert len(seen) == 6


def test_an_exception_of_a_callback_reaches_the_caller(two: RayExecutor) -> None:
    def refuse(value: Any) -> None:
        raise LookupError(f"no place for {value}")

    with pytest.raises(LookupError, match="no place for 1"):
        two.run(lambda: ray_logger.log(1), callbacks=[refuse])
    assert [rank for rank, _, _ in two.run(sums, [0])] == [0, 1]


def test_the_secret_is_in_no_variable_and_no_command_line(two: RayExecutor, cluster: Cluster) -> None:
    def secret() -> Tuple[str, int]:
        path = Path(os.environ["FARANDOLE_SECRET_FILE"])
        return path.read_text(), path.stat().st_mode & 0o777

    two.run(sums, [1])
    (text, mode), other = two.run(secret)
    assert other == (text, mode)
    assert len(text) == 64
    assert mode == 0o600
    variables = two.execute(lambda _: dict(os.environ))
    assert all(text not in value for each in variables for value in each.values())
    lines = processes("")
    assert len(lines) > 5
    assert all(text not in line for line in lines)
    for line in processes("ray::", "farandole", "raylet"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # Ray ends idle processes
            assert text.encode() not in Path(f"/proc/{line.split()[0]}/environ").read_bytes()
    logs = Path(cluster.head_node.get_logs_dir_path())
    assert all(text.encode() not in path.read_bytes() for path in logs.rglob("*") if path.is_file())


@pytest.mark.slow
def test_each_worker_of_a_node_sees_all_gpus_of_the_job(start: Start) -> None:
    executor = start(num_workers=2, use_gpu=True, gpus_per_worker=2)
    own = [ray.get(worker.get_gpu_ids.remote()) for worker in executor.adapter.workers]
    visible = executor.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"])
    assert visible == ["0,1,2,3"] * 2
    assert sorted(own[0] + own[1]) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_current_placement_group_is_used() -> None:
    group = placement_group([{"CPU": 1}, {"CPU": 1}, {"CPU": 1}])
    assert group.wait(DEADLINE_S)
    before = len(groups())

    @ray.remote(num_cpus=1)
    def inside() -> Tuple[List[Any], int, int]:
        executor = RayExecutor(SETTINGS, num_workers=2)
        executor.start()
        result = executor.run(sums, [1])
        count = len(groups())
        executor.shutdown()
        other = RayExecutor(SETTINGS, num_workers=1, use_current_placement_group=False)
        other.start()
        new = len(groups())
        other.shutdown()
        try:
            RayExecutor(SETTINGS, num_workers=4).start()
        except ValueError as problem:
            assert "has room for 3 workers of {'CPU': 1}, and 4 are asked for" in str(problem)
            return result, count, new
        raise AssertionError("a group that is too small was accepted")

    strategy = ray.util.scheduling_strategies.PlacementGroupSchedulingStrategy(
        placement_group=group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
    )
    result, count, new = ray.get(inside.options(scheduling_strategy=strategy).remote())
    remove_placement_group(group)
    assert result == [(0, 2, 3.0), (1, 2, 3.0)]
    assert (count, new) == (before, before + 1)


@pytest.mark.slow
def test_a_placement_group_has_the_bundles_that_were_asked_for() -> None:
    group, bundles = create_placement_group({"CPU": 2}, 2, 30, "PACK")
    try:
        assert bundles == [{"CPU": 2}, {"CPU": 2}]
        assert group.bundle_specs == [{"CPU": 2.0}, {"CPU": 2.0}]
        assert ray.available_resources().get("CPU", 0) == 0
    finally:
        remove_placement_group(group)
    strategy = PGStrategy(settings=SETTINGS, num_workers=2, use_gpu=True, cpus_per_worker=1, gpus_per_worker=None)
    assert strategy.resources_per_worker() == {"CPU": 1, "GPU": 1}
    workers = strategy.create_workers()
    try:
        assert len(strategy.get_node_workers(workers)) == 1
    finally:
        for worker in workers:
            ray.kill(worker)
        strategy.shutdown()


@pytest.mark.slow
def test_a_worker_can_be_used_by_itself() -> None:
    worker = ray.remote(BaseHorovodWorker).options(num_cpus=1).remote(world_rank=1, world_size=3)
    ray.get(worker.update_env_vars.remote({"NUMBER": 5}))
    ray.get(worker.start_executable.remote(Model, [3.0]))
    variables = ray.get(worker.env_vars.remote())
    assert [variables[name] for name in ("HOROVOD_RANK", "HOROVOD_SIZE", "NUMBER")] == ["1", "3", "5"]
    assert variables["HOROVOD_HOSTNAME"] == ray.get(worker.node_id.remote()) == ray.nodes()[0]["NodeID"]
    assert ray.get(worker.hostname.remote()) == os.uname().nodename
    assert ray.get(worker.execute.remote(lambda model: model.weight)) == 3.0
    ray.kill(worker)


def test_large_functions_and_references_arrive(two: RayExecutor) -> None:
    table = numpy.arange(1 << 20)
    reference = ray.put(table)
    assert two.run(lambda: int(table.sum())) == [int(table.sum())] * 2
    assert two.run(lambda first: int(ray.get(reference)[-1]) + first, args=[1]) == [1 << 20] * 2
    assert isinstance(sendable(lambda _: 5), bytes)
    assert isinstance(sendable(lambda _: table), ray.ObjectRef)
    assert isinstance(sendable(lambda _: reference), ray.ObjectRef)


@pytest.mark.slow
def test_two_executors_run_side_by_side(start: Start) -> None:
    executors = [start(num_workers=2) for _ in range(2)]
    results: Dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda number=number: results.update({number: executors[number].run(sums, [number])}))
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert results == {0: [(0, 2, 1.0), (1, 2, 1.0)], 1: [(0, 2, 3.0), (1, 2, 3.0)]}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"num_workers": 2}, {"min_workers": 2, "max_workers": 2}])
def test_variables_of_the_workers_are_settings_of_the_job(
    start: Start, cluster: Cluster, sizes: Dict[str, int]
) -> None:
    variables = {"HOROVOD_CACHE_CAPACITY": 77, "HOROVOD_CPU_OPERATIONS": "gloo"}
    executor = start(None, None, None, variables, **sizes)
    assert executor.run(sums, [1]) == [(0, 2, 3.0), (1, 2, 3.0)]
    assert executor.run(lambda: os.environ["HOROVOD_CACHE_CAPACITY"]) == ["77", "77"]
    logs = Path(cluster.head_node.get_logs_dir_path())
    refused = "was set here and is not used"  # because the job has another value, or none
    assert [path for path in logs.glob("worker-*") if refused in path.read_text(errors="replace")] == []
