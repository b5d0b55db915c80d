"""The rendezvous of jobs whose workers another tool starts, and a key-value store. Both serve only holders of the job's
secret, and neither speaks HTTP: workers join the rendezvous by ``init()``, and ``http_client`` asks the store.

The secret is in the file that FARANDOLE_SECRET_FILE names. Where the variable is not set, a server makes a secret when
it is started, and sets the variable in ``os.environ`` until it is stopped, so that processes that are started meanwhile
inherit it. Workers on other hosts need the same file: set the variable to a file that all hosts have.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from typing import Any, Dict, Optional, Sequence, Tuple, Type

from farandole.runner.common.util import network, secret
from farandole.runner.functions import job_secret
from farandole.runner.functions.rendezvous_program import RendezvousProgram

STORE_NAME = "key-value store"
MOST_STORED_BYTES = 1 << 30
"""A store refuses values beyond this sum."""


def store_key(job_secret_text: str) -> bytes:
    """The key of the store's messages: derived from the job's secret, which is also used elsewhere."""
    return secret.compute_digest(job_secret_text.encode(), STORE_NAME.encode())


@dataclass
class GetRequest:
    """Asks for a value."""

    scope: str
    key: str


@dataclass
class PutRequest:
    """Stores a value."""

    scope: str
    key: str
    value: bytes


@dataclass
class GetResponse:
    """A value; None if there is none."""

    value: Optional[bytes]


@dataclass
class PutResponse:
    """Whether the value was stored: the store may be full."""

    is_stored: bool


class KVStoreHandler:
    """The values of a store. A value is bytes, which the store does not read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: Dict[Tuple[str, str], bytes] = {}
        self._stored_bytes = 0

    def get(self, scope: str, key: str) -> Optional[bytes]:
        """A value; None if there is none."""
        with self._lock:
            return self._values.get((scope, key))

    def put(self, scope: str, key: str, value: bytes) -> bool:
        """Stores a value. Returns False if the store is full."""
        with self._lock:
            total = self._stored_bytes + len(value) - len(self._values.get((scope, key), b""))
            if total > MOST_STORED_BYTES:
                return False
            self._values[scope, key] = value
            self._stored_bytes = total
            return True


class RendezvousHandler(KVStoreHandler):
    """What a rendezvous serves: the job of ``driver``, or, without one, that of ``RendezvousServer.init()``."""

    driver: Any = None


class _StoreService(network.BasicService):
    """Answers requests for values."""

    def __init__(self, key: bytes, handler: KVStoreHandler, address: Optional[str]) -> None:
        self._handler, self._address = handler, address
        super().__init__(STORE_NAME, key, None)

    def _bind_address(self) -> str:
        return self._address or super()._bind_address()

    def _handle(self, req: Any, client_address: Tuple[str, int]) -> Any:
        if isinstance(req, GetRequest):
            return GetResponse(self._handler.get(req.scope, req.key))
        if isinstance(req, PutRequest):
            return PutResponse(self._handler.put(req.scope, req.key, req.value))
        return super()._handle(req, client_address)


class _SecretServer:
    """A server for holders of the job's secret."""

    def __init__(self, verbose: int) -> None:
        self._verbose = verbose
        self._secret: Optional[job_secret.SecretFile] = None
        self.address: Optional[str] = None
        """The address of this host at which it listens; None: all. Set it before ``start_server()`` of a store, and
        before ``init()`` of a rendezvous."""

    def _close_secret(self) -> None:
        if self._secret is not None:
            self._secret.close()
            self._secret = None


class KVStoreServer(_SecretServer):
    """A key-value store for the processes of a job."""

    def __init__(self, verbose: int) -> None:
        super().__init__(verbose)
        self._service: Optional[_StoreService] = None

    def start_server(self) -> int:
        """Starts to answer on a free port, and returns the port."""
        if self._service is not None:
            raise RuntimeError("this key-value store runs already; shut it down before you start it again")
        self._secret = job_secret.SecretFile(os.environ)
        try:
            key = store_key(job_secret.read_secret(self._secret.path))
            self._service = _StoreService(key, KVStoreHandler(), self.address)
        except BaseException:
            self._secret.close()
            raise
        if self._verbose >= 2:
            print(f"The key-value store listens on port {self._service.get_port()}.", flush=True)
        return self._service.get_port()

    def shutdown_server(self) -> None:
        """Stops answering, and drops all values."""
        if self._service is not None:
            self._service.shutdown()
            self._service = None
        self._close_secret()


class RendezvousServer(_SecretServer):
    """The rendezvous of a job, at which its workers meet in ``init()``. It runs as a process of its own."""

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._reserved: Optional[socket.socket] = None
        self._program: Optional[RendezvousProgram] = None

    def start(self, handler_cls: Type[RendezvousHandler] = RendezvousHandler) -> int:
        """Reserves a free port, and returns it. Workers can join after ``init()``; with the handler that
        ``create_rendezvous_handler()`` has made, after the start of its driver."""
        if self._reserved is not None:
            raise RuntimeError("this rendezvous was started already; stop it before you start it again")
        self._secret = job_secret.SecretFile(os.environ)
        # Linux lets another socket listen on a port that this one has bound without listening. The kernel chooses the
        # port for no other socket meanwhile.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("", 0))
        return self.port

    @property
    def port(self) -> int:
        """The port of the rendezvous."""
        if self._reserved is None:
            raise RuntimeError("this rendezvous has no port yet; call start() first")
        return int(self._reserved.getsockname()[1])

    @property
    def secret_file(self) -> str:
        """The file with the secret that workers need."""
        if self._secret is None:
            raise RuntimeError("this rendezvous has no secret yet; call start() first")
        return self._secret.path

    def init(self, host_alloc_plan: Sequence[Any]) -> None:
        """Serves the job of these slots, which ``get_host_assignments()`` has made. A job that it has served before is
        over."""
        self.serve(["--size", str(len(host_alloc_plan))])

    def serve(self, sizes: Sequence[str]) -> None:
        """Serves one job; the words are those of ``farandole rendezvous`` about the number of members."""
        port, secret_file = self.port, self.secret_file
        self._end()
        self._program = RendezvousProgram(sizes, self.address or "0.0.0.0", port, secret_file)
        if self._verbose >= 2:
            print(f"The rendezvous listens on port {port}.", flush=True)

    def _end(self) -> None:
        if self._program is not None:
            self._program.close()
            self._program = None

    def stop(self) -> None:
        """Ends the rendezvous."""
        self._end()
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None
        self._close_secret()
