"""``horovod.spark.run()`` and ``run_elastic()`` in executors of their own, some of which die."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

# Spark and its executors start in half a minute.
pytestmark = pytest.mark.slow

DEADLINE_S = 240


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


def kill_when(event: Path, executors: Callable[[], Any]) -> threading.Thread:
    """Kills one executor when this file exists."""

    def kill() -> None:
        wait_until(event.exists)
        os.kill(executors()[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_ranks_of_an_executor_are_adjacent_and_have_its_gpus(spark: Any) -> None:
    import horovod.spark

    def describe() -> Any:
        import horovod.numpy as hvd
        import psutil
        from horovod.spark.task import get_available_devices

        hvd.init()
        executor = next(each.pid for each in psutil.Process().parents() if each.name() == "java")
        return hvd.rank(), hvd.local_rank(), hvd.local_size(), executor, get_available_devices()

    found = horovod.spark.run(describe, num_proc=4)
    assert [each[:3] for each in found] == [(rank, rank, 4) for rank in range(4)]
    by_executor = [each[3] for each in found]
    assert len(set(by_executor)) == 2
    for executor in set(by_executor):
        assert sorted(each[4] for each in found if each[3] == executor) == [["0"], ["1"]]


def test_an_executor_that_is_killed_fails_a_job_of_fixed_size(spark: Any, executors: Any, tmp_path: Path) -> None:
    import horovod.spark

    started = tmp_path / "started"

    def train() -> None:
        import horovod.numpy as hvd
        import numpy

        hvd.init()
        while True:
            hvd.allreduce(numpy.ones(1), name="step")
            started.touch()

    killer = kill_when(started, executors)
    with pytest.raises(RuntimeError) as caught:
        horovod.spark.run(train, num_proc=4)
    killer.join(DEADLINE_S)
    assert "was lost" in str(caught.value) and "run_elastic()" in str(caught.value)


def test_an_elastic_job_goes_on_when_an_executor_is_killed(spark: Any, executors: Any, tmp_path: Path) -> None:
    import horovod.spark

    wait_until(lambda: len(executors()) == 2)  # Spark has replaced the one that the test before has killed
    trained, shrunk = tmp_path / "trained", tmp_path / "shrunk"

    def train() -> Any:
        import horovod.numpy as hvd
        import numpy

        hvd.init()
        state = hvd.elastic.NumPyState(step=0, is_complete=0)
        sizes = set()

        @hvd.elastic.run
        def loop(state: Any) -> None:
            while not state.is_complete:
                hvd.allreduce(numpy.ones(1), name="step")
                sizes.add(hvd.size())
                state.step += 1
                if state.step == 10:
                    trained.touch()
                if hvd.size() == 2:
                    shrunk.touch()
                # Ends with the same step on all ranks, when the workers of a new executor have joined.
                complete = hvd.size() == 4 and shrunk.exists()
                state.is_complete = int(hvd.broadcast(numpy.array([complete]), 0, name="complete")[0])
                state.commit()

        loop(state)
        return state.step, hvd.size()

    killer = kill_when(trained, executors)
    results = horovod.spark.run_elastic(train, num_proc=4, min_num_proc=2, elastic_timeout=DEADLINE_S)
    killer.join(DEADLINE_S)
    assert shrunk.exists() and results[0][0] > 10 and results[0][1] == 4
    assert len({step for step, _ in results}) == 1


def test_the_places_of_an_executor_that_spark_excludes_move_to_another_one(
    spark: Any, executors: Any, tmp_path: Path
) -> None:
    import horovod.spark

    wait_until(lambda: len(executors()) == 2)
    failed = tmp_path / "failed"

    def train() -> Any:
        import horovod.numpy as hvd
        import numpy
        import psutil

        hvd.init()
        executor = next(each.pid for each in psutil.Process().parents() if each.name() == "java")
        state = hvd.elastic.NumPyState(is_complete=0)

        @hvd.elastic.run
        def loop(state: Any) -> None:
            while not state.is_complete:
                own = numpy.array([executor])
                present = hvd.allgather(own, name="executors").tolist()
                # The executor with two of the three workers, of which one fails.
                has_two = len(present) == 3 and present.count(executor) == 2
                if has_two and not failed.exists() and present.index(executor) == hvd.rank():
                    failed.write_text(str(executor))
                    raise RuntimeError("this worker fails")
                # Ends when three workers have met without the executor of the one that has failed.
                complete = failed.exists() and len(present) >= 2 and int(failed.read_text()) not in present
                state.is_complete = int(hvd.broadcast(numpy.array([complete]), 0, name="complete")[0])
                state.commit()

        loop(state)
        return executor

    results = horovod.spark.run_elastic(train, num_proc=3, min_num_proc=1, elastic_timeout=DEADLINE_S)
    assert int(failed.read_text()) not in results


def test_the_settings_for_spark_are_known_to_it_with_these_defaults(spark: Any) -> None:
    from horovod.spark import conf

    entries = spark.sparkContext._jvm.org.apache.spark.internal.config.ConfigEntry
    settings = [
        value for name, value in vars(conf).items() if name.startswith("SPARK_CONF_") and isinstance(value, tuple)
    ]
    assert len(settings) == 15
    assert int(conf.SPARK_CONF_REUSE_NODE_ALWAYS_FOR_SAME_TASK[1]) < int(conf.SPARK_CONF_ALWAYS_RESTART_FAILED_TASK[1])
    for setting in settings:
        name, value = conf.renamed(setting)
        assert entries.findEntry(name) is not None, name
        assert setting[0] in conf.SPARK_CONF_DEFAULT_VALUES and (
            value in ("true", "false", "1") or int(value) > 2**31 - 3
        )
    for setting in conf.SPARK_CONF_DEFAULT_VALUES.items():
        name, value = conf.renamed(setting)
        # The switch has no default value: without it, Spark excludes nothing.
        assert entries.findEntry(name).defaultValueString() in (value, "<undefined>")


def test_old_names_of_settings_are_named_where_spark_ignores_them(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import horovod.spark
    from farandole.spark import exclusion

    monkeypatch.setattr(exclusion, "_FIRST_WITHOUT_OLD_NAMES", 3)
    settings = type(spark.sparkContext.getConf())(False).set("spark.blacklist.enabled", "true")
    monkeypatch.setattr(spark.sparkContext, "getConf", lambda: settings)
    with (
        pytest.warns(RuntimeWarning, match=r"ignores spark\.blacklist\.enabled.*renamed"),
        pytest.raises(ValueError, match="min_num_proc 3"),
    ):
        horovod.spark.run_elastic(os.getpid, num_proc=2, min_num_proc=3)
