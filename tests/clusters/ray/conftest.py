"""A Ray cluster on this machine for the tests of a module, and the check that a test leaves nothing behind."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import pytest
import ray
from horovod.ray import RayExecutor
from ray.cluster_utils import Cluster
from ray.util.placement_group import placement_group_table

MARK = "FARANDOLE_TEST_CLUSTER"
"""A variable that all processes of a test's cluster inherit, so that those of other tests are not counted."""
DEADLINE_S = 240.0
"""As in launched.py, which the drivers of these tests cannot import."""
FREE_CPUS = 4
"""Of the cluster, beside those of the fixture ``two``."""
STORE_BYTES = 100 * 2**20


@pytest.fixture(scope="session", autouse=True)
def environment() -> Iterator[None]:
    """Of the processes of all clusters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv(MARK, uuid.uuid4().hex)
        here = str(Path(__file__).parent)  # so that workers find the functions of the tests
        patch.setenv("PYTHONPATH", os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), here]))
        yield


@pytest.fixture(scope="session")
def cluster(environment: None) -> Iterator[Cluster]:
    """A node with six CPUs, four GPUs that do not exist, and three names; tests may add other nodes."""
    options = {
        "num_cpus": FREE_CPUS + 2,
        "num_gpus": 4,
        "resources": {f"node:host-{number}": 100 for number in (1, 2, 3)},
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
    }
    nodes = Cluster(initialize_head=True, head_node_args=options)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def wait_until(condition: Callable[[], bool], message: Callable[[], str], longest_s: float = DEADLINE_S) -> None:
    """Waits for a condition; the test fails with the message if it is not true in time."""
    deadline = time.monotonic() + longest_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(message())
        time.sleep(0.02)


def processes(*words: str) -> List[str]:
    """The command lines of this test's processes that contain one of the words."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if any(word in command for word in words) and mark in (folder / "environ").read_bytes():
                    found.append(f"{folder.name} {command}")
            except OSError:  # it has ended, or belongs to another user
                continue
    return found


def actors() -> List[str]:
    """The actors that are not dead."""
    from ray._private.state import state

    table = state.actor_table(None)
    return [f"{each['ActorClassName']} {name}" for name, each in table.items() if str(each["State"]) != "DEAD"]


def groups() -> List[str]:
    """The placement groups that are not removed."""
    return [f"group {name}" for name, each in placement_group_table().items() if each["state"] != "REMOVED"]


def present() -> List[str]:
    """All that jobs may leave in the cluster and on this machine."""
    return [*actors(), *groups(), *processes("farandole rendezvous", "farandole run", "ray::BaseHorovodWorker")]


SETTINGS = RayExecutor.create_settings(timeout_s=200, placement_group_timeout_s=200)


@pytest.fixture
def start(nothing_is_left: Account) -> Iterator[Callable[..., RayExecutor]]:
    """A function that creates an executor with these arguments, and starts it. It is shut down after the test."""
    executors = []

    def create(*arguments: Any, settings: Any = SETTINGS, **options: Any) -> RayExecutor:
        executors.append(RayExecutor(settings, **options))
        executors[-1].start(*arguments)
        return executors[-1]

    yield create
    for executor in executors:
        executor.shutdown()


@pytest.fixture(scope="session")
def two(cluster: Cluster) -> Iterator[RayExecutor]:
    """Two workers, which all tests share that leave them as they were."""
    executor = RayExecutor(SETTINGS, num_workers=2)
    executor.start()
    yield executor
    executor.shutdown()


class Account:
    """The state of the cluster and of this process at a time."""

    def __init__(self) -> None:
        self._present = present()
        self._variables = self._settings()

    @staticmethod
    def _settings() -> Dict[str, str]:
        return {name: value for name, value in os.environ.items() if name.startswith(("HOROVOD_", "FARANDOLE_"))}

    def added(self) -> List[str]:
        """All that jobs have left since then."""
        return [each for each in present() if each not in self._present]

    def require_nothing_added(self) -> None:
        """Waits until nothing is left since then. No variable of a job is left in this process."""
        wait_until(lambda: not self.added(), lambda: "\n".join(self.added()))
        assert self._settings() == self._variables
        wait_until(lambda: ray.available_resources().get("CPU") == FREE_CPUS, lambda: f"{ray.available_resources()}")


@pytest.fixture
def nothing_is_left(two: RayExecutor) -> Iterator[Account]:
    """After the test, the cluster is as it was before."""
    account = Account()
    yield account
    account.require_nothing_added()
