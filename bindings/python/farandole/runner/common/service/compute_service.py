"""Lets the dispatchers and workers of a data service (such as tf.data's) find one another, and tells them to end.

A job that computes runs one ``ComputeService``. Its dispatchers and workers, and the processes that read the data, ask
it with a ``ComputeClient``. Both must have the same key; see ``farandole.runner.common.util.network``.
"""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, Iterable, Optional, Set, Tuple

from farandole.runner.common.util import network
from farandole.runner.common.util.timeout import TimeoutException

Worker = Tuple[int, int]
"""The id of a dispatcher, and the id of one of its workers."""

_POLL_S = 15.0
"""After this time the service answers a wait for its shutdown, and the client asks again. So a client notices within
this time and ``_ANSWER_S`` that the host of the service is gone."""
_ANSWER_S = 10.0
"""The time that a client grants the service for an answer, besides the time that a request itself may wait."""
_FAREWELL_S = 2.0
"""The longest time for which ``ComputeService.shutdown()`` waits until all workers know of it."""


@dataclass
class RegisterDispatcherRequest:
    """A dispatcher has started."""

    dispatcher_id: int
    dispatcher_address: str


@dataclass
class WaitForDispatcherRegistrationRequest:
    """Asks for the address of a dispatcher, which may not have started yet."""

    dispatcher_id: int
    timeout: float


@dataclass
class WaitForDispatcherRegistrationResponse:
    """The address of a dispatcher."""

    dispatcher_address: str


@dataclass
class RegisterDispatcherWorkerRequest:
    """A worker of a dispatcher has started."""

    dispatcher_id: int
    worker_id: int


@dataclass
class WaitForDispatcherWorkerRegistrationRequest:
    """Waits until all workers of a dispatcher have started."""

    dispatcher_id: int
    timeout: float


class ShutdownRequest:
    """Tells all dispatchers and workers to end."""


@dataclass
class WaitForShutdownRequest:
    """Waits until the dispatchers and workers are told to end, for a limited time."""

    workers: FrozenSet[Worker] = frozenset()
    """The workers that learn it from the answer."""


class _NotShutDownResponse:
    """The time of a ``WaitForShutdownRequest`` has passed; the client asks again."""


@dataclass
class _Refusal:
    """A request cannot be answered; the client raises the exception."""

    problem: Exception


class ComputeService(network.BasicService):
    """Knows the dispatchers and their workers. It serves processes that have its key, until ``shutdown()``."""

    NAME = "compute service"
    when_ready: Callable[[], None] = staticmethod(lambda: None)
    """Called once, in a thread of the service, when all dispatchers and workers have started. Set it before others get
    the key."""

    def __init__(
        self, dispatchers: int, workers_per_dispatcher: int, key: bytes, nics: Optional[Iterable[str]] = None
    ) -> None:
        """
        :param dispatchers: number of dispatchers
        :param workers_per_dispatcher: number of workers of each
        :param key: the key of requests and responses
        :param nics: interfaces that the service offers; with one interface it listens at its address alone, without
            any on all interfaces
        """
        self._count = dispatchers
        self._workers_per_dispatcher = workers_per_dispatcher
        self._changed = threading.Condition()
        self._addresses_by_id: Dict[int, str] = {}
        self._workers: Dict[int, Set[int]] = {each: set() for each in range(dispatchers)}
        self._is_ready = False
        self._is_shut_down = False
        self._told: Set[Worker] = set()
        self._answering: Set[int] = set()
        """The threads that have an answer which is not sent yet."""
        super().__init__(self.NAME, key, nics)

    def _answer(self, stream: socket.socket, client_address: Tuple[str, int]) -> None:
        try:
            super()._answer(stream, client_address)
        finally:
            with self._changed:
                self._answering.discard(threading.get_ident())
                self._changed.notify_all()

    def _handle(self, req: Any, client_address: Tuple[str, int]) -> Any:
        with self._changed:
            self._answering.add(threading.get_ident())
        try:
            return self._answer_to(req, client_address)
        except (IndexError, ValueError, TimeoutException) as problem:
            return _Refusal(problem)

    def _answer_to(self, req: Any, client_address: Tuple[str, int]) -> Any:
        if isinstance(req, RegisterDispatcherRequest):
            self._register(req.dispatcher_id, req.dispatcher_address)
        elif isinstance(req, WaitForDispatcherRegistrationRequest):
            self._require(req.dispatcher_id)
            self._wait(lambda: req.dispatcher_id in self._addresses_by_id, req, "was not registered")
            return WaitForDispatcherRegistrationResponse(self._addresses_by_id[req.dispatcher_id])
        elif isinstance(req, RegisterDispatcherWorkerRequest):
            self._register_worker(req.dispatcher_id, req.worker_id)
        elif isinstance(req, WaitForDispatcherWorkerRegistrationRequest):
            self._require(req.dispatcher_id)
            workers, count = self._workers[req.dispatcher_id], self._workers_per_dispatcher
            self._wait(lambda: len(workers) >= count, req, "did not get all of its workers")
        elif isinstance(req, ShutdownRequest):
            self._shut_down()
        elif isinstance(req, WaitForShutdownRequest):
            with self._changed:
                if not self._changed.wait_for(lambda: self._is_shut_down, _POLL_S):
                    return _NotShutDownResponse()
                self._told |= req.workers
        else:
            return super()._handle(req, client_address)
        return network.AckResponse()

    def _require(self, dispatcher_id: int) -> None:
        if not 0 <= dispatcher_id < self._count:
            raise IndexError(f"there is no dispatcher {dispatcher_id}: the service has {self._count}, from 0 on")

    def _register(self, dispatcher_id: int, address: str) -> None:
        self._require(dispatcher_id)
        with self._changed:
            known = self._addresses_by_id.setdefault(dispatcher_id, address)
            if known != address:
                raise ValueError(
                    f"dispatcher {dispatcher_id} is registered at {known} and cannot register again at {address}; give "
                    "each dispatcher its own id, and each training job its own compute job"
                )
            self._changed.notify_all()

    def _register_worker(self, dispatcher_id: int, worker_id: int) -> None:
        self._require(dispatcher_id)
        with self._changed:
            self._workers[dispatcher_id].add(worker_id)
            was_ready = self._is_ready
            # Workers register after their dispatcher.
            self._is_ready = all(len(found) >= self._workers_per_dispatcher for found in self._workers.values())
            is_first = self._is_ready and not was_ready
            self._changed.notify_all()
        if is_first:
            self.when_ready()

    def _wait(self, condition: Callable[[], bool], request: Any, failure: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._is_shut_down, max(0.0, request.timeout))
            if not condition():
                end = "before the service was shut down" if self._is_shut_down else f"within {request.timeout} s"
                raise TimeoutException(
                    f"dispatcher {request.dispatcher_id} {failure} {end}; {self._state()}; check that the jobs "
                    "with the dispatchers and the workers run, and start them with a longer timeout if they are slow"
                )

    def _state(self) -> str:
        """The dispatchers and workers that are registered. The caller holds the lock."""
        workers = ", ".join(
            f"{len(found)} of {self._workers_per_dispatcher} workers of dispatcher {dispatcher}"
            for dispatcher, found in self._workers.items()
        )
        return f"registered are {len(self._addresses_by_id)} of {self._count} dispatchers, and {workers}"

    def _shut_down(self) -> None:
        with self._changed:
            self._is_shut_down = True
            self._changed.notify_all()

    def shutdown(self) -> None:
        """Ends all waits, and stops answering as soon as the registered workers know of it, or after 2 seconds."""
        self._shut_down()
        with self._changed:
            registered = {(dispatcher, each) for dispatcher, found in self._workers.items() for each in found}
            self._changed.wait_for(lambda: self._told >= registered and not self._answering, _FAREWELL_S)
        super().shutdown()


class ComputeClient(network.BasicClient):
    """Registers dispatchers and workers with a service, and waits for them.

    Every call raises ``ConnectionError`` when the service does not answer any more.
    """

    def __init__(self, compute_addresses: network.Addresses, key: bytes, verbose: int = 1) -> None:
        """Finds the addresses at which the service answers; ``NoValidAddressesFound`` if there are none.

        :param compute_addresses: those of ``ComputeService.addresses()``
        :param key: the key of the service
        """
        self._registered: FrozenSet[Worker] = frozenset()
        super().__init__(ComputeService.NAME, compute_addresses, key, verbose)

    def _send_to(self, address: Tuple[str, int], request: Any, timeout_s: Optional[float]) -> Any:
        if timeout_s is None:
            waiting_s = _POLL_S if isinstance(request, WaitForShutdownRequest) else getattr(request, "timeout", 0.0)
            timeout_s = waiting_s + _ANSWER_S
        return super()._send_to(address, request, timeout_s)

    def _send(self, req: Any) -> Any:
        response = super()._send(req)
        if isinstance(response, _Refusal):
            raise response.problem
        return response

    def register_dispatcher(self, dispatcher_id: int, dispatcher_address: str) -> None:
        """A dispatcher has started at this address."""
        self._send(RegisterDispatcherRequest(dispatcher_id, dispatcher_address))

    def wait_for_dispatcher_registration(self, dispatcher_id: int, timeout: float) -> str:
        """The address of a dispatcher; ``TimeoutException`` if it does not start in time."""
        address: str = self._send(WaitForDispatcherRegistrationRequest(dispatcher_id, timeout)).dispatcher_address
        return address

    def register_worker_for_dispatcher(self, dispatcher_id: int, worker_id: int) -> None:
        """A worker of a dispatcher has started."""
        self._send(RegisterDispatcherWorkerRequest(dispatcher_id, worker_id))
        self._registered |= {(dispatcher_id, worker_id)}

    def wait_for_dispatcher_worker_registration(self, dispatcher_id: int, timeout: float) -> None:
        """Waits for all workers of a dispatcher; ``TimeoutException`` if they do not start in time."""
        self._send(WaitForDispatcherWorkerRegistrationRequest(dispatcher_id, timeout))

    def shutdown(self) -> None:
        """Tells all dispatchers and workers to end."""
        self._send(ShutdownRequest())

    def wait_for_shutdown(self) -> None:
        """Waits until they are told to end. The wait has no limit, but ``ConnectionError`` ends it when the service is
        gone."""
        while isinstance(self._send(WaitForShutdownRequest(self._registered)), _NotShutDownResponse):
            pass
