"""Tasks with the environments that YARN and Databricks give to those of Spark: where their workers run, and on what.

The environments are examples that were written by hand. They were not captured in such a cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest
from farandole.runner import placing
from farandole.spark.cluster import WORKER_COMMAND
from farandole.spark.task.task_info import RESOURCES_VARIABLE

DEADLINE_S = 240
ENVIRONMENTS = json.loads(Path(__file__).with_name("cluster_environments.json").read_text())
TASK = """
import json, socket, sys
from types import SimpleNamespace
import pyspark
from farandole.spark.task import agent_program

task = json.loads(sys.stdin.readline())
resources = {kind: SimpleNamespace(addresses=found) for kind, found in task["resources"].items()}
context = SimpleNamespace(attemptNumber=lambda: 0, resources=lambda: resources)
pyspark.TaskContext.get = staticmethod(lambda: context)
socket.gethostname = lambda: task["host"]
list(agent_program.serve(task["index"], task["plan"]))
"""
"""A process in the place of Spark's Python worker."""


class ExampleTasks:
    """A placer for tasks with an example environment."""

    def __init__(self, example: Dict[str, Any]) -> None:
        self.example = example
        self.problem: Optional[Exception] = None
        self.wake: Callable[[], None] = lambda: None
        self.places: List[str] = []
        self.processes: List[subprocess.Popen[str]] = []

    def start(self, launcher: str, secret: str) -> None:
        import farandole

        plan = {
            "launcher": launcher,
            "secret": secret,
            "version": farandole.__version__,
            "dial_timeout_s": DEADLINE_S,
            "executable": None,
            "resources_variable": RESOURCES_VARIABLE,
            "is_elastic": False,
            "failures": 1,
        }
        for index, task in enumerate(self.example["tasks"]):
            kept = ("PATH", "PYTHONPATH", "TEST_RUN_MARK")
            environment = {name: os.environ[name] for name in kept if name in os.environ}
            environment.update(self.example["environment"], FARANDOLE_HOST_ID=task["host"])
            process = subprocess.Popen([sys.executable, "-c", TASK], stdin=subprocess.PIPE, env=environment, text=True)
            assert process.stdin is not None
            process.stdin.write(json.dumps({**task, "index": index, "plan": plan}) + "\n")
            process.stdin.flush()
            self.processes.append(process)

    def connected(self, place: str) -> None:
        self.places.append(place)

    def lost(self, problem: Exception) -> Exception:
        return problem

    def close(self, has_succeeded: bool) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(DEADLINE_S)


def describe() -> Any:
    import horovod.numpy as hvd
    from horovod.spark.task import get_available_devices

    hvd.init()
    found = {name: os.environ.get(name) for name in ("HOME", "CONTAINER_ID", "DATABRICKS_RUNTIME_VERSION")}
    place = (hvd.rank(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank())
    return place, os.environ["HOROVOD_HOSTNAME"], get_available_devices(), sys.executable, found


@pytest.mark.parametrize(
    "system, devices",
    [
        ("yarn", ["1", "0", "0", "1"]),
        pytest.param("databricks", ["0", "1", "0", "1"], marks=pytest.mark.slow),
    ],
)
def test_workers_run_on_the_hosts_with_the_gpus_and_the_environment_of_their_tasks(
    system: str, devices: List[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = ExampleTasks(ENVIRONMENTS[system])
    options = placing.Options(address="127.0.0.1", start_timeout_s=DEADLINE_S, worker_command=WORKER_COMMAND)
    for name in ("HOME", "DATABRICKS_RUNTIME_VERSION", "CONTAINER_ID"):
        monkeypatch.setenv(name, f"of the driver: {name}")
    results = placing.run(describe, (), {}, tasks, placing.Sizes(4), options)
    hosts = [task["host"] for task in tasks.example["tasks"]]
    assert sorted(tasks.places) == sorted(f"{host.replace('.', '-')}-task-{i}" for i, host in enumerate(hosts))
    # Ranks of a host are adjacent, although the tasks of the hosts alternate.
    assert [each[0] for each in results] == [(0, 0, 2, 0), (1, 1, 2, 0), (2, 0, 2, 1), (3, 1, 2, 1)]
    names = [each[1] for each in results]
    assert names[0] == names[1] != names[2] == names[3]
    assert [names[0].rsplit("-", 1)[0], names[2].rsplit("-", 1)[0]] == [host.split(".")[0] for host in hosts[:2]]
    assert [each[2] for each in results] == [[device] for device in devices]
    expected = tasks.example["environment"]
    for *_, interpreter, found in results:
        assert interpreter == sys.executable
        assert found == {name: expected.get(name) for name in found}
