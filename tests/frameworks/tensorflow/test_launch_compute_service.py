"""The service through which dispatchers and workers find one another: attacks on it, its waits and its end."""

from __future__ import annotations

import os
import pickle
import socket
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest
from data_service_configs import config_with
from horovod.runner.common.service import compute_service as service_module
from horovod.runner.common.service.compute_service import ComputeClient, ComputeService
from horovod.runner.common.util import network, secret
from horovod.runner.common.util.timeout import TimeoutException
from horovod.runner.util import network as interfaces
from horovod.runner.util.threads import in_thread
from launched import DEADLINE_S


@pytest.fixture
def key() -> bytes:
    return secret.make_secret_key()


@pytest.fixture
def service(key: bytes) -> Iterator[ComputeService]:
    running = ComputeService(1, 2, key, interfaces.get_local_intfs())
    yield running
    running.shutdown()


def test_the_service_listens_at_the_chosen_interface_alone(service: ComputeService) -> None:
    assert list(service.addresses().values()) == [[("127.0.0.1", service.get_port())]]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", service.get_port()), 10).close()


class Marker:
    """Unpickling it creates a folder."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def closed_by_peer(stream: socket.socket) -> bool:
    stream.settimeout(DEADLINE_S)
    try:
        return stream.recv(1) == b""
    except ConnectionResetError:
        return True


def test_nothing_of_a_peer_without_the_key_is_unpickled(service: ComputeService, key: bytes, tmp_path: Path) -> None:
    body = pickle.dumps(Marker(tmp_path / "unpickled"))
    length = len(body).to_bytes(8, "little")
    other = secret.make_secret_key()

    def attack(header_key: bytes, body_key: bytes, sent: bytes) -> bool:
        with socket.create_connection(("127.0.0.1", service.get_port()), DEADLINE_S) as stream:
            nonce = network._read(stream, 32)
            header = length + secret.compute_digest(header_key, b"request header" + nonce + length)
            stream.sendall(header + secret.compute_digest(body_key, b"request body" + nonce + body) + sent)
            return closed_by_peer(stream)

    assert attack(other, other, body)
    assert attack(key, other, body)  # the header of a holder of the key, and another body
    assert attack(key, key, body[:-1] + b"X")
    with socket.create_connection(("127.0.0.1", service.get_port()), DEADLINE_S) as stream:
        network._read(stream, 32)
        stream.sendall(body)
        assert len(body) > 40  # the length of a header
        assert closed_by_peer(stream)
    assert os.listdir(tmp_path) == []
    # The same message with the key has the effect, so the attacks had the right form.
    assert attack(key, key, body)
    assert os.listdir(tmp_path) == ["unpickled"]
    ComputeClient(service.addresses(), key).register_dispatcher(0, "grpc://a:1")


def test_a_wrong_key_is_rejected(service: ComputeService) -> None:
    with pytest.raises(network.NoValidAddressesFound, match="check that it runs, that both sides have the same key"):
        ComputeClient(service.addresses(), secret.make_secret_key())
    config = config_with(addresses=service.addresses(), key=secret.make_secret_key())
    with pytest.raises(network.NoValidAddressesFound):
        config.compute_client()


def test_silent_peers_are_bounded_and_disconnected(
    service: ComputeService, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "MOST_UNKNOWN", 3)
    monkeypatch.setattr(network, "_SERVER_WAIT_S", DEADLINE_S)
    address = ("127.0.0.1", service.get_port())
    silent = [socket.create_connection(address, DEADLINE_S) for _ in range(3)]
    try:
        for stream in silent:
            network._read(stream, 32)  # the service waits for a request now
        with socket.create_connection(address, DEADLINE_S) as fourth:
            assert closed_by_peer(fourth)
        with socket.create_connection(address, DEADLINE_S, source_address=("127.0.0.2", 0)) as other:
            network._read(other, 32)  # peers at another address are served
    finally:
        for stream in silent:
            stream.close()
    monkeypatch.setattr(network, "_SERVER_WAIT_S", 0.2)
    # From an address without other peers: the service may not have noticed yet that the silent ones have left.
    with socket.create_connection(address, DEADLINE_S, source_address=("127.0.0.3", 0)) as stream:
        network._read(stream, 32)
        assert closed_by_peer(stream)


def test_a_timeout_names_what_is_missing(service: ComputeService, key: bytes) -> None:
    client = ComputeClient(service.addresses(), key)
    with pytest.raises(
        TimeoutException,
        match="dispatcher 0 was not registered within 0.1 s; registered are 0 of 1 dispatchers, and 0 of 2 workers of "
        "dispatcher 0; check that the jobs",
    ):
        client.wait_for_dispatcher_registration(0, 0.1)
    client.register_worker_for_dispatcher(0, 1)
    with pytest.raises(TimeoutException, match="did not get all of its workers within 0 s; .* 1 of 2 workers"):
        client.wait_for_dispatcher_worker_registration(0, 0)


def test_the_service_ends_when_its_workers_know(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker learns of the shutdown, although the service ends at once; its wait is asked again meanwhile."""
    monkeypatch.setattr(service_module, "_POLL_S", 0.05)
    monkeypatch.setattr(service_module, "_FAREWELL_S", 60.0)
    service = ComputeService(1, 4, key, interfaces.get_local_intfs())
    asked, ended, problems = threading.Semaphore(0), [], []

    class Worker(ComputeClient):
        def _send(self, req: Any) -> Any:
            response = super()._send(req)
            if not isinstance(response, network.AckResponse):
                asked.release()
            return response

    def work(number: int) -> None:
        client = Worker(service.addresses(), key)
        client.register_worker_for_dispatcher(0, number)
        try:
            client.wait_for_shutdown()
            ended.append(number)
        except ConnectionError as problem:
            problems.append(problem)

    threads = [in_thread(work, (number,)) for number in range(4)]
    for _ in range(12):
        assert asked.acquire(timeout=DEADLINE_S)  # waits have ended without a shutdown
    service.shutdown()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert (sorted(ended), problems) == ([0, 1, 2, 3], [])


def test_a_wait_ends_when_the_service_is_gone(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_FAREWELL_S", 0.0)
    service = ComputeService(1, 1, key, interfaces.get_local_intfs())
    client = ComputeClient(service.addresses(), key)
    service.shutdown()
    with pytest.raises(ConnectionError, match="compute service at .* does not answer"):
        client.wait_for_shutdown()


def test_a_service_that_is_stuck_is_noticed(key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    service = ComputeService(1, 1, key, interfaces.get_local_intfs())
    release = threading.Event()
    try:
        client = ComputeClient(service.addresses(), key)
        monkeypatch.setattr(service_module, "_ANSWER_S", 0.2)
        monkeypatch.setattr(service, "_register", lambda *arguments: release.wait(DEADLINE_S))
        with pytest.raises(ConnectionError, match="does not answer: timed out"):
            client.register_dispatcher(0, "grpc://a:1")
    finally:
        release.set()
        service.shutdown()
