"""Elastic jobs on a node with several names, each of which is a host of the job."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import numpy
import pytest
from conftest import DEADLINE_S
from horovod.ray import RayExecutor, elastic_v2, ray_logger
from horovod.ray.elastic import ElasticRayExecutor
from horovod.runner.elastic.discovery import FixedHosts

pytestmark = pytest.mark.usefixtures("nothing_is_left")


class Step(NamedTuple):
    """A step of a worker's training."""

    number: int
    rank: int
    size: int
    host: str
    process: int
    at: float


def train(until: str) -> Tuple[int, str]:
    """Trains until a worker of this host takes part; returns the last step, and the host."""
    import farandole.numpy as hvd

    hvd.init()
    host = os.environ["HOROVOD_HOSTNAME"]

    @hvd.elastic.run
    def loop(state: Any) -> int:
        hosts: List[str] = []
        while until not in hosts:
            hosts = hvd.allgather_object(host)
            state.step += 1
            ray_logger.log(Step(state.step, hvd.rank(), hvd.size(), host, os.getpid(), time.time()))
            state.commit()
        return int(state.step)

    state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0)
    return loop(state), host


def settings_of(hosts: Dict[str, int]) -> Any:
    settings = RayExecutor.create_settings()
    settings.discovery = FixedHosts(hosts)
    return settings


@pytest.fixture
def elastic() -> Iterator[Callable[..., RayExecutor]]:
    """Creates and starts an elastic executor on these hosts."""
    executors = []

    def create(hosts: Dict[str, int], *arguments: Any, **options: Any) -> RayExecutor:
        executors.append(RayExecutor(settings_of(hosts), override_discovery=False, **options))
        executors[-1].start(*arguments)
        return executors[-1]

    yield create
    for executor in executors:
        executor.shutdown()


Elastic = Callable[..., RayExecutor]


@pytest.mark.slow
def test_results_come_from_the_workers_that_have_finished(elastic: Elastic) -> None:
    executor = elastic({"host-1": 2}, None, None, None, {"OWN": 7}, min_workers=2, max_workers=2)

    def place(first: int, second: int) -> Tuple[int, int, int, str, int]:
        import farandole.numpy as hvd

        hvd.init()
        return hvd.rank(), hvd.size(), hvd.local_rank(), os.environ["OWN"], first + second

    results = executor.run(place, [1], {"second": 2})
    assert results == [(0, 2, 0, "7", 3), (1, 2, 1, "7", 3)]


def test_the_others_continue_when_a_worker_dies_and_a_new_one_joins(elastic: Elastic) -> None:
    hosts = {"host-1": 1, "host-2": 1}
    executor = elastic(hosts, min_workers=1, max_workers=2)
    seen: List[Step] = []
    killed: List[Step] = []

    def see(step: Step) -> None:
        seen.append(step)
        if not killed and step.size == 2 and step.rank == 1:
            killed.append(step)
            os.kill(step.process, signal.SIGKILL)
            executor.settings.discovery.set({**hosts, "host-3": 1})

    results = executor.run(train, ["host-3"], callbacks=[see])
    victim = killed[0]
    survivor = next(step for step in seen if step.process != victim.process)
    newcomer = next(step for step in seen if step.process not in (victim.process, survivor.process))
    assert newcomer.host == "host-3"  # the victim's host gets no new worker
    assert newcomer.rank == 1
    assert newcomer.number > victim.number - 2  # the training continued with the survivor's state
    assert results == [(results[0][0], survivor.host), (results[0][0], "host-3")]
    assert len({step.process for step in seen}) == 3  # the survivor did not restart


def join_unless_on_first_host() -> Tuple[str, int]:
    import farandole.numpy as hvd

    if os.environ["HOROVOD_HOSTNAME"] == "host-1":
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.init()
    return os.environ["HOROVOD_HOSTNAME"], hvd.size()


@pytest.mark.slow
def test_a_worker_that_dies_before_it_has_joined_is_replaced(elastic: Elastic) -> None:
    executor = elastic({"host-1": 1, "host-2": 1, "host-3": 1}, min_workers=2, max_workers=2)
    assert sorted(executor.run(join_unless_on_first_host)) == [("host-2", 2), ("host-3", 2)]


@pytest.mark.slow
def test_a_host_that_leaves_loses_its_worker_at_a_commit(elastic: Elastic) -> None:
    executor = elastic({"host-1": 1, "host-2": 1}, min_workers=1, max_workers=2)
    seen: List[Step] = []

    def see(step: Step) -> None:
        seen.append(step)
        if step.size == 2:
            executor.settings.discovery.set({"host-1": 1})

    def until_alone() -> Tuple[int, str]:
        import farandole.numpy as hvd

        hvd.init()

        @hvd.elastic.run
        def loop(state: Any) -> int:
            while not (state.was_two and hvd.size() == 1):
                hvd.allreduce(numpy.ones(1))
                state.was_two = state.was_two or hvd.size() == 2
                state.step += 1
                host = os.environ["HOROVOD_HOSTNAME"]
                ray_logger.log(Step(state.step, hvd.rank(), hvd.size(), host, os.getpid(), time.time()))
                state.commit()
            return int(state.step)

        state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, step=0, was_two=False)
        return loop(state), os.environ["HOROVOD_HOSTNAME"]

    ((last, host),) = executor.run(until_alone, callbacks=[see])  # the one that has left has no result
    assert host == "host-1"
    numbers = [step.number for step in seen if step.host == "host-1"]
    assert numbers == list(range(numbers[0], last + 1))  # no step was lost


class Weights:
    """An object of each worker."""

    def __init__(self, start: float) -> None:
        self.start = start

    def total(self) -> float:
        import farandole.numpy as hvd

        hvd.init()
        return float(hvd.allreduce(numpy.full(1, self.start), op=hvd.Sum)[0])


@pytest.mark.slow
def test_functions_get_the_executable(elastic: Elastic) -> None:
    executor = elastic({"host-1": 2}, Weights, [2.5], min_workers=2, max_workers=2)
    assert executor.execute(lambda weights: weights.total()) == [5.0, 5.0]


@pytest.mark.slow
def test_the_job_of_a_client_runs_in_the_cluster(elastic: Elastic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic_v2, "is_client", lambda: True)
    executor = elastic({"host-1": 2}, Weights, [2.5], min_workers=2, max_workers=2)
    seen: List[str] = []

    def log(weights: Weights) -> float:
        ray_logger.log("seen")
        return weights.total()

    assert executor.execute(log, callbacks=[seen.append]) == [5.0, 5.0]
    assert seen == ["seen", "seen"]
    with pytest.raises(RuntimeError, match=r"rank \d on node (?s:.*)raised LookupError: no such data set"):
        executor.run(_fail)


def _fail() -> None:
    raise LookupError("no such data set")


@pytest.mark.slow
def test_a_job_that_fails_names_the_rank_and_the_traceback(elastic: Elastic) -> None:
    executor = elastic({"host-1": 1}, min_workers=1, max_workers=1)

    with pytest.raises(RuntimeError) as caught:
        executor.run(_fail)
    text = str(caught.value)
    assert "Process name: host-1[0]" in text
    assert "rank 0 on node " in text
    assert "raised LookupError: no such data set" in text
    assert "in _fail\n" in text


@pytest.mark.slow
def test_the_reset_limit_ends_the_job(elastic: Elastic) -> None:
    executor = elastic({"host-1": 1, "host-2": 1}, min_workers=1, max_workers=2, reset_limit=0)

    killed: List[Step] = []

    def see(step: Step) -> None:
        # A victim may have logged several steps before the first one arrives.
        if not killed and step.size == 2 and step.rank == 1:
            killed.append(step)
            os.kill(step.process, signal.SIGKILL)

    with pytest.raises(RuntimeError, match="its reset limit is exceeded"):
        executor.run(train, ["host-3"], callbacks=[see])


def log_and_wait() -> None:
    ray_logger.log(1)
    threading.Event().wait()


@pytest.mark.slow
@pytest.mark.parametrize("is_client", [False, True])
def test_a_job_is_ended_by_shutdown_and_by_a_callback(
    elastic: Elastic, monkeypatch: pytest.MonkeyPatch, is_client: bool
) -> None:
    monkeypatch.setattr(elastic_v2, "is_client", lambda: is_client)
    executor = elastic({"host-1": 1}, min_workers=1, max_workers=1)

    def refuse(value: Any) -> None:
        raise LookupError(f"no place for {value}")

    with pytest.raises(LookupError, match="no place for 1"):
        executor.run(log_and_wait, callbacks=[refuse])

    ending: List[threading.Thread] = []

    def shut_down(_: Any) -> None:
        ending.append(threading.Thread(target=executor.shutdown))
        ending[0].start()

    with pytest.raises(RuntimeError, match=r"shutdown\(\) has ended the job"):
        executor.run(log_and_wait, callbacks=[shut_down])
    ending[0].join()


@pytest.mark.parametrize("problem", [None, LookupError("no place for 2")])
def test_values_that_were_logged_before_a_failure_reach_the_callbacks(
    elastic: Elastic, monkeypatch: pytest.MonkeyPatch, problem: Optional[Exception]
) -> None:
    executor = elastic({"host-1": 1}, min_workers=1)
    seen: List[int] = []
    failed = threading.Event()

    def see(value: int) -> None:
        failed.wait()
        seen.append(value)
        if value == 2 and problem:
            raise problem

    def fail(_: Any, queue: Any) -> List[Any]:
        for value in range(3):
            queue.put(value)
        failed.set()
        raise LookupError("no such data set")

    monkeypatch.setattr(executor.adapter, "_run_job", fail)
    with pytest.raises(LookupError, match="no such data set"):
        executor.run(_fail, callbacks=[see])
    assert seen == [0, 1, 2]


def test_a_callback_that_calls_exit_ends_the_job(elastic: Elastic, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = elastic({"host-1": 1}, min_workers=1)
    ended = threading.Event()

    def wait(_: Any, queue: Any) -> List[Any]:
        queue.put(3)
        assert ended.wait(DEADLINE_S)
        raise RuntimeError("shutdown() has ended the job")

    monkeypatch.setattr(executor.adapter, "_run_job", wait)
    monkeypatch.setattr(executor.adapter, "_end_run", ended.set)
    with pytest.raises(SystemExit, match="3"):
        executor.run(_fail, callbacks=[sys.exit])


@pytest.mark.slow
def test_the_older_executor_finds_the_nodes_of_the_cluster() -> None:
    settings = ElasticRayExecutor.create_settings(min_num_proc=2, max_num_proc=2, verbose=True)
    with pytest.warns(DeprecationWarning):
        executor = ElasticRayExecutor(settings, use_gpu=True, gpus_per_slot=2, env_vars={"OWN": "8"})
    executor.start()
    seen: List[str] = []

    def report() -> Tuple[int, str, str]:
        import farandole.numpy as hvd

        hvd.init()
        ray_logger.log("seen")
        return hvd.size(), os.environ["OWN"], os.environ["CUDA_VISIBLE_DEVICES"]

    assert executor.run(report, callbacks=[seen.append]) == [(2, "8", "0,1,2,3")] * 2
    assert seen == ["seen", "seen"]
