"""``horovod.spark.run()`` in the executor of a local Spark."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import threading
import time
import traceback
from typing import Any, Callable, Dict, List

import pytest
from spark_workers import elastic_worker_that_fails, worker_that_fails

DEADLINE_S = 240


def ranks(factor: float) -> Any:
    import horovod.numpy as hvd
    import numpy

    hvd.init()
    total = float(hvd.allreduce(numpy.ones(1) * factor, op=hvd.Sum)[0])
    return hvd.rank(), hvd.size(), hvd.local_rank(), total


def descendants() -> List[int]:
    """Agents and workers below this process."""
    children: Dict[int, List[int]] = {}
    names: Dict[int, str] = {}
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            with open(f"/proc/{entry}/cmdline") as file:
                names[int(entry)] = file.read().replace("\0", " ")
        except OSError:
            continue
        children.setdefault(parent, []).append(int(entry))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        waiting += below
        found += [each for each in below if "farandole agent" in names[each] or "runner.worker" in names[each]]
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def nothing_is_left(spark: Any) -> Any:
    yield
    wait_until(lambda: not descendants())


def test_results_come_in_the_order_of_the_ranks(spark: Any) -> None:
    import horovod.spark

    results = horovod.spark.run(ranks, args=(3,), num_proc=3)
    assert results == [(rank, 3, rank, 9.0) for rank in range(3)]
    assert len(horovod.spark.run(ranks, kwargs={"factor": 1})) == spark.sparkContext.defaultParallelism


@pytest.mark.slow
def test_output_goes_to_the_streams_while_the_job_runs(spark: Any, tmp_path: Any) -> None:
    import horovod.spark

    stdout, stderr = io.StringIO(), io.StringIO()
    end = str(tmp_path / "end")

    def talk() -> None:
        import sys

        print("to standard output", flush=True)
        print("to standard error", file=sys.stderr, flush=True)
        while not os.path.exists(end):
            time.sleep(0.01)

    job = threading.Thread(
        target=horovod.spark.run, args=(talk,), kwargs={"num_proc": 2, "stdout": stdout, "stderr": stderr}
    )
    job.start()
    try:
        for stream, name in ((stdout, "out"), (stderr, "err")):
            lines = [f"[{rank}]<std{name}>:to standard {name}" for rank in range(2)]
            wait_until(lambda: all(line in stream.getvalue() for line in lines))  # noqa: B023 - called at once
    finally:
        open(end, "w").close()
        job.join(DEADLINE_S)


@pytest.mark.slow
def test_a_worker_has_the_given_variables_and_those_of_its_executor(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import horovod.spark
    from horovod.runner.common.util.host_hash import host_hash

    def variables() -> Any:
        import sys

        names = ("GIVEN", "OF_THE_DRIVER", "HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_HOSTNAME")
        secrets = {"FARANDOLE_SECRET", "FARANDOLE_SECRET_FILE"} & os.environ.keys()
        return [os.environ.get(name) for name in names], sys.executable, secrets

    monkeypatch.setenv("OF_THE_DRIVER", "1")  # the JVM was started before
    results = horovod.spark.run(variables, num_proc=2, env={"GIVEN": "yes"})
    for rank, (found, python, secrets) in enumerate(results):
        assert found == ["yes", None, str(rank), "2", str(rank), host_hash()]
        assert python == os.environ["PYSPARK_PYTHON"]
        assert not secrets


@pytest.mark.slow
def test_the_job_group_has_a_number(spark: Any) -> None:
    import horovod.spark

    tracker = spark.sparkContext.statusTracker()
    numbers = [n for n in range(100) if tracker.getJobIdsForGroup(f"horovod.spark.run.{n}")]
    horovod.spark.run(ranks, args=(1,), num_proc=2)
    after = [n for n in range(100) if tracker.getJobIdsForGroup(f"horovod.spark.run.{n}")]
    assert len(after) == len(numbers) + 1 and after[-1] == max([-1, *numbers]) + 1


def test_the_first_exception_is_raised_with_rank_host_and_traceback(spark: Any) -> None:
    import horovod.spark

    with pytest.raises(RuntimeError) as caught:
        horovod.spark.run(worker_that_fails(), num_proc=2)
    text = str(caught.value)
    assert text.startswith("Horovod detected that one or more processes exited with non-zero status")
    assert f"\nRank 1 on host {socket.gethostname()} (Spark task 1) raised KeyError: 'labels'\nTraceback " in text
    assert re.search(r"line \d+, in fail\n", text)
    for name in ("on host", "task", "Traceback", "Cause: "):
        assert text.count(name) == (0 if name == "Cause: " else 1), text


@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_job_with_its_rank(spark: Any) -> None:
    import horovod.spark

    def die() -> None:
        import horovod.numpy as hvd

        hvd.init()
        if hvd.rank() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.barrier()

    with pytest.raises(RuntimeError, match=r"\nRank 0 on host \S+ \(Spark task \d\) was killed by signal 9"):
        horovod.spark.run(die, num_proc=2)


@pytest.mark.slow
def test_too_many_processes_time_out_with_the_number_and_the_places_of_the_tasks(spark: Any) -> None:
    import horovod.spark
    from horovod.runner.common.util.timeout import TimeoutException

    with pytest.raises(TimeoutException) as caught:
        horovod.spark.run(ranks, args=(1,), num_proc=5, start_timeout=20)
    text = str(caught.value)
    assert text.startswith("Timed out waiting for Spark tasks to start. 4 of 5 have started within 20 s (")
    assert "-task-3" in text and "num_proc" in text and "start_timeout" in text
    # The cluster can be used again.
    assert horovod.spark.run(ranks, args=(1,), num_proc=1) == [(0, 1, 0, 1.0)]


@pytest.mark.slow
def test_the_start_timeout_can_be_a_variable(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import horovod.spark
    from horovod.runner.common.util.timeout import TimeoutException

    monkeypatch.setenv("HOROVOD_SPARK_START_TIMEOUT", "2")
    with pytest.raises(TimeoutException, match="within 2 s"):
        horovod.spark.run(ranks, args=(1,), num_proc=5)


@pytest.mark.slow
def test_a_job_that_is_cancelled_from_outside_fails_with_the_reason(spark: Any, tmp_path: Any) -> None:
    import horovod.spark

    context = spark.sparkContext
    started = tmp_path / "started"

    def cancel() -> None:
        wait_until(started.exists)
        for number in range(100):
            context.cancelJobGroup(f"horovod.spark.run.{number}")

    def wait_for_ever() -> None:
        started.touch()
        while True:
            time.sleep(60)

    outside = threading.Thread(target=cancel)
    outside.start()
    with pytest.raises(RuntimeError, match=r"the Spark job of the workers has failed: .*cancelled"):
        horovod.spark.run(wait_for_ever, num_proc=2)
    outside.join(DEADLINE_S)


def test_a_function_that_cannot_be_pickled_is_named(spark: Any) -> None:
    import pickle

    import horovod.spark

    with pytest.raises(pickle.PicklingError, match="lock"):
        horovod.spark.run(ranks, args=(threading.Lock(),), num_proc=2)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"use_mpi": True, "use_gloo": True}, "use_gloo and use_mpi exclude each other"),
        ({"extra_mpi_args": "-x A"}, "extra_mpi_args='-x A' has no effect without use_mpi"),
        ({"executable": "/no/such/python"}, "/no/such/python"),
    ],
)
def test_bad_options_are_refused(spark: Any, options: Dict[str, Any], text: str) -> None:
    import horovod.spark

    with pytest.raises((ValueError, RuntimeError), match=text):
        horovod.spark.run(ranks, args=(1,), num_proc=2, **options)


@pytest.mark.slow
def test_another_python_of_the_executors_is_named_with_both_versions_and_the_host(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import platform

    import horovod.spark

    monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.1")  # of the driver
    with pytest.raises(RuntimeError) as caught:
        horovod.spark.run(ranks, args=(1,), num_proc=2)
    text = str(caught.value)
    version = r"(\.|, )".join(platform.python_version_tuple()[:2])  # Spark 3 writes (3, 11)
    assert re.search(r"3\.1\b", text) and re.search(version, text) and "PYSPARK_PYTHON" in text, text
    assert re.search(r"Spark task \d on host \S+: ", text), text


def test_a_task_without_farandole_or_with_another_version_names_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from farandole.spark.task import agent_program

    with pytest.raises(RuntimeError, match=r"place 3 has Farandole .*, and the driver has 9.9: install Farandole 9.9"):
        agent_program._require_version("place 3", "9.9")
    monkeypatch.setitem(sys.modules, "farandole", None)
    with pytest.raises(
        RuntimeError, match=r"place 3 cannot import farandole \(.*\): install Farandole 9.9 for .*python"
    ):
        agent_program._require_version("place 3", "9.9")


def test_the_names_of_the_modules_have_their_signatures_and_importing_them_loads_no_framework() -> None:
    import importlib
    import subprocess
    import sys
    from pathlib import Path

    from interface_rows import differences, rows_of

    table = Path(__file__).with_name("run_interface.tsv")
    names = {row[0] for row in rows_of(table)}
    assert names == {"runner", "task.task_info"}
    assert [differences(importlib.import_module(f"horovod.spark.{name}"), table, name) for name in names] == [[], []]
    heavy = ["torch", "tensorflow", "jax", "mxnet", "farandole._native"]
    script = f"import horovod.spark, sys; print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
    assert ran.stdout == "[]\n"


def test_gpus_are_those_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    from horovod.spark.task import get_available_devices, task_info

    assert get_available_devices() == []
    task_info.set_resources({"gpu": ["2", "3"], "fpga": ["0"]})
    try:
        assert get_available_devices() == ["2", "3"]
        monkeypatch.setenv("HOROVOD_SPARK_USE_LOCAL_RANK_GPU_INDEX", "1")
        monkeypatch.setenv("HOROVOD_LOCAL_RANK", "1")
        assert get_available_devices() == ["1"]
        monkeypatch.delenv("HOROVOD_LOCAL_RANK")
        with pytest.raises(RuntimeError, match="no local rank"):
            get_available_devices()
    finally:
        task_info.set_resources({})


@pytest.mark.slow
def test_an_elastic_job_ends_when_a_worker_has_failed_too_often(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import horovod.spark
    from farandole.spark.task import agent_program

    monkeypatch.setattr(agent_program, "LONGEST_PAUSE_S", 0)

    with pytest.raises(RuntimeError) as caught:
        horovod.spark.run_elastic(elastic_worker_that_fails(), num_proc=2, min_num_proc=1)
    text = str(caught.value)
    assert text.startswith("Horovod detected that one or more processes exited with non-zero status")
    assert "KeyError: 'labels'" in text and "spark.task.maxFailures is 4" in text
    assert re.search(r"\nProcess name: \S+-task-\d(\.\d)?\[\d\]\n", text)
    assert f"\nRank 1 on host {socket.gethostname()} (Spark task " in text
    printed = "".join(traceback.format_exception(caught.value))
    assert printed.count("in train\n") == 1  # the frame of the worker


def test_an_elastic_job_replaces_a_worker_that_dies(spark: Any, tmp_path: Any) -> None:
    import horovod.spark

    died = str(tmp_path / "died")

    def train() -> Any:
        import horovod.numpy as hvd

        hvd.init()
        state = hvd.elastic.NumPyState(step=0)

        @hvd.elastic.run
        def loop(state: Any) -> int:
            import numpy

            while state.step < 10:
                if state.step == 5 and hvd.rank() == 1 and not os.path.exists(died):
                    open(died, "w").close()
                    os.kill(os.getpid(), signal.SIGKILL)
                hvd.allreduce(numpy.ones(1), name="step")
                state.step += 1
                state.commit()
            return state.step

        return loop(state), hvd.size()

    results = horovod.spark.run_elastic(train, num_proc=2, min_num_proc=1, elastic_timeout=DEADLINE_S)
    assert os.path.exists(died) and results[0][0] == 10


def test_jobs_that_run_at_once_do_not_disturb_one_another() -> None:
    """Tuners of Spark fit estimators in threads."""
    from farandole.runner.placing import Sizes
    from farandole.spark.cluster import SparkTasks

    class Context:
        master = "local[2]"

        def __init__(self, collect: Callable[[], None]) -> None:
            self.collect = collect

        def setJobGroup(self, *_: Any, **__: Any) -> Any:
            return self

        getConf = parallelize = mapPartitionsWithIndex = setJobGroup

        def get(self, _: str, default: str) -> str:
            return default

    sizes = Sizes(1, 1)
    short = SparkTasks(Context(lambda: None), sizes, None, 30)
    long = SparkTasks(Context(short._run), sizes, None, 30)
    long._run()
    assert (short.problem, long.problem) == (None, None)


def test_a_job_without_workers_is_refused(spark: Any) -> None:
    import horovod.spark

    with pytest.raises(ValueError, match="the number of workers must be 1 or more, and not 0"):
        horovod.spark.run(print, num_proc=0)
    with pytest.raises(ValueError, match="num_proc 0 and max_num_proc 0: they must .* not be below 1"):
        horovod.spark.run_elastic(print, num_proc=0)
    with pytest.raises(ValueError, match="min_num_proc 0, num_proc 2"):
        horovod.spark.run_elastic(print, num_proc=2, min_num_proc=0)
    with pytest.raises(ValueError, match="num_proc 2 and max_num_proc 0"):
        horovod.spark.run_elastic(print, num_proc=2, max_num_proc=0)


def test_sizes_of_an_elastic_job_must_be_in_order(spark: Any) -> None:
    import horovod.spark

    with pytest.raises(ValueError, match="min_num_proc 3, num_proc 2"):
        horovod.spark.run_elastic(ranks, args=(1,), num_proc=2, min_num_proc=3)
    with pytest.warns(DeprecationWarning, match="min_np is deprecated; use min_num_proc"):
        horovod.spark.run_elastic(ranks, args=(1,), num_proc=1, min_np=1)
