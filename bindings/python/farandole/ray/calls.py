"""Waits for the calls of a job's actors, and passes logged values on meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import ray
from ray.util.queue import Queue
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from farandole.ray.errors import Failure, Place, cause_of
from farandole.ray.ray_logger import UNAVAILABLE
from farandole.ray.strategy import PLACING_SETTING, shortage

CAUSE_S = 0.7
"""How long a failure that follows from another worker's waits for that one, which may be reported later."""
OTHERS_S = 0.2
"""How long the other calls may still run after a function has failed, before they are interrupted."""
UNAVAILABLE_S = 30.0
"""How long the end of the values is sent again while Ray cannot reach the queue. The queue is then removed."""
RETRY_S = 0.1
"""Seconds between two attempts to reach the queue."""


class LogQueue:
    """Passes the values of ``ray_logger.log()`` to callbacks, in the order in which they were logged.

    While Ray cannot reach the queue for a moment, values may be lost, but never the end of the values. A call of
    ``get`` that has failed may still be pending in the queue and take a value. So the end is sent once for each of
    these calls, and once more.
    """

    def __init__(self, callbacks: Sequence[Callable[[Any], Any]]) -> None:
        self._callbacks = callbacks
        # On the node of this process: with another one, a job could lose its queue although it loses no worker.
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": here})
        self._next: Any = self.queue.actor.get.remote()
        """The pending call of ``get``; None after the queue was lost, for example with its node. The calls of the
        workers then report the cause."""
        # A thread that delivers increments the first and then reads the second; end() sets the second and then reads
        # the first. So one of them sees the change of the other.
        self._failed_gets = 0
        self._is_ending = False

    def references(self) -> List[Any]:
        """The reference that is ready when a value has been logged; none if the queue is lost."""
        return [] if self._next is None else [self._next]

    def deliver(self, ready: Sequence[Any]) -> bool:
        """Calls the callbacks if the reference is among those that are ready. Returns False for the end."""
        if self._next not in ready:
            return True
        try:
            value = ray.get(self._next)
        except UNAVAILABLE:
            self._failed_gets += 1
            if self._is_ending:
                self._put_ends(1)
            time.sleep(RETRY_S)
            self._next = self.queue.actor.get.remote()
            return True
        except ray.exceptions.RayActorError:
            self._next = None
            return False
        self._next = self.queue.actor.get.remote()
        if isinstance(value, _End):
            return False
        for callback in self._callbacks:
            callback(value)
        return True

    def wait(self) -> List[Any]:
        """Waits until a value has been logged, and returns ``references()``."""
        ray.wait(self.references())
        return self.references()

    def end(self) -> None:
        """Lets ``deliver()`` return False after all values that were logged before this call, or when the queue is
        lost."""
        self._is_ending = True
        self._put_ends(1 + self._failed_gets)

    def _put_ends(self, count: int) -> None:
        deadline = time.monotonic() + UNAVAILABLE_S
        while True:
            try:
                return self.queue.put_nowait_batch([_End()] * count)
            except UNAVAILABLE:
                if time.monotonic() > deadline:
                    return self.close()  # so that the pending call of ``get`` fails
                time.sleep(RETRY_S)
            except ray.exceptions.RayActorError:
                return None  # the pending call of ``get`` fails, too

    def deliver_rest(self) -> None:
        """Calls the callbacks for all values that were logged before this call."""
        self.end()
        while self._next is not None and self.deliver(self.references()):
            pass

    def close(self) -> None:
        """Removes the queue. Values that are logged later are dropped."""
        self.queue.shutdown(force=True)


class _End:
    """The value after the last one."""


class Pump:
    """A thread that calls callbacks while another one waits for the job."""

    def __init__(self, logs: LogQueue, end_job: Callable[[], None]) -> None:
        """
        :param end_job: is called if a callback raises an exception
        """
        self._logs, self._end_job = logs, end_job
        self._problem: Optional[BaseException] = None
        self._thread = threading.Thread(target=self._run, name="farandole ray callbacks", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while self._logs.deliver(self._logs.wait()):
                pass
        except BaseException as problem:  # also of sys.exit()
            self._problem = problem
            self._end_job()

    def __enter__(self) -> None:
        """The job runs in this context."""

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        """Waits until all values have been delivered. Raises the exception of a callback, unless the job had failed
        before it."""
        error = None if self._problem is not None else error
        self._logs.end()
        self._thread.join()
        if self._problem is not None and error is None:
            raise self._problem


@contextlib.contextmanager
def log_queue(workers: Sequence[Any], callbacks: Optional[Sequence[Callable[[Any], Any]]]) -> Iterator[Any]:
    """A ``LogQueue`` for these actors; None without callbacks."""
    if not callbacks:
        yield None
        return
    logs = LogQueue(callbacks)
    try:
        for worker in workers:
            worker.set_queue.remote(logs.queue)  # runs before later calls of the same actor
        yield logs
    finally:
        for worker in workers:
            worker.set_queue.remote(None)
        logs.close()


def results_of(
    calls: Dict[Any, Place],
    logs: Optional[LogQueue] = None,
    interrupt: Callable[[List[Place]], None] = lambda failed: None,
    timeout_s: Optional[float] = None,
    demand: str = "",
) -> List[Any]:
    """Waits for the calls, and returns their results in the order of ``calls``. Raises a ``WorkerError`` as soon as the
    cause of a failure is known. The calls of the others may still run then.

    :param calls: object references, and the workers that run the calls
    :param interrupt: is called with the workers that have failed if others still run
    :param timeout_s: ``TimeoutError`` if the calls run longer; None: a function of a user may run as long as it likes
    :param demand: the resources that the workers wait for
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    if logs is None:  # one call of Ray in place of several
        try:
            return list(ray.get(list(calls), timeout=timeout_s))
        except Exception:
            pass  # the failed call is found below
    values: Dict[Any, Any] = {}
    waiting = list(calls)
    while waiting:
        extra = logs.references() if logs is not None else []
        ready, _ = ray.wait([*waiting, *extra], num_returns=1, timeout=_until(deadline))
        if not ready:
            late = ", ".join(str(calls[reference]) for reference in waiting)
            unmet = f"start {len(waiting)} of {len(calls)} workers ({late}), each with {demand},"
            raise shortage(unmet, timeout_s or 0, PLACING_SETTING)
        if logs is not None:
            logs.deliver(ready)
        waiting, found, failures = _take(waiting, calls, ready)
        values.update(found)
        if failures:
            failure = _cause(waiting, calls, failures, interrupt)
            try:
                if logs is not None:
                    logs.deliver_rest()
            finally:  # the exception of a callback would hide that of the job
                raise failure.error() from failure.problem
    if logs is not None:
        logs.deliver_rest()
    return [values[reference] for reference in calls]


def _until(deadline: Optional[float]) -> Optional[float]:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _take(
    waiting: List[Any], calls: Dict[Any, Place], ready: Sequence[Any]
) -> Tuple[List[Any], Dict[Any, Any], List[Failure]]:
    """The calls that still run, the results of the others, and their failures."""
    values, failures = {}, []
    for reference in ready:
        if reference in calls:
            try:
                values[reference] = ray.get(reference)
            except Exception as problem:
                failures.append(Failure(calls[reference], problem))
    return [reference for reference in waiting if reference not in ready], values, failures


def _cause(
    waiting: List[Any],
    calls: Dict[Any, Place],
    failures: List[Failure],
    interrupt: Callable[[List[Place]], None],
) -> Failure:
    """Waits briefly for the failure that has caused the others."""
    deadline = time.monotonic() + CAUSE_S
    while waiting and cause_of(failures).is_consequence and time.monotonic() < deadline:
        ready, _ = ray.wait(waiting, num_returns=1, timeout=_until(deadline))
        waiting, _, others = _take(waiting, calls, ready)
        failures = failures + others
    if waiting and not cause_of(failures).has_died:
        ready, _ = ray.wait(waiting, num_returns=len(waiting), timeout=OTHERS_S)
        waiting, _, others = _take(waiting, calls, ready)
        failures = failures + others
    failure = cause_of(failures)
    if waiting and not failure.has_died:
        interrupt([failed.place for failed in failures])
    return failure
