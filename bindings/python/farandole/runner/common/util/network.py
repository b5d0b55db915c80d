"""A small request service between processes that share a key.

Each request has a connection of its own. The service sends a random number first; request and response carry a digest
of it that only holders of the key can make, so that neither can be forged or repeated. A message begins with its length
and a digest of that, so a peer without the key makes the service read no more than a header. Nothing is unpickled
before its own digest was checked. The content is not encrypted.
"""

from __future__ import annotations

import pickle
import secrets
import socket
import socketserver
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Optional, Tuple

from farandole.runner.common.util import secret
from farandole.runner.util import network

Addresses = Dict[str, List[Tuple[str, int]]]
"""For each interface, its addresses and ports."""
_LENGTH = struct.Struct("<Q")
_MOST_BYTES = 1 << 26
_NONCE_BYTES = 32
_REQUEST, _RESPONSE = b"request", b"response"
_HEADER_BYTES = _LENGTH.size + secret.DIGEST_LENGTH
_SERVER_WAIT_S = 10.0
"""A peer that has not sent the header of a request within this time is disconnected. A holder of the key must send the
next bytes of its request within it."""
MOST_UNKNOWN = 128
"""Connections from one address that have not sent a header yet; further ones are closed."""


class NoValidAddressesFound(Exception):
    """The service answers at none of its addresses."""


class PingRequest:
    """Asks for the name of the service."""


@dataclass
class PingResponse:
    """The name of the service, and the address that the request came from."""

    service_name: str
    source_address: str


class AckResponse:
    """The request was handled."""


def _read(stream: socket.socket, count: int, deadline: Optional[float] = None) -> bytes:
    """Reads bytes; ``TimeoutError`` if they have not all arrived at the deadline."""
    content = bytearray()
    while len(content) < count:
        if deadline is not None:
            stream.settimeout(max(0.001, deadline - time.monotonic()))
        chunk = stream.recv(min(count - len(content), 1 << 20))
        if not chunk:
            raise ConnectionError("the peer closed the connection within a message")
        content += chunk
    return bytes(content)


def _send(stream: socket.socket, key: bytes, purpose: bytes, nonce: bytes, value: Any) -> None:
    import cloudpickle

    body = cloudpickle.dumps(value)
    if purpose == _REQUEST and len(body) > _MOST_BYTES:
        raise ValueError(
            f"a request of {len(body)} bytes is too large: services take at most {_MOST_BYTES}; send less, such as the "
            "path of a file"
        )
    length = _LENGTH.pack(len(body))
    header = length + secret.compute_digest(key, purpose + b" header" + nonce + length)
    stream.sendall(header + secret.compute_digest(key, purpose + b" body" + nonce + body) + body)


def _receive_length(
    stream: socket.socket, key: bytes, purpose: bytes, nonce: bytes, deadline: Optional[float] = None
) -> int:
    """Reads the header of a message, which proves that the peer has the key. Returns the length of the body."""
    header = _read(stream, _HEADER_BYTES, deadline)
    packed, digest = header[: _LENGTH.size], header[_LENGTH.size :]
    if not secret.check_digest(key, purpose + b" header" + nonce + packed, digest):
        raise ConnectionError("the peer does not have the key of this service")
    (length,) = _LENGTH.unpack(packed)
    if length > _MOST_BYTES:
        raise ConnectionError(f"a message of {length} bytes arrived, and at most {_MOST_BYTES} are allowed")
    return int(length)


def _receive_body(stream: socket.socket, key: bytes, purpose: bytes, nonce: bytes, length: int) -> Any:
    digest = _read(stream, secret.DIGEST_LENGTH)
    body = _read(stream, length)
    if not secret.check_digest(key, purpose + b" body" + nonce + body, digest):
        raise ConnectionError("the peer does not have the key of this service")
    return pickle.loads(body)


def _receive(stream: socket.socket, key: bytes, purpose: bytes, nonce: bytes) -> Any:
    return _receive_body(stream, key, purpose, nonce, _receive_length(stream, key, purpose, nonce))


class _UnknownPeers:
    """Counts the connections of each address whose peers have not proved yet that they have the key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Dict[str, int] = {}

    def enter(self, address: str) -> bool:
        """Counts a new connection. Returns False, without counting it, if the address has too many."""
        with self._lock:
            if self._counts.get(address, 0) >= MOST_UNKNOWN:
                return False
            self._counts[address] = self._counts.get(address, 0) + 1
            return True

    def leave(self, address: str) -> None:
        """The peer is known, or the connection is closed."""
        with self._lock:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]


class BasicService:
    """Answers requests in threads, until ``shutdown()``. Derived classes extend ``_handle``."""

    def __init__(self, service_name: str, key: bytes, nics: Optional[Iterable[str]]) -> None:
        self._service_name = service_name
        self._key = key
        self._nics = set(nics) if nics else None
        self._unknown = _UnknownPeers()
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

            def verify_request(self, request: Any, client_address: Any) -> bool:
                return service._unknown.enter(client_address[0])

        bind = self._bind_address()
        self._server, self._port = network.find_port(lambda address: Server((bind, address[1]), Handler))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def _bind_address(self) -> str:
        """The address at which the service listens: that of its interface; with several, or none, all addresses."""
        names = self._nics or ()
        return network.get_driver_ip(names) if len(names) == 1 else ""

    def _answer(self, stream: socket.socket, client_address: Tuple[str, int]) -> None:
        deadline = time.monotonic() + _SERVER_WAIT_S
        nonce = secrets.token_bytes(_NONCE_BYTES)
        try:
            stream.settimeout(_SERVER_WAIT_S)
            stream.sendall(nonce)
            length = _receive_length(stream, self._key, _REQUEST, nonce, deadline)
        finally:
            self._unknown.leave(client_address[0])
        stream.settimeout(_SERVER_WAIT_S)
        request = _receive_body(stream, self._key, _REQUEST, nonce, length)
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
