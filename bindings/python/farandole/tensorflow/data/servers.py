"""The dispatchers and workers of tf.data that run in this process, and the addresses at which they are registered.

TensorFlow holds Python's lock while it starts a worker, and while it stops one. If the dispatcher does not answer, a
start never ends, and a stop may take ten seconds. Therefore a worker is started only when its dispatcher can be
reached, and a dispatcher runs until the compute service is shut down.
"""

from __future__ import annotations

import socket
import threading
from typing import Any, Dict, Tuple

import tensorflow as tf

from farandole.runner.common.service.compute_service import ComputeClient
from farandole.runner.util.threads import in_thread
from farandole.tensorflow.data.config import TfDataServiceConfig

_PROTOCOL = "grpc"

_lock = threading.Lock()
_dispatchers: Dict[Tuple[bytes, int], Any] = {}
"""The running dispatchers of this process, by the key of the compute service and the id of the dispatcher."""


def run_dispatcher(config: TfDataServiceConfig, client: ComputeClient, dispatcher_id: int) -> bool:
    """Starts a dispatcher and registers it, and returns True; False if it runs already."""
    with _lock:
        if (config.key, dispatcher_id) in _dispatchers:
            return False
        server = tf.data.experimental.service.DispatchServer(
            tf.data.experimental.service.DispatcherConfig(port=0, protocol=_PROTOCOL)
        )
        try:
            port = server.target.rsplit(":", 1)[1]
            client.register_dispatcher(dispatcher_id, f"{_PROTOCOL}://{_own_ip(client)}:{port}")
        except BaseException:
            server.stop()
            raise
        _dispatchers[config.key, dispatcher_id] = server
    return True


def run_dispatcher_until_shutdown(config: TfDataServiceConfig, client: ComputeClient, dispatcher_id: int) -> None:
    """Starts a dispatcher and registers it, unless it runs already. It runs until the compute service is shut down."""
    if run_dispatcher(config, client, dispatcher_id):
        in_thread(_stop_dispatcher_at_shutdown, (config, client, dispatcher_id), name="farandole tf.data dispatcher")


def _stop_dispatcher_at_shutdown(config: TfDataServiceConfig, client: ComputeClient, dispatcher_id: int) -> None:
    try:
        client.wait_for_shutdown()
    except ConnectionError:
        pass  # the compute job is gone, and its workers with it
    stop_dispatcher(config, dispatcher_id)


def stop_dispatcher(config: TfDataServiceConfig, dispatcher_id: int) -> None:
    """Stops a dispatcher of this process, if it runs."""
    with _lock:
        server = _dispatchers.pop((config.key, dispatcher_id), None)
    if server is not None:
        server.stop()


def start_worker(dispatcher_address: str, client: ComputeClient, timeout_s: float) -> Any:
    """Starts a worker of a dispatcher; ``ConnectionError`` if the dispatcher cannot be reached."""
    address = dispatcher_address.split("://", 1)[1]
    _require_reachable(address, timeout_s)
    return tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(
            dispatcher_address=address, worker_address=f"{_own_ip(client)}:%port%", port=0, protocol=_PROTOCOL
        )
    )


def _require_reachable(address: str, timeout_s: float) -> None:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout_s).close()
    except OSError as problem:
        raise ConnectionError(
            f"the dispatcher at {address} cannot be reached from {socket.gethostname()}: {problem}; check that its job "
            "runs, and that no firewall blocks the port"
        ) from problem


def _own_ip(client: ComputeClient) -> str:
    """The address of this host in the network through which it reaches the compute service."""
    addresses = [ip for each in client.addresses().values() for ip, _ in each]
    others = [ip for ip in addresses if not ip.startswith("127.")]
    # A datagram socket sends nothing when it is connected; the kernel chooses the route and with it the address.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(((others or addresses)[0], 1))
        ip: str = probe.getsockname()[0]
        return ip
