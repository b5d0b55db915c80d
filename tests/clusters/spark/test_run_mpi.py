"""``horovod.spark.run(use_mpi=True)``: mpirun starts the workers through the agents of the Spark tasks."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from spark_workers import worker_that_fails
from test_run import wait_until

# Daemons of Open MPI 4 that share a host lose one another now and then.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="mpirun is not installed"),
]


@pytest.fixture
def mpi_args(tmp_path: Path) -> Iterator[str]:
    """Options that give mpirun and its daemons a folder of their own, in which they leave nothing."""
    yield f"-mca orte_tmpdir_base {tmp_path}"
    wait_until(lambda: not [each for each in tmp_path.rglob("*") if not each.is_dir()])


def describe() -> Any:
    import horovod.numpy as hvd
    import numpy
    import psutil

    hvd.init()
    total = float(hvd.allreduce(numpy.ones(1), op=hvd.Sum)[0])
    daemons = [each.pid for each in psutil.Process().parents() if each.name() == "orted"]
    return (hvd.rank(), hvd.size(), hvd.local_rank(), total, os.environ["OMPI_COMM_WORLD_RANK"]), daemons


@pytest.mark.parametrize("extra", ["", " -mca plm_rsh_no_tree_spawn true"], ids=["attached", "as daemons"])
def test_mpirun_starts_the_workers_in_the_tasks(spark: Any, mpi_args: str, extra: str) -> None:
    """From 64 hosts on, mpirun starts daemons that leave the remote shell."""
    import horovod.spark

    results = horovod.spark.run(describe, num_proc=3, use_mpi=True, extra_mpi_args=mpi_args + extra)
    assert [each[0] for each in results] == [(rank, 3, rank, 3.0, str(rank)) for rank in range(3)]
    daemons = {pid for each in results for pid in each[1]}
    assert len(daemons) == 3  # one in each task
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in daemons))


def test_workers_have_the_given_variables_and_the_home_and_interpreter_of_their_task(
    spark: Any, mpi_args: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import horovod.spark
    from horovod.runner.common.util.host_hash import host_hash

    def variables() -> Any:
        import sys

        names = ("GIVEN", "OF_THE_DRIVER", "HOME", "HOROVOD_HOSTNAME")
        return [os.environ.get(name) for name in names], sys.executable

    home = os.environ["HOME"]
    monkeypatch.setenv("OF_THE_DRIVER", "1")
    monkeypatch.setenv("HOME", "/of/the/driver")
    results = horovod.spark.run(variables, num_proc=2, use_mpi=True, extra_mpi_args=mpi_args, env={"GIVEN": "yes"})
    assert results == 2 * [(["yes", None, home, host_hash()], os.environ["PYSPARK_PYTHON"])]


def test_an_exception_is_raised_with_rank_and_traceback(spark: Any, mpi_args: str) -> None:
    import horovod.spark

    with pytest.raises(RuntimeError) as caught:
        horovod.spark.run(worker_that_fails(), num_proc=2, use_mpi=True, extra_mpi_args=mpi_args)
    text = str(caught.value)
    assert text.startswith("mpirun failed with exit code 1\nHorovod detected that one or more processes exited")
    assert re.search(r"\nRank 1 on host \S+ \(Spark task \d\) raised KeyError: 'labels'\n", text) and "in fail" in text


def test_the_loss_of_a_task_is_the_reason(spark: Any, tmp_path: Path) -> None:
    import horovod.spark

    def end_the_agent_of_the_task() -> None:
        import horovod.numpy as hvd
        import psutil

        hvd.init()
        if hvd.rank() == 1:
            [each for each in psutil.Process().parents() if each.name() == "farandole"][-1].kill()
        while True:
            hvd.barrier()

    with pytest.raises(RuntimeError, match=r"the Spark job of the workers has failed: .*the agent ended with"):
        horovod.spark.run(
            end_the_agent_of_the_task, num_proc=2, use_mpi=True, extra_mpi_args=f"-mca orte_tmpdir_base {tmp_path}"
        )


@pytest.mark.parametrize(
    "options, words",
    [
        ({"extra_mpi_args": " --no-such-option"}, ["mpirun failed with exit code 1", "unknown option"]),
        ({"executable": "/no/such/python"}, ["mpirun failed with exit code 127", "/no/such/python"]),
        ({"env": {"PATH": "/nowhere"}}, ["mpirun: command not found", "put the mpirun of Open MPI"]),
    ],
    ids=["bad option", "no interpreter", "no mpirun"],
)
def test_a_failure_of_mpirun_is_raised_with_its_cause(
    spark: Any, mpi_args: str, options: Dict[str, Any], words: List[str]
) -> None:
    import horovod.spark

    options = {**options, "extra_mpi_args": mpi_args + options.get("extra_mpi_args", "")}

    with pytest.raises((RuntimeError, ValueError)) as caught:
        horovod.spark.run(os.getpid, num_proc=2, use_mpi=True, **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)
