"""A small request service between processes that share a key.

Each request has a connection of its own. The service sends a random number first; request and response carry a digest
of it that only holders of the key can make, so that neither can be forged or repeated. Nothing is unpickled before its
digest was checked. The content is not encrypted.
"""

from __future__ import annotations

import pickle
import secrets
import socket
import socketserver
import struct
import threading
from typing import Any, Dict, Iterable, List, Optional, Tuple

from farandole.runner.common.util import secret
from farandole.runner.util import network

Addresses = Dict[str, List[Tuple[str, int]]]
"""For each interface, its addresses and ports."""
_LENGTH = struct.Struct("<Q")
_MOST_BYTES = 1 << 26
_NONCE_BYTES = 32
_REQUEST, _RESPONSE = b"request", b"response"
_SERVER_WAIT_S = 30.0
"""A peer that sends no request within this time is disconnected."""


class NoValidAddressesFound(Exception):
    """The service answers at none of its addresses."""


class PingRequest:
    """Asks for the name of the service."""


class PingResponse:
    """The name of the service, and the address that the request came from."""

    def __init__(self, service_name: str, source_address: str) -> None:
        self.service_name = service_name
        self.source_address = source_address


class AckResponse:
    """The request was handled."""


def _read(stream: socket.socket, count: int) -> bytes:
    content = bytearray()
    while len(content) < count:
        chunk = stream.recv(min(count - len(content), 1 << 20))
        if not chunk:
            raise ConnectionError("the peer closed the connection within a message")
        content += chunk
    return bytes(content)


def _send(stream: socket.socket, key: bytes, purpose: bytes, nonce: bytes, value: Any) -> None:
    import cloudpickle

    body = cloudpickle.dumps(value)
    digest = secret.compute_digest(key, purpose + nonce + body)
    stream.sendall(digest + _LENGTH.pack(len(body)) + body)


def _receive(stream: socket.socket, key: bytes, purpose: bytes, nonce: bytes) -> Any:
    digest = _read(stream, secret.DIGEST_LENGTH)
    (length,) = _LENGTH.unpack(_read(stream, _LENGTH.size))
    if length > _MOST_BYTES:
        raise ConnectionError(f"a message of {length} bytes arrived, and at most {_MOST_BYTES} are allowed")
    body = _read(stream, length)
    if not secret.check_digest(key, purpose + nonce + body, digest):
        raise ConnectionError("the peer does not have the key of this service")
    return pickle.loads(body)


class BasicService:
    """Answers requests in threads, until ``shutdown()``. Derived classes extend ``_handle``."""

    def __init__(self, service_name: str, key: bytes, nics: Optional[Iterable[str]]) -> None:
        self._service_name = service_name
        self._key = key
        self._nics = set(nics) if nics else None
        service = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    service._answer(self.request, self.client_address)
                except (OSError, ConnectionError):
                    pass  # a stranger, or a client that has given up

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server, self._port = network.find_port(lambda address: Server(address, Handler))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def _answer(self, stream: socket.socket, client_address: Tuple[str, int]) -> None:
        stream.settimeout(_SERVER_WAIT_S)
        nonce = secrets.token_bytes(_NONCE_BYTES)
        stream.sendall(nonce)
        request = _receive(stream, self._key, _REQUEST, nonce)
        stream.settimeout(None)  # a request may wait for another one
        response = self._handle(request, client_address)
        _send(stream, self._key, _RESPONSE, nonce, response)

    def _handle(self, req: Any, client_address: Tuple[str, int]) -> Any:
        """The response to a request."""
        if isinstance(req, PingRequest):
            return PingResponse(self._service_name, client_address[0])
        raise NotImplementedError(f"{self._service_name} does not answer {type(req).__name__}")

    def addresses(self) -> Addresses:
        """Where the service can be reached."""
        return {
            name: [(address, self._port)]
            for name, address in network._addresses().items()
            if self._nics is None or name in self._nics
        }

    def shutdown(self) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def get_port(self) -> int:
        """The port of the service."""
        return self._port


class BasicClient:
    """Sends requests to a service."""

    def __init__(
        self,
        service_name: str,
        addresses: Addresses,
        key: bytes,
        verbose: int,
        match_intf: bool = False,
        probe_timeout: float = 20,
        attempts: int = 3,
    ) -> None:
        """Finds the addresses at which the service answers; ``NoValidAddressesFound`` if there are none.

        :param match_intf: takes only addresses that are reached through an interface of the same name
        :param probe_timeout: seconds for each attempt
        """
        self._service_name, self._key, self._verbose = service_name, key, verbose
        self._match_intf, self._attempts = match_intf, attempts
        self._timeout = probe_timeout
        self._addresses = self._probe(addresses)
        if not self._addresses:
            raise NoValidAddressesFound(
                f"{service_name} answers at none of its addresses: {addresses}; check that it runs, that both sides "
                "have the same key, and that no firewall blocks the port"
            )

    def _probe(self, addresses: Addresses) -> Addresses:
        found: Dict[Tuple[str, Tuple[str, int]], bool] = {}

        def probe(interface: str, address: Tuple[str, int]) -> None:
            for _ in range(self._attempts):
                try:
                    response = self._send_to(address, PingRequest(), self._timeout)
                except (OSError, ConnectionError):
                    continue
                is_same = not self._match_intf or response.source_address == network._addresses().get(interface)
                found[interface, address] = is_same and response.service_name == self._service_name
                return

        threads = [
            threading.Thread(target=probe, args=(interface, address), daemon=True)
            for interface, each in addresses.items()
            for address in each
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        good: Addresses = {}
        for interface, each in addresses.items():
            answering = [address for address in each if found.get((interface, address))]
            if answering:
                good[interface] = answering
        return good

    def _send_to(self, address: Tuple[str, int], request: Any, timeout_s: Optional[float]) -> Any:
        with socket.create_connection(address, self._timeout) as stream:
            nonce = _read(stream, _NONCE_BYTES)
            _send(stream, self._key, _REQUEST, nonce, request)
            stream.settimeout(timeout_s)
            return _receive(stream, self._key, _RESPONSE, nonce)

    def _send(self, req: Any) -> Any:
        """The response to a request, which may take long."""
        last: Optional[Exception] = None
        for each in self._addresses.values():
            for address in each:
                try:
                    return self._send_to(address, req, None)
                except (OSError, ConnectionError) as problem:
                    last = problem
        raise ConnectionError(f"{self._service_name} at {self._addresses} does not answer: {last}")

    def addresses(self) -> Addresses:
        """The addresses at which the service answers."""
        return self._addresses
