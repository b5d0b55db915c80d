"""Workers and drivers of jobs of fixed size that die: the caller gets the cause, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy
import pytest
import ray
from conftest import DEADLINE_S, SETTINGS, Account, wait_until
from horovod.ray import RayExecutor, calls, ray_logger, static_adapter
from ray.cluster_utils import Cluster

pytestmark = pytest.mark.usefixtures("nothing_is_left")
Start = Callable[..., RayExecutor]
DRIVER = Path(__file__).with_name("driver.py")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause of a failure is awaited for as long as a busy machine needs to report it."""
    monkeypatch.setattr(calls, "CAUSE_S", DEADLINE_S)


def sum_of_ranks() -> float:
    import farandole.numpy as hvd

    hvd.init()
    return float(hvd.allreduce(numpy.full(1, hvd.rank()), op=hvd.Sum)[0])


def wait_for(victim: int) -> Any:
    """Waits in a collective that the victim never joins; returns the name of the error."""
    import farandole.numpy as hvd

    hvd.init()
    hvd.barrier()
    if hvd.rank() == victim:
        ray_logger.log(os.getpid())
        threading.Event().wait()
    try:
        hvd.allreduce(numpy.ones(1))
    except hvd.HorovodInternalError as problem:
        return type(problem).__name__
    raise AssertionError("the collective was complete without a worker")


def place_of(executor: RayExecutor, rank: int) -> str:
    return str(executor.adapter._places[rank])


def test_the_caller_gets_the_cause_when_a_worker_dies_in_a_collective(start: Start) -> None:
    executor, victim = start(num_workers=3), 1

    def kill(process: int) -> None:
        os.kill(process, signal.SIGKILL)

    with pytest.raises(RuntimeError) as caught:
        executor.run(wait_for, [victim], callbacks=[kill])
    text = str(caught.value)
    assert text.startswith(f"{place_of(executor, victim)} died, so that the job has ended: ")
    assert "The actor died unexpectedly before finishing this task." in text
    assert isinstance(caught.value.__cause__, ray.exceptions.RayActorError)
    with pytest.raises(RuntimeError, match=r"one has been lost: call shutdown\(\), then start\(\) for new ones"):
        executor.run(sum_of_ranks)
    executor.shutdown()
    executor.start()
    assert executor.run(sum_of_ranks) == [3.0] * 3


@pytest.mark.slow
@pytest.mark.parametrize("victim", [1, 0])  # the rendezvous is a child of rank 0
def test_the_other_workers_fail_when_one_is_lost(start: Start, victim: int) -> None:
    two = start(num_workers=2)
    ray.get(two.run_remote(sum_of_ranks))

    references = two.run_remote(_waits_unless, [victim])
    ray.get(references[victim])
    ray.kill(two.adapter.workers[victim])
    assert ray.get(references[1 - victim], timeout=DEADLINE_S) == "WorkerLostError"


def _waits_unless(victim: int) -> Any:
    import farandole.numpy as hvd

    hvd.barrier()
    if hvd.rank() == victim:
        return None
    try:
        hvd.allreduce(numpy.ones(1))
    except hvd.HorovodInternalError as problem:
        return type(problem).__name__
    raise AssertionError("the collective was complete without a worker")


@pytest.mark.slow
def test_a_worker_that_dies_between_calls_is_named_by_the_next_call(start: Start) -> None:
    two = start(num_workers=2)
    two.run(sum_of_ranks)
    ray.kill(two.adapter.workers[1])
    with pytest.raises(RuntimeError) as caught:
        two.run(sum_of_ranks)
    assert str(caught.value).startswith(f"{place_of(two, 1)} died")


def log_twice() -> int:
    """Removes the queue of the callbacks in between."""
    ray_logger.log(1)
    ray.kill(ray_logger._queue.actor)
    ray_logger.log(2)
    return 3


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"num_workers": 1}, {"min_workers": 1, "max_workers": 1}])
def test_a_job_that_loses_its_logged_values_has_its_results(start: Start, sizes: Dict[str, int]) -> None:
    seen: List[int] = []
    assert start(**sizes).run(log_twice, callbacks=[seen.append]) == [3]
    assert 2 not in seen


class DiesOnRank1:
    """An executable whose process ends while it is created."""

    def __init__(self) -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_dies_at_start_is_named() -> None:
    executor = RayExecutor(SETTINGS, num_workers=2)
    with pytest.raises(RuntimeError, match="rank 1 on node .* died, so that the job has ended: The actor died"):
        executor.start(DiesOnRank1)
    with pytest.raises(RuntimeError, match=r"call start\(\) first"):
        executor.run(sum_of_ranks)


@pytest.mark.slow
def test_a_worker_that_dies_in_init_is_named(start: Start) -> None:
    two = start(num_workers=2)

    def die() -> None:
        if os.environ["HOROVOD_RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        sum_of_ranks()

    with pytest.raises(RuntimeError, match="rank 1 on node .* died"):
        two.run(die)


@pytest.mark.slow
def test_shutdown_ends_workers_that_are_busy(start: Start) -> None:
    two = start(num_workers=2)

    def wait() -> None:
        threading.Event().wait()

    references = two.run_remote(wait)
    two.shutdown()
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(references[0], timeout=DEADLINE_S)


@pytest.fixture
def driver(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts a driver of a kind, and waits until its workers have joined."""
    started: List[subprocess.Popen[str]] = []

    def start(kind: str) -> subprocess.Popen[str]:
        environment: Dict[str, str] = {**os.environ, "ADDRESS": cluster.address}
        words = [sys.executable, str(DRIVER), kind, str(tmp_path / "lines")]
        process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        started.append(process)
        lines = tmp_path / "lines"
        wait_until(
            lambda: (lines.exists() and lines.read_text() == "joined\n") or process.poll() is not None,
            lambda: "it did not start",
        )
        assert process.poll() is None, process.communicate()[0]
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=DEADLINE_S)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fixed", "elastic"])
def test_nothing_is_left_of_a_driver_that_is_killed(
    driver: Callable[[str], subprocess.Popen[str]], kind: str, nothing_is_left: Account
) -> None:
    process = driver(kind)
    assert len([each for each in nothing_is_left.added() if "ray::BaseHorovodWorker" in each]) == 2
    process.kill()
    nothing_is_left.require_nothing_added()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fixed", "elastic"])
def test_ctrl_c_can_be_followed_by_shutdown(
    driver: Callable[[str], subprocess.Popen[str]], kind: str, tmp_path: Path
) -> None:
    process = driver(kind)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, output
    assert (tmp_path / "lines").read_text() == "joined\nshut down\n", output


@pytest.mark.slow
def test_an_interrupted_start_leaves_nothing(monkeypatch: pytest.MonkeyPatch, nothing_is_left: Account) -> None:
    executor = RayExecutor(SETTINGS, num_workers=2)

    def interrupt(*_: Any) -> None:
        assert len([each for each in nothing_is_left.added() if each.startswith("BaseHorovodWorker")]) == 2
        raise KeyboardInterrupt

    monkeypatch.setattr(static_adapter, "variables_by_rank", interrupt)
    with pytest.raises(KeyboardInterrupt):
        executor.start()
    nothing_is_left.require_nothing_added()
