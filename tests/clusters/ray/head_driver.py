"""A cluster of two nodes whose head is lost while jobs run: ``head_driver.py FOLDER``. The jobs are driven from the
other node, and each writes its outcome to a file of the folder."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy
import psutil
import ray
from conftest import STORE_BYTES, wait_until
from horovod.ray import RayExecutor
from horovod.runner.elastic.discovery import FixedHosts
from ray.cluster_utils import Cluster

WAIT_S = 180
"""The longest that the two jobs may take to start, and Ray to end processes after its own timeout."""


def joined(kind: str) -> None:
    import farandole.numpy as hvd

    Path(os.environ["FOLDER"], f"{kind}.{hvd.rank()}.joined").touch()


def fixed() -> None:
    """Waits in a collective that the worker on the head never joins."""
    import farandole.numpy as hvd

    hvd.init()
    hvd.barrier()
    joined("fixed")
    if ray.get_runtime_context().get_node_id() == os.environ["HEAD"]:
        threading.Event().wait()
    hvd.allreduce(numpy.ones(1))


def elastic() -> int:
    """Trains until the worker on the head is lost; returns the size of the job."""
    import farandole.numpy as hvd

    hvd.init()

    @hvd.elastic.run
    def loop(state: Any) -> int:
        while not (state.was_two and hvd.size() == 1):
            hvd.allreduce(numpy.ones(1))
            if hvd.size() == 2 and not state.was_two:
                joined("elastic")
            state.was_two = state.was_two or hvd.size() == 2
            state.commit()
        return int(hvd.size())

    return int(loop(hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, was_two=False)))


class Driver:
    """Runs a job, and writes its results or its error to a file before the shutdown, which waits for the head."""

    def run(self, train: Callable[[], Any], variables: Dict[str, str], **options: Any) -> None:
        settings = RayExecutor.create_settings()
        settings.discovery = FixedHosts({"host-1": 1, "host-2": 1})
        executor = RayExecutor(settings, **options)
        executor.start(extra_env_vars=variables)
        try:
            text = f"results: {executor.run(train)}"
        except Exception as problem:
            text = f"{type(problem).__name__}: {problem}"
        partial = Path(variables["FOLDER"], f"{train.__name__}.partial")
        partial.write_text(text)
        partial.rename(partial.with_suffix(".outcome"))
        executor.shutdown()


def tree_of(node: Any) -> List[psutil.Process]:
    """The processes of a node."""
    roots = [psutil.Process(each.process.pid) for kind in node.all_processes.values() for each in kind]
    return roots + [child for root in roots for child in root.children(True)]


def main() -> None:
    folder = Path(sys.argv[1])
    common = {"include_dashboard": False, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"node:host-1": 100}, **common})
    cluster.add_node(num_cpus=2, resources={"node:host-2": 100}, **common)
    (other,) = cluster.worker_nodes
    ray.init(address=cluster.address, log_to_driver=False, logging_level="CRITICAL")
    on_other = {"num_cpus": 0, "lifetime": "detached", "resources": {"node:host-2": 0.001}}
    variables = {"FOLDER": str(folder), "HEAD": cluster.head_node.node_id}
    drivers = [ray.remote(Driver).options(**on_other).remote() for _ in range(2)]
    drivers[0].run.remote(fixed, variables, num_hosts=2)
    drivers[1].run.remote(elastic, variables, min_workers=1, max_workers=2, override_discovery=False)
    wait_until(lambda: len(list(folder.glob("*.joined"))) == 4, lambda: f"joined: {list(folder.iterdir())}", WAIT_S)
    ray.shutdown()  # otherwise Ray would end this process, too
    remaining = tree_of(other)
    for process in tree_of(cluster.head_node):
        process.kill()
    wait_until(lambda: len(list(folder.glob("*.outcome"))) == 2, lambda: f"found: {list(folder.iterdir())}", WAIT_S)
    # Ray ends the node's workers when it has not reached the head for a time, and with them the processes of jobs.
    ours = [each for each in remaining if is_of_job(each)]
    _, left = psutil.wait_procs(ours, WAIT_S)
    for process in remaining:
        if process.is_running():
            process.kill()
    sys.exit(f"of {ours} are left: {left}" if left or len(ours) < 2 else 0)


def is_of_job(process: psutil.Process) -> bool:
    """Whether this is a worker, or a ``farandole run`` or ``farandole rendezvous``."""
    with contextlib.suppress(psutil.Error):
        return any(word in " ".join(process.cmdline()) for word in ("farandole r", "ray::BaseHorovodWorker"))
    return False


if __name__ == "__main__":
    main()
