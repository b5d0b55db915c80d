"""Runs one elastic job on Ray: the launcher decides which nodes get workers, and each worker is an actor."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import ray

from farandole.ray.calls import CAUSE_S
from farandole.ray.discovery import NODE_SHARE
from farandole.ray.environment import settings_in_environment
from farandole.ray.errors import Failure, Place, cause_of
from farandole.ray.functions import sendable
from farandole.ray.strategy import resources_of, shortage
from farandole.ray.worker import BaseHorovodWorker, Ended, Node
from farandole.runner.arguments import _HorovodArgs
from farandole.runner.common.util.hosts import SlotInfo
from farandole.runner.elastic.driver import ElasticDriver
from farandole.runner.elastic.rendezvous import create_rendezvous_handler
from farandole.runner.functions import job_secret
from farandole.runner.http.http_server import RendezvousServer
from farandole.runner.util import network

ENDING_S = 60.0
"""How long the end of a job in the cluster is awaited; its launcher kills workers long before."""
UNLIMITED = 65536
"""The most workers of a job without a maximum."""
SHOWN = 5
"""How many failures the error of a job names beside its cause."""
_OF_THE_LAUNCHER = (job_secret.FILE_VARIABLE, job_secret.TEXT_VARIABLE, "FARANDOLE_LAUNCHER_PROCESS")
"""Variables that hold on the launcher's node alone."""


@dataclass
class ElasticJob:
    """The parameters of an elastic job."""

    discovery: Any
    min_workers: int
    max_workers: Optional[int] = None
    reset_limit: Optional[int] = None
    cooldown_range: Optional[Tuple[int, int]] = None
    elastic_timeout: float = 600
    start_timeout: int = 30
    nics: Optional[Sequence[str]] = None
    verbose: int = 0
    cpus_per_worker: int = 1
    gpus_per_worker: int = 0
    variables: Dict[str, Any] = field(default_factory=dict)
    """Of the workers, in addition to those of the job."""
    executable: Tuple[Optional[type], Optional[List[Any]], Optional[Dict[str, Any]]] = (None, None, None)
    """The class of the workers' objects, and its arguments."""


class ElasticRun:
    """One run of a job."""

    def __init__(self, job: ElasticJob) -> None:
        self._job = job
        self._rendezvous = RendezvousServer(job.verbose)
        self._driver = ElasticDriver(
            self._rendezvous,
            job.discovery,
            job.min_workers,
            job.max_workers or UNLIMITED,
            timeout=job.elastic_timeout,
            reset_limit=job.reset_limit,
            cooldown_range=job.cooldown_range,
            verbose=job.verbose,
        )

    def stop(self) -> None:
        """Ends the job from another thread."""
        self._driver.stop("shutdown() has ended the job before it was complete")

    def results(self, function: Callable[[Any], Any], queue: Any) -> List[Any]:
        """Runs the job to its end. Returns the results of the workers that have finished, in the order of their ranks;
        ``RuntimeError`` if the job fails, and ``TimeoutException`` if there are too few slots.

        :param function: gets the worker's object
        :param queue: of ``ray_logger.log()``; None: there is none
        """
        job = self._job
        address = network.get_driver_ip(job.nics) if job.nics else ray.util.get_node_ip_address()
        self._rendezvous.address = address
        arguments = _HorovodArgs()
        arguments.caller_address, arguments.start_timeout = address, job.start_timeout
        arguments.verbose = job.verbose >= 2
        arguments.nics = set(job.nics) if job.nics else None
        with contextlib.ExitStack() as ending:
            self._rendezvous.start(create_rendezvous_handler(self._driver))
            ending.callback(self._rendezvous.stop)
            self._driver.wait_for_available_slots(job.min_workers)
            secret = job_secret.read_secret(self._rendezvous.secret_file)
            actors = _Actors(job, function, secret, queue)
            ending.callback(self._driver.stop)
            with settings_in_environment(job.variables):
                self._driver._start(job.min_workers, actors.run, arguments, dict(os.environ))
            outcome = self._driver.get_results()
        if outcome.error_message is not None:
            raise actors.error(outcome.error_message)
        return actors.values()


class _Actors:
    """The workers of a run. ``run`` is called in a thread for each of them."""

    def __init__(self, job: ElasticJob, function: Callable[[Any], Any], secret: str, queue: Any) -> None:
        self._job, self._secret, self._queue = job, secret, queue
        self._function = sendable(function)
        self._lock = threading.Lock()
        self._placed = 0
        """The workers that run on a node."""
        self._ended: List[Ended] = []
        self._failures: List[Failure] = []

    def run(self, slot_info: SlotInfo, variables: Dict[str, str], events: List[threading.Event]) -> Tuple[int, float]:
        """Runs a worker in an actor until it ends. Returns its exit code and the time of its end."""
        node: Optional[Node] = None
        actor = self._create(slot_info)
        try:
            watcher = threading.Thread(target=_kill_at, args=(events[-1], actor), daemon=True)
            watcher.start()
            node = self._node_of(actor, slot_info)
            calls = [actor.keep_secret.remote(self._secret), actor.set_queue.remote(self._queue)]
            calls.append(actor.update_env_vars.remote(self._variables(node, variables)))
            calls.append(actor.start_executable.remote(*self._job.executable))
            calls.append(actor.execute_to_end.remote(self._function))
            ended: Ended = ray.get(calls)[-1]
        except Exception as problem:
            if not events[-1].is_set():  # otherwise the launcher has ended the worker
                with self._lock:
                    self._failures.append(Failure(Place(slot_info.rank, node), problem))
            return 1, time.time()
        finally:
            with self._lock:
                self._placed -= node is not None
            ray.kill(actor)
        with self._lock:
            self._ended.append(ended)
        return ended.code, time.time()

    def _node_of(self, actor: Any, slot_info: SlotInfo) -> Node:
        """Waits until Ray has found room for an actor. ``TimeoutError`` if the job lacks workers meanwhile."""
        job, node = self._job, actor.node.remote()
        while not ray.wait([node], timeout=job.elastic_timeout)[0]:
            with self._lock:
                is_short = self._placed < job.min_workers
            if is_short:
                wanted = resources_of(job.cpus_per_worker, job.gpus_per_worker > 0, job.gpus_per_worker)
                unmet = f"start a worker with {wanted} on node {slot_info.hostname}"
                raise shortage(unmet, job.elastic_timeout, "elastic_timeout=...")
        found: Node = ray.get(node)
        with self._lock:
            self._placed += 1
        return found

    def _create(self, slot_info: SlotInfo) -> Any:
        actor = ray.remote(BaseHorovodWorker).options(
            num_cpus=self._job.cpus_per_worker,
            num_gpus=self._job.gpus_per_worker,
            resources={f"node:{slot_info.hostname}": NODE_SHARE},
        )
        return actor.remote(world_rank=slot_info.rank, world_size=slot_info.size)

    def _variables(self, node: Node, variables: Dict[str, str]) -> Dict[str, Any]:
        own = {name: value for name, value in variables.items() if name not in _OF_THE_LAUNCHER}
        if self._job.gpus_per_worker:  # a worker sees all GPUs of its node, and picks one by local_rank()
            own["CUDA_VISIBLE_DEVICES"] = ",".join(_gpus_of(node))
        return {**own, **self._job.variables}

    def values(self) -> List[Any]:
        """The results of the functions that have returned, by rank."""
        with self._lock:
            finished = [ended for ended in self._ended if ended.has_value]
        return [ended.value for ended in sorted(finished, key=lambda ended: ended.rank)]

    def error(self, message: str) -> RuntimeError:
        """The exception for a job that has failed with this message of the launcher."""
        with self._lock:
            failures = list(self._failures)
        if not failures:
            return RuntimeError(message)
        own = [failure for failure in failures if not failure.is_consequence] or failures
        late = [failure for failure in own if failure.at > own[-1].at - CAUSE_S]
        cause = cause_of(late).error()
        # The job may have survived the others, or have waited in vain since one of them.
        earlier = [str(failure.error()).partition("\n")[0] for failure in own if failure not in late][-SHOWN:]
        problem = RuntimeError("\n".join([message, str(cause), *(f"An earlier failure: {line}" for line in earlier)]))
        problem.__cause__ = cause.__cause__
        return problem


def _kill_at(event: threading.Event, actor: Any) -> None:
    """Kills an actor when the event is set, which happens at the latest at the end of the job."""
    event.wait()
    ray.kill(actor)


def _gpus_of(node: Node) -> List[str]:
    """The GPUs that Ray gives to workers of a node."""
    count = next(int(each["Resources"].get("GPU", 0)) for each in ray.nodes() if each["NodeID"] == node.node_id)
    return [*(node.visible_gpus or map(str, range(count)))][:count]


class ClusterRun:
    """An ``ElasticRun`` in an actor of the cluster, for drivers that are clients of it: workers cannot connect to
    them."""

    def __init__(self, job: ElasticJob) -> None:
        actor = ray.remote(ElasticRun).options(num_cpus=0, max_concurrency=2)  # stop() beside results()
        self._run = actor.remote(job)

    def stop(self) -> None:
        """As of ``ElasticRun``."""
        ray.wait([self._run.stop.remote()], timeout=ENDING_S)  # the call fails after the end of the actor

    def results(self, function: Callable[[Any], Any], queue: Any) -> List[Any]:
        """As of ``ElasticRun``."""
        try:
            return list(ray.get(self._run.results.remote(function, queue)))
        finally:
            with contextlib.suppress(Exception):  # of a lost cluster, which would hide the one of the job
                try:
                    self.stop()  # after Ctrl-C, the job still runs
                finally:
                    ray.kill(self._run)
