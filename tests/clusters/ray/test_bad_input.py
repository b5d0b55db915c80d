"""Wrong calls of the executors: the message names the parameters and the remedy."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Type

import numpy
import pytest
import ray
from conftest import DEADLINE_S, SETTINGS, Account
from horovod.ray import RayExecutor
from horovod.ray.elastic import ElasticRayExecutor
from horovod.runner.common.util.timeout import TimeoutException
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

Start = Callable[..., RayExecutor]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"min_workers": 1, "num_workers": 2},
            ValueError,
            r"min_workers \(1\) and num_workers \(2\) exclude each other",
        ),
        ({"min_workers": 1, "num_hosts": 2}, ValueError, r"min_workers \(1\) and num_hosts \(2\) exclude each other"),
        ({"max_workers": 2}, ValueError, "max_workers is 2, but min_workers is not set"),
        ({"max_workers": 2, "num_workers": 1}, ValueError, "max_workers is 2, but min_workers is not set"),
        ({"reset_limit": 0, "num_workers": 1}, ValueError, "reset_limit is 0, but min_workers is not set"),
        ({"cooldown_range": [1, 2], "num_hosts": 1}, ValueError, r"cooldown_range is \[1, 2\], but min_workers is not"),
        ({"elastic_timeout": 6, "num_workers": 1}, ValueError, "elastic_timeout is 6, but min_workers is not set"),
        (
            {"override_discovery": False, "num_workers": 1},
            ValueError,
            "override_discovery is False, but min_workers is not set",
        ),
        ({"min_workers": 3, "max_workers": 2}, ValueError, r"max_workers \(2\) is less than min_workers \(3\)"),
        ({"min_workers": 0}, ValueError, "min_workers is 0, and must be at least 1"),
        ({"num_workers": 1, "gpus_per_worker": 1}, ValueError, "gpus_per_worker is 1, but use_gpu is not set"),
        (
            {"num_workers": 1, "gpus_per_worker": 0, "use_gpu": True},
            ValueError,
            "gpus_per_worker is 0, and must be at least 1 with use_gpu=True",
        ),
        ({"min_workers": 1, "gpus_per_worker": 1}, ValueError, "gpus_per_worker is 1, but use_gpu is not set"),
        (
            {"num_workers": 1, "num_hosts": 2},
            AssertionError,
            r"num_workers \(1\) and num_hosts \(2\) exclude each other: give num_workers, or num_hosts with",
        ),
        ({}, ValueError, "the size of the job is missing: give num_workers, num_hosts, or min_workers"),
        ({"num_workers": 0}, ValueError, "num_workers is 0, and must be at least 1"),
        (
            {"min_workers": 1, "override_discovery": False},
            ValueError,
            "override_discovery is False, but settings.discovery is not set",
        ),
    ],
)
def test_contradictions_are_refused_at_construction(
    options: Dict[str, Any], kind: Type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        RayExecutor(RayExecutor.create_settings(), **options)


def test_contradictions_of_the_older_executor_are_refused() -> None:
    settings = ElasticRayExecutor.create_settings()
    with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match="gpus_per_slot is 1, and use_gpu is False"):
        ElasticRayExecutor(settings, gpus_per_slot=1)


@pytest.mark.parametrize("options", [{"num_workers": 2}, {"min_workers": 2}])
@pytest.mark.parametrize("name", ["run", "execute"])
def test_calls_before_start_say_so(options: Dict[str, int], name: str) -> None:
    executor = RayExecutor(SETTINGS, **options)
    with pytest.raises(RuntimeError, match=rf"{name}\(\).* call start\(\) first"):
        getattr(executor, name)(print)
    executor.shutdown()  # does nothing


@pytest.mark.slow
def test_calls_after_shutdown_and_a_second_start_say_what_to_call(start: Start) -> None:
    two = start(num_workers=2)
    with pytest.raises(RuntimeError, match=r"start\(\) was called twice: .* call shutdown\(\) first"):
        two.start()
    with pytest.raises(NotImplementedError, match=r"use run\(\)"):
        two.adapter.run_remote(print, callbacks=[print])
    two.shutdown()
    for call in (two.run, two.run_remote, two.execute, two.execute_single):
        with pytest.raises(RuntimeError, match=rf"{call.__name__}\(\) needs workers, .* call start\(\) first"):
            call(print)


def test_an_elastic_executor_has_neither_references_nor_a_single_rank() -> None:
    executor = RayExecutor(SETTINGS, min_workers=1)
    executor.start()
    with pytest.raises(NotImplementedError, match=r"run_remote\(\) is not possible in an elastic job.* call run\(\)"):
        executor.run_remote(print)
    with pytest.raises(NotImplementedError, match=r"execute_single\(\) is not possible in an elastic job"):
        executor.execute_single(print)
    with pytest.raises(RuntimeError, match=r"start\(\) was called twice"):
        executor.start()
    executor.shutdown()
    with pytest.raises(RuntimeError, match=r"after shutdown\(\): call start\(\) first"):
        executor.run(print)


def refusal(*, settings: Any = None, **options: Any) -> str:
    """The message with which the cluster refuses such a job after a second."""
    limited = RayExecutor.create_settings(placement_group_timeout_s=1)
    with pytest.raises(TimeoutError) as caught:
        RayExecutor(limited, **options).start()
    return str(caught.value)


@pytest.mark.usefixtures("nothing_is_left")
def test_more_workers_than_the_cluster_can_have_time_out() -> None:
    node = f"node {ray.nodes()[0]['NodeID']} ({ray.nodes()[0]['NodeManagerHostname']})"
    message = refusal(num_workers=7)
    assert message.startswith("the cluster did not reserve 7 bundles of {'CPU': 1} (PACK) within 1 s; it has ")
    assert f"it has {node}: 4 of 6 CPU free, 4 of 4 GPU free. Ask for fewer workers" in message
    message = refusal(num_hosts=2, num_workers_per_host=2, cpus_per_worker=2, use_gpu=True)
    assert "2 bundles of {'CPU': 4, 'GPU': 2} (STRICT_SPREAD) within 1 s" in message


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left")
def test_too_few_slots_time_out() -> None:
    executor = RayExecutor(RayExecutor.create_settings(), min_workers=7, elastic_timeout=15)
    executor.start()
    with pytest.raises(TimeoutException, match="waiting for 7 slots on 1 hosts, of which 6 on 1 were found"):
        executor.run(print)


@pytest.mark.usefixtures("nothing_is_left")
def test_a_worker_of_an_elastic_job_without_room_times_out() -> None:
    options = {"min_workers": 1, "max_workers": 1, "cpus_per_worker": 5, "elastic_timeout": 1}
    executor = RayExecutor(RayExecutor.create_settings(), **options)
    executor.start()
    wanted = "rank 0 .*the cluster did not start a worker with {'CPU': 5} on node .* within 1 s; it has node"
    with pytest.raises(RuntimeError, match=f"{wanted} .*: 4 of 6 CPU free, .*Ask for fewer workers or smaller ones"):
        executor.run(print)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left")
def test_workers_without_room_in_the_current_placement_group_time_out() -> None:
    group = ray.util.placement_group([{"CPU": 1}, {"CPU": 1}])
    assert group.wait(DEADLINE_S)

    @ray.remote(num_cpus=1)
    def inside() -> str:
        return refusal(num_workers=2)

    strategy = PlacementGroupSchedulingStrategy(group, 0, placement_group_capture_child_tasks=True)
    message = ray.get(inside.options(scheduling_strategy=strategy).remote())
    ray.util.remove_placement_group(group)
    assert re.match(
        r"the cluster did not start [12] of 2 workers \(rank [01].*\), each with {'CPU': 1} in the bundles "
        r"\[{'CPU': 1.0}, {'CPU': 1.0}\], within .* of 6 CPU free.* Ask for fewer workers or smaller ones",
        message,
    )


def test_an_exception_names_the_rank_the_node_and_the_traceback(two: RayExecutor) -> None:
    def fail() -> None:
        import farandole.numpy as hvd

        hvd.init()
        if hvd.rank() == 1:
            raise FileNotFoundError("no such data set")
        hvd.allreduce(numpy.ones(2))  # waits for rank 1

    with pytest.raises(FileNotFoundError) as caught:
        two.run(fail)
    node = ray.nodes()[0]
    where = re.escape(f"rank 1 on node {node['NodeID']} ({node['NodeManagerHostname']})")
    text = str(caught.value)
    assert re.match(f"{where} raised FileNotFoundError: no such data set\n", text)
    assert "in fail\n" in text
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value.__cause__, ray.exceptions.RayTaskError)

    def sum_of_ranks() -> float:
        import farandole.numpy as hvd

        hvd.init()
        return float(hvd.allreduce(numpy.full(1, hvd.rank()), op=hvd.Sum)[0])

    assert two.run(sum_of_ranks) == [1.0, 1.0]  # the workers can be used again


class Unpicklable(Exception):
    """An exception with a part that no other process can have."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.generator = (number for number in range(3))


def test_an_exception_that_cannot_be_pickled_is_described(two: RayExecutor) -> None:
    def fail() -> None:
        raise Unpicklable("too much state")

    with pytest.raises(RuntimeError, match=r"rank [01] on node (?s:.*)Unpicklable: too much state"):
        two.run(fail)


def test_a_result_that_cannot_be_pickled_is_described(two: RayExecutor) -> None:
    with pytest.raises(RuntimeError, match=r"rank [01] on node (?s:.*)cannot pickle '_thread.lock' object"):
        two.run(threading.Lock)


def test_an_argument_that_cannot_be_pickled_is_named(two: RayExecutor) -> None:
    generator = (number for number in range(3))
    with pytest.raises(TypeError, match="cannot pickle 'generator' object"):
        two.run(print, args=[generator])
    assert two.run(abs, args=[-1]) == [1, 1]


def test_a_module_that_only_the_driver_has_is_named(
    two: RayExecutor, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_of_the_driver.py").write_text("def function():\n    return 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_of_the_driver

    expected = r"rank [01] on node .* has no module only_of_the_driver, which the function needs: install it"
    with pytest.raises(RuntimeError, match=expected):
        two.run(only_of_the_driver.function)
    with pytest.raises(RuntimeError, match=expected):

        def use() -> int:
            import only_of_the_driver

            return int(only_of_the_driver.function())

        two.run(use)


@pytest.mark.slow
def test_a_result_that_is_larger_than_the_object_store_arrives(start: Start) -> None:
    executor = start(num_workers=1)
    (result,) = executor.run(lambda: numpy.full(150 * 2**20, 3, numpy.uint8))
    assert (result.nbytes, int(result[0]), int(result[-1])) == (150 * 2**20, 3, 3)


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left")
def test_a_result_without_room_is_explained() -> None:
    words = [sys.executable, str(Path(__file__).with_name("full_disk_driver.py"))]
    ran = subprocess.run(words, check=False, capture_output=True, text=True, timeout=DEADLINE_S)
    assert ran.returncode == 0, ran.stderr
    expected = "the result or another object of rank 0 on node .* fits neither into Ray's object store nor on the disk"
    assert re.match(rf"{expected}: return less(?s:.*)OutOfDiskError(?s:.*)\nthen: \[5\]\n$", ran.stdout), ran.stdout


class NumberedError(OSError):
    """An exception that cannot be created from a text."""

    def __new__(cls, number: int, text: str) -> NumberedError:
        return super().__new__(cls, number, text)


def test_an_exception_that_needs_other_arguments_reaches_the_caller(two: RayExecutor) -> None:
    def fail() -> None:
        raise NumberedError(7, "no such data set")

    with pytest.raises(RuntimeError, match=r"rank [01] on node .* raised NumberedError: \[Errno 7\] no such data set"):
        two.run(fail)


def test_a_call_of_exit_ends_no_worker(two: RayExecutor) -> None:
    def leave() -> None:
        import sys

        sys.exit(3)

    processes = two.run(lambda: __import__("os").getpid())
    with pytest.raises(RuntimeError, match=r"rank [01] on node .*the function has called sys\.exit\(3\)"):
        two.run(leave)
    assert two.run(lambda: __import__("os").getpid()) == processes


@pytest.mark.slow
def test_a_worker_whose_executable_cannot_be_created_leaves_nothing(nothing_is_left: Account) -> None:
    class Broken:
        def __init__(self) -> None:
            raise LookupError("no weights")

    executor = RayExecutor(SETTINGS, num_workers=2)
    with pytest.raises(LookupError, match="rank [01] on node .* raised LookupError: no weights"):
        executor.start(executable_cls=Broken)
    nothing_is_left.require_nothing_added()
