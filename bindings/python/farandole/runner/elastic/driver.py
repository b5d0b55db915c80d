"""Runs an elastic job whose workers are started by a function of the caller, for tools with their own clusters.

The launcher decides about the job: which hosts get workers, what happens after a failure, and when the job ends. The
driver runs the launcher in a thread, asks the function for each worker that the launcher starts, and keeps an account
of them.
"""

from __future__ import annotations

import math
import os
import threading
import warnings
from typing import Any, Callable, ContextManager, Dict, List, Mapping, Optional, Sequence, Tuple

from farandole.runner.arguments import _HorovodArgs
from farandole.runner.common.util.hosts import INVALID_SLOT_INFO, HostInfo, SlotInfo, get_host_assignments
from farandole.runner.common.util.timeout import Timeout
from farandole.runner.elastic.discovery import HostDiscovery, HostManager
from farandole.runner.elastic.worker import WorkerNotificationClient
from farandole.runner.functions import call, discovery_script, job_secret, placement

DISCOVER_HOSTS_FREQUENCY_SECS = 1.0
"""How often a discovery is asked for the present hosts. Looked up at each use, as is the next one."""
ELASTIC_TIMEOUT_SECS = 600
"""How long a job waits for enough slots, where its settings do not say."""
_INTERVAL_VARIABLE = "FARANDOLE_DISCOVERY_INTERVAL"


def discovery_environment(environment: Mapping[str, str]) -> Dict[str, str]:
    """An environment in which the launcher runs discovery scripts at the interval of this module."""
    return {_INTERVAL_VARIABLE: str(DISCOVER_HOSTS_FREQUENCY_SECS), **environment}


def script_of(discovery: HostDiscovery) -> ContextManager[Any]:
    """A program that prints the hosts of a discovery object, which is asked at the interval of this module."""
    return discovery_script.script_of(discovery, lambda: DISCOVER_HOSTS_FREQUENCY_SECS)


class Results:
    """How the workers of a job have ended."""

    def __init__(self, error_message: Optional[str], worker_results: Dict[str, Tuple[int, float]]) -> None:
        """
        :param error_message: why the job has failed; None: it has not
        :param worker_results: exit code and time of the end of each worker, by "host[local rank]"
        """
        self.error_message = error_message
        self.worker_results = worker_results


class ResultsRecorder:
    """Collects the results of workers that run in threads."""

    def __init__(self) -> None:
        self._error_message: Optional[str] = None
        self._worker_results: Dict[str, Tuple[int, float]] = {}
        self._threads: List[threading.Thread] = []
        self._lock = threading.Lock()

    def expect(self, worker_thread: threading.Thread) -> None:
        """``get_results()`` waits for this thread."""
        with self._lock:
            self._threads.append(worker_thread)

    def set_error_message(self, error_message: Optional[str]) -> None:
        """Why the job has failed; the first message counts."""
        with self._lock:
            if self._error_message is None:
                self._error_message = error_message

    def add_result(self, key: str, value: Tuple[int, float]) -> None:
        """The result of a worker; of a slot that was used again, the last one."""
        with self._lock:
            self._worker_results[key] = value

    def get_results(self) -> Results:
        """Waits for the threads, and returns the results."""
        while True:
            with self._lock:
                thread = self._threads.pop() if self._threads else None
                if thread is None:
                    return Results(self._error_message, dict(self._worker_results))
            thread.join()


class ElasticDriver:
    """An elastic job."""

    def __init__(
        self,
        rendezvous: Any,
        discovery: HostDiscovery,
        min_num_proc: int,
        max_num_proc: Optional[int],
        timeout: Optional[float] = None,
        reset_limit: Optional[int] = None,
        cooldown_range: Optional[Sequence[int]] = None,
        verbose: int = 0,
    ) -> None:
        """
        :param rendezvous: a ``RendezvousServer``, started with the handler that ``create_rendezvous_handler(driver)``
            returns before the driver is started
        :param timeout: seconds to wait for enough slots
        """
        self._rendezvous = rendezvous
        self._discovery = discovery
        self._min_num_proc, self._max_num_proc = min_num_proc, max_num_proc
        self._timeout = timeout
        self._reset_limit, self._cooldown_range, self._verbose = reset_limit, cooldown_range, verbose
        self._host_manager = HostManager(discovery, cooldown_range)
        self.shutdown = threading.Event()
        """When it is set, the job ends."""
        self._finished = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._results = ResultsRecorder()
        self._workers: Optional[placement.PlacedWorkers] = None
        self._lock = threading.Lock()
        self._clients: Dict[Tuple[str, int], WorkerNotificationClient] = {}

    @property
    def _timeout_s(self) -> float:
        return ELASTIC_TIMEOUT_SECS if self._timeout is None else self._timeout

    def start(self, num_proc: int, create_worker_fn: Callable[..., Tuple[int, float]]) -> None:
        """Starts the job, and returns when enough hosts are present.

        :param create_worker_fn: is called in a thread for each worker with its slot and a list of events. It runs the
            worker until it ends or one of the events is set, and returns its exit code and the time. The worker needs
            the variables of ``gloo_run.create_run_env_vars()`` and ``create_slot_env_vars()``
        """
        self.wait_for_available_slots(num_proc)
        arguments = _HorovodArgs()
        arguments.verbose = self._verbose >= 2
        arguments.caller_address = "127.0.0.1"  # the workers know the address of the rendezvous

        def start_worker(slot_info: SlotInfo, _: Dict[str, str], events: List[threading.Event]) -> Tuple[int, float]:
            return create_worker_fn(slot_info, events)

        self._start(num_proc, start_worker, arguments, dict(os.environ))

    def _start(
        self,
        num_proc: int,
        start_worker: placement.StartWorker,
        arguments: Any,
        environment: Dict[str, str],
    ) -> None:
        """Starts the launcher with these arguments, to which those of the driver are added."""
        if self._workers is not None:
            raise RuntimeError("this driver has run a job already; make a new one for each job")
        most = max(num_proc, self._max_num_proc or num_proc)
        sizes = ["-np", str(num_proc), "--min-np", str(self._min_num_proc), "--max-np", str(most)]
        self._rendezvous.serve(sizes)
        arguments.num_proc, arguments.min_num_proc, arguments.max_num_proc = num_proc, self._min_num_proc, most
        arguments.elastic_timeout = math.ceil(self._timeout_s)
        arguments.reset_limit, arguments.cooldown_range = self._reset_limit, self._cooldown_range
        address = self._rendezvous.address or "127.0.0.1"
        arguments.rendezvous = f"{address}:{self._rendezvous.port}"
        environment = discovery_environment(environment)
        environment[job_secret.FILE_VARIABLE] = self._rendezvous.secret_file
        self._workers = placement.PlacedWorkers(start_worker, environment, self.shutdown)
        # A thread that is no daemon would keep an interpreter alive that has forgotten its driver.
        self._thread = threading.Thread(
            target=self._run, args=(arguments, environment), name="farandole elastic driver", daemon=True
        )
        self._results.expect(self._thread)
        self._thread.start()

    def _run(self, arguments: Any, environment: Dict[str, str]) -> None:
        assert self._workers is not None
        try:
            with script_of(self._discovery) as (script, slots):
                arguments.host_discovery_script, arguments.slots = script, slots
                code, lines = placement.run_job(arguments, self._workers, environment, self.shutdown)
            if code != 0:
                self._results.set_error_message(call.failure_text(None, lines, code))
        except Exception as problem:
            self._results.set_error_message(f"the job could not be run: {type(problem).__name__}: {problem}")
        finally:
            for name, result in self._workers.results.items():
                self._results.add_result(name, result)
            self._finished.set()

    def resume(self) -> None:
        """For tools that call it: the launcher starts workers in free slots itself."""

    def stop(self, error_message: Optional[str] = None) -> None:
        """Ends the job, and waits for its end.

        :param error_message: becomes the message of ``get_results()``
        """
        self._results.set_error_message(error_message)
        self.shutdown.set()
        if self._thread is None:
            self._finished.set()
        else:
            self._thread.join()

    def finished(self) -> bool:
        """Whether the job has ended."""
        return self._finished.is_set()

    def get_results(self) -> Results:
        """Waits for the end of the job, and returns the results of its workers."""
        return self._results.get_results()

    def register_worker_server(self, host: str, slot: int, addresses: Any, secret_key: bytes) -> None:
        """Keeps a client of the notification service of a worker."""
        client = WorkerNotificationClient(addresses, secret_key, self._verbose)
        with self._lock:
            self._clients[host, slot] = client

    def get_worker_client(self, slot_info: SlotInfo) -> Optional[WorkerNotificationClient]:
        """The client of the notification service of a worker; None if it has registered none."""
        with self._lock:
            return self._clients.get((str(slot_info.hostname), slot_info.local_rank))

    def record_ready(self, host: str, slot: int) -> None:
        """For tools that call it: workers tell the rendezvous themselves that they are ready."""

    @property
    def host_assignments(self) -> Dict[str, List[SlotInfo]]:
        """The places of the workers that run, by host: older hosts come first, and ranks follow their order."""
        running = self._workers.running if self._workers is not None else []
        counts: Dict[str, int] = {}
        for each in running:
            counts[str(each.hostname)] = counts.get(str(each.hostname), 0) + 1
        assignments: Dict[str, List[SlotInfo]] = {}
        for each in get_host_assignments([HostInfo(*entry) for entry in counts.items()], 0):
            assignments.setdefault(str(each.hostname), []).append(each)
        return assignments

    def world_size(self) -> int:
        """The number of workers that run."""
        return len(self._workers.running) if self._workers is not None else 0

    def local_size(self, host: str) -> int:
        """The number of workers that run on a host."""
        return len(self.host_assignments.get(host, []))

    def get_slot_info(self, host: str, slot: int) -> SlotInfo:
        """The place of a worker; ``INVALID_SLOT_INFO`` if it does not run."""
        places = self.host_assignments.get(host, [])
        return places[slot] if 0 <= slot < len(places) else INVALID_SLOT_INFO

    def has_rank_assignment(self, host: str, slot: int) -> bool:
        """Whether a worker runs in this slot."""
        return self.get_slot_info(host, slot) is not INVALID_SLOT_INFO

    def get_coordinator_info(self) -> Optional[SlotInfo]:
        """The place of rank 0; None if no worker runs."""
        return next((each for places in self.host_assignments.values() for each in places), None)

    def wait_for_available_slots(self, min_num_proc: int, min_hosts: int = 1) -> Any:
        """Waits until so many slots on so many hosts are present, and returns the hosts. ``TimeoutException`` if that
        takes longer than the timeout."""
        deadline = Timeout(
            self._timeout_s,
            "{activity} took longer than {timeout} s: start more hosts, ask for fewer workers, or wait longer "
            "(--elastic-timeout)",
        )
        has_found = False
        while True:
            try:
                self._host_manager.update_available_hosts()
                has_found = True
            except Exception as problem:
                if not has_found:
                    raise
                warnings.warn(
                    f"the hosts of the job stay as they are, because discovery failed: {problem}", stacklevel=2
                )
            hosts = self._host_manager.current_hosts
            found = hosts.count_available_slots(), len(hosts.available_hosts)
            if found[0] >= min_num_proc and found[1] >= min_hosts:
                return hosts
            if self.shutdown.is_set():
                raise RuntimeError("the job has been shut down before enough slots were available")
            deadline.check_time_out_for(
                f"waiting for {min_num_proc} slots on {min_hosts} hosts, of which {found[0]} on {found[1]} were found,"
            )
            self.shutdown.wait(min(DISCOVER_HOSTS_FREQUENCY_SECS, deadline.remaining() + 0.001))
