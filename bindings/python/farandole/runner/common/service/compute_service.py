"""Lets the dispatchers and workers of a data service (such as tf.data's) find one another."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Iterable, Optional, Set, Tuple

from farandole.runner.common.util import network
from farandole.runner.common.util.timeout import TimeoutException


class RegisterDispatcherRequest:
    """A dispatcher has started."""

    def __init__(self, dispatcher_id: int, dispatcher_address: str) -> None:
        self.dispatcher_id = dispatcher_id
        self.dispatcher_address = dispatcher_address


class WaitForDispatcherRegistrationRequest:
    """Asks for the address of a dispatcher, which may not have started yet."""

    def __init__(self, dispatcher_id: int, timeout: float) -> None:
        self.dispatcher_id = dispatcher_id
        self.timeout = timeout


class WaitForDispatcherRegistrationResponse:
    """The address of a dispatcher."""

    def __init__(self, dispatcher_address: str) -> None:
        self.dispatcher_address = dispatcher_address


class RegisterDispatcherWorkerRequest:
    """A worker of a dispatcher has started."""

    def __init__(self, dispatcher_id: int, worker_id: int) -> None:
        self.dispatcher_id = dispatcher_id
        self.worker_id = worker_id


class WaitForDispatcherWorkerRegistrationRequest:
    """Waits until all workers of a dispatcher have started."""

    def __init__(self, dispatcher_id: int, timeout: float) -> None:
        self.dispatcher_id = dispatcher_id
        self.timeout = timeout


class ShutdownRequest:
    """Tells all dispatchers and workers to end."""


class WaitForShutdownRequest:
    """Waits for that."""


class _Refusal:
    """A request cannot be answered; the client raises the exception."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem


class ComputeService(network.BasicService):
    """Knows the dispatchers and their workers."""

    NAME = "compute service"

    def __init__(
        self, dispatchers: int, workers_per_dispatcher: int, key: bytes, nics: Optional[Iterable[str]] = None
    ) -> None:
        """
        :param dispatchers: number of dispatchers
        :param workers_per_dispatcher: number of workers of each
        """
        self._count = dispatchers
        self._workers_per_dispatcher = workers_per_dispatcher
        self._changed = threading.Condition()
        self._addresses_by_id: Dict[int, str] = {}
        self._workers: Dict[int, Set[int]] = {each: set() for each in range(dispatchers)}
        self._is_shut_down = False
        super().__init__(self.NAME, key, nics)

    def _handle(self, req: Any, client_address: Tuple[str, int]) -> Any:
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
            self._require(req.dispatcher_id)
            with self._changed:
                self._workers[req.dispatcher_id].add(req.worker_id)
                self._changed.notify_all()
        elif isinstance(req, WaitForDispatcherWorkerRegistrationRequest):
            self._require(req.dispatcher_id)
            count = self._workers_per_dispatcher
            self._wait(lambda: len(self._workers[req.dispatcher_id]) >= count, req, "did not get all of its workers")
        elif isinstance(req, ShutdownRequest):
            self._shut_down()
        elif isinstance(req, WaitForShutdownRequest):
            with self._changed:
                self._changed.wait_for(lambda: self._is_shut_down)  # the service ends with its process
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
                    "each dispatcher its own id"
                )
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool], request: Any, failure: str) -> None:
        end = time.monotonic() + request.timeout
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._is_shut_down, max(0.0, end - time.monotonic()))
            if not condition():
                why = "before the service was shut down" if self._is_shut_down else f"within {request.timeout} s"
                raise TimeoutException(f"dispatcher {request.dispatcher_id} {failure} {why}")

    def _shut_down(self) -> None:
        with self._changed:
            self._is_shut_down = True
            self._changed.notify_all()

    def shutdown(self) -> None:
        """Ends all waits, and stops answering."""
        self._shut_down()
        super().shutdown()


class ComputeClient(network.BasicClient):
    """Registers dispatchers and workers with a service, and waits for them."""

    def __init__(self, compute_addresses: network.Addresses, key: bytes, verbose: int = 1) -> None:
        super().__init__(ComputeService.NAME, compute_addresses, key, verbose)

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

    def wait_for_dispatcher_worker_registration(self, dispatcher_id: int, timeout: float) -> None:
        """Waits for all workers of a dispatcher; ``TimeoutException`` if they do not start in time."""
        self._send(WaitForDispatcherWorkerRegistrationRequest(dispatcher_id, timeout))

    def shutdown(self) -> None:
        """Tells all dispatchers and workers to end."""
        self._send(ShutdownRequest())

    def wait_for_shutdown(self) -> None:
        """Waits until they are told to end."""
        self._send(WaitForShutdownRequest())
