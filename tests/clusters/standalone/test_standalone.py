"""``horovod.spark.run_elastic()`` in a standalone cluster, whose processes a test ends."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from spark_workers import elastic_worker_that_fails

DEADLINE_S = 240


def processes_of(cluster: Any, word: str) -> Any:
    return sorted(number for number, line in cluster.running().items() if word in line)


def test_an_executor_that_is_lost_is_replaced(spark: Any, cluster: Any, wait_until: Any, tmp_path: Path) -> None:
    import horovod.spark

    trained, shrunk = tmp_path / "trained", tmp_path / "shrunk"

    def train() -> Any:
        import horovod.numpy as hvd
        import numpy
        import psutil

        hvd.init()
        executor = next(each.pid for each in psutil.Process().parents() if each.name() == "java")
        state = hvd.elastic.NumPyState(step=0, is_complete=0)

        @hvd.elastic.run
        def loop(state: Any) -> None:
            while not state.is_complete:
                hvd.allreduce(numpy.ones(1), name="step")
                state.step += 1
                if hvd.size() == 4:
                    trained.touch()
                elif trained.exists():
                    shrunk.touch()
                # Ends with the same step on all ranks, when the workers of a new executor have joined.
                complete = hvd.size() == 4 and shrunk.exists()
                state.is_complete = int(hvd.broadcast(numpy.array([complete]), 0, name="complete")[0])
                state.commit()

        loop(state)
        return state.step, hvd.size(), executor

    lost = []

    def kill() -> None:
        wait_until(trained.exists)
        lost.append(processes_of(cluster, "CoarseGrainedExecutorBackend")[0])
        os.kill(lost[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    results = horovod.spark.run_elastic(
        train, num_proc=4, min_num_proc=2, elastic_timeout=DEADLINE_S, env={"OMP_NUM_THREADS": "1"}
    )
    killer.join(DEADLINE_S)
    assert shrunk.exists() and {each[1] for each in results} == {4}
    assert len({step for step, _, _ in results}) == 1
    assert lost[0] not in {executor for _, _, executor in results}
    wait_until(lambda: not processes_of(cluster, "farandole agent") and not processes_of(cluster, "runner.worker"))


def test_workers_that_fail_in_executors_that_live_count_as_failures_of_their_tasks(
    spark: Any, cluster: Any, wait_until: Any
) -> None:
    import horovod.spark

    wait_until(lambda: len(processes_of(cluster, "CoarseGrainedExecutorBackend")) == 2)
    executors = processes_of(cluster, "CoarseGrainedExecutorBackend")

    with pytest.raises(RuntimeError) as caught:
        horovod.spark.run_elastic(elastic_worker_that_fails(), num_proc=2, min_num_proc=1, elastic_timeout=DEADLINE_S)
    text = str(caught.value)
    assert text.startswith("Horovod detected that one or more processes exited with non-zero status")
    assert "KeyError: 'labels'" in text and "spark.task.maxFailures is 2" in text
    assert processes_of(cluster, "CoarseGrainedExecutorBackend") == executors
    wait_until(lambda: not processes_of(cluster, "farandole agent") and not processes_of(cluster, "runner.worker"))


def test_a_context_that_is_stopped_in_the_middle_is_the_reason(
    spark: Any, cluster: Any, wait_until: Any, tmp_path: Path
) -> None:
    """This must be the last test, because it stops the session."""
    import horovod.spark

    started = tmp_path / "started"

    def wait_for_ever() -> None:
        started.touch()
        signal.pause()

    def stop() -> None:
        wait_until(started.exists)
        spark.sparkContext.stop()

    outside = threading.Thread(target=stop)
    outside.start()
    with pytest.raises(RuntimeError, match=r"the Spark job of the workers has failed: .*(cancelled|shut down|stopped)"):
        horovod.spark.run(wait_for_ever, num_proc=2)
    outside.join(DEADLINE_S)
    with pytest.raises(Exception, match=r"needs an active SparkContext: create one before"):
        horovod.spark.run(wait_for_ever, num_proc=2)
    words = ("farandole agent", "runner.worker", "CoarseGrainedExecutorBackend")
    wait_until(lambda: not any(processes_of(cluster, word) for word in words))
