"""The services of ``horovod.runner`` that listen for other processes, and peers that do not have their key."""

from __future__ import annotations

import os
import pickle
import random
import socket
import threading
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import pytest
from horovod.runner.common.service.driver_service import BasicDriverService
from horovod.runner.common.util import network, secret
from horovod.runner.common.util.settings import Settings
from horovod.runner.common.util.timeout import Timeout, TimeoutException
from horovod.runner.driver import driver_service
from horovod.runner.http import http_client, http_server
from horovod.runner.util import network as interfaces
from horovod.runner.util.threads import in_thread
from launched import DEADLINE_S, wait_until

SECRET = "FARANDOLE_SECRET_FILE"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a key-value store."""
    monkeypatch.delenv(SECRET, raising=False)
    monkeypatch.delenv("FARANDOLE_SECRET", raising=False)
    server = http_server.KVStoreServer(0)
    port = server.start_server()
    path = Path(os.environ[SECRET])
    yield port
    server.shutdown_server()
    assert SECRET not in os.environ and not path.exists()


def test_values_are_stored_and_read(store: int) -> None:
    value = {"content": bytes(1_000_000), "function": lambda: 5}
    http_client.put_data_into_kvstore("127.0.0.1", store, "scope", "key", value)
    read = http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "key")
    assert (read["content"], read["function"]()) == (value["content"], 5)
    http_client.put_data_into_kvstore("127.0.0.1", store, "scope", "key", 2)
    http_client.put_data_into_kvstore("127.0.0.1", store, "other", "key", 3)
    assert http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "key") == 2
    with pytest.raises(RuntimeError, match="has no value for scope/missing"):
        http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "missing")


def test_a_store_that_does_not_answer_is_not_waited_for(store: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, ended = threading.Event(), threading.Event()

    def get(*_: Any) -> None:
        asked.set()
        ended.wait()

    monkeypatch.setattr(http_server.KVStoreHandler, "get", get)
    monkeypatch.setattr(http_client, "ANSWER_S", 0.1)
    try:
        with pytest.raises(RuntimeError, match=f"the key-value store at 127.0.0.1:{store} cannot be used: timed out"):
            http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "key")
        assert asked.wait(DEADLINE_S)
    finally:
        ended.set()


def test_a_full_store_refuses_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_STORED_BYTES", 10)
    values = http_server.KVStoreHandler()
    assert values.put("a", "b", bytes(10))
    assert not values.put("a", "c", b"1")
    assert values.put("a", "b", bytes(9)) and values.put("a", "c", b"1")
    assert (values.get("a", "b"), values.get("a", "c"), values.get("b", "a")) == (bytes(9), b"1", None)


def test_a_store_that_is_full_or_used_twice_says_so(store: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_STORED_BYTES", 10)
    with pytest.raises(RuntimeError, match="has no room for a/b; it holds at most 10 bytes"):
        http_client.put_data_into_kvstore("127.0.0.1", store, "a", "b", bytes(100))
    server = http_server.KVStoreServer(0)
    server.start_server()
    with pytest.raises(RuntimeError, match="runs already"):
        server.start_server()
    server.shutdown_server()


def write_secret(path: Path, mode: int = 0o600) -> str:
    path.write_text(os.urandom(32).hex())
    path.chmod(mode)
    return str(path)


def test_a_process_without_the_secret_reads_nothing(
    store: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    http_client.put_data_into_kvstore("127.0.0.1", store, "scope", "key", 1)
    with monkeypatch.context() as patch:
        patch.delenv(SECRET)
        with pytest.raises(RuntimeError, match="answers only holders of the job's secret; set FARANDOLE_SECRET_FILE"):
            http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "key")
        patch.setenv(SECRET, write_secret(tmp_path / "other"))
        with pytest.raises(RuntimeError, match="cannot be used: .* both sides have the same key"):
            http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "key")
        patch.setenv(SECRET, write_secret(tmp_path / "readable", 0o644))
        with pytest.raises(ValueError, match=r"nobody else can read \(chmod 600\)"):
            http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "key")
    assert http_client.read_data_from_kvstore("127.0.0.1", store, "scope", "key") == 1


class Harmful:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def message(key: bytes, nonce: bytes, body: bytes, claimed: int = -1) -> bytes:
    """A request as ``network._send`` makes it."""
    length = network._LENGTH.pack(len(body) if claimed < 0 else claimed)
    header = length + secret.compute_digest(key, b"request header" + nonce + length)
    return header + secret.compute_digest(key, b"request body" + nonce + body) + body


def answer_to(port: int, key: bytes, change: Any) -> bytes:
    """The answer to a request of a peer with this key, which ``change`` has changed."""
    with socket.create_connection(("127.0.0.1", port)) as stream:
        nonce = network._read(stream, 32)
        try:
            stream.sendall(change(message(key, nonce, pickle.dumps(network.PingRequest()))))
            stream.shutdown(socket.SHUT_WR)
            return stream.recv(1 << 16)
        except OSError:  # the service has closed the connection, perhaps before the end of the request
            return b""


def own_key() -> bytes:
    return http_server.store_key(Path(os.environ[SECRET]).read_text())


def test_nothing_of_a_peer_without_the_key_is_unpickled(store: int, tmp_path: Path) -> None:
    made = tmp_path / "made"
    with socket.create_connection(("127.0.0.1", store)) as stream:
        nonce = network._read(stream, 32)
        stream.sendall(message(secret.make_secret_key(), nonce, pickle.dumps(Harmful(made))))
        assert read_to_end(stream) == b""
    # A holder of the key sends the header, and another process the body.
    with socket.create_connection(("127.0.0.1", store)) as stream:
        nonce = network._read(stream, 32)
        body = pickle.dumps(Harmful(made))
        header = message(own_key(), nonce, body)[: network._HEADER_BYTES]
        stream.sendall(header + secret.compute_digest(b"", nonce) + body)
        assert read_to_end(stream) == b""
    assert not made.exists()
    with pytest.raises(FileNotFoundError):
        made.stat()


def read_to_end(stream: socket.socket) -> bytes:
    try:
        return stream.recv(1 << 16)
    except ConnectionResetError:
        return b""


def test_a_claimed_length_makes_the_service_read_nothing(store: int) -> None:
    """The service closes the connection after the header, although the body is still to come."""
    for key, claimed in ((secret.make_secret_key(), 10), (own_key(), network._MOST_BYTES + 1)):
        with socket.create_connection(("127.0.0.1", store)) as stream:
            nonce = network._read(stream, 32)
            stream.sendall(message(key, nonce, b"", claimed)[: network._HEADER_BYTES])
            assert read_to_end(stream) == b""


def test_random_bytes_and_changed_requests_get_no_answer(store: int) -> None:
    generator = random.Random(4711)

    def changed(content: bytes) -> bytes:
        kind = generator.randrange(3)
        if kind == 0:
            return generator.randbytes(generator.randrange(400))
        at = generator.randrange(len(content))
        if kind == 1:
            return content[:at]
        return content[:at] + bytes([content[at] ^ (1 << generator.randrange(8))]) + content[at + 1 :]

    key = own_key()
    assert answer_to(store, key, bytes) != b""
    for _ in range(300):
        assert answer_to(store, key, changed) == b""
    assert answer_to(store, key, bytes) != b""


def test_silent_peers_of_an_address_are_limited(store: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "MOST_UNKNOWN", 3)
    silent = [socket.create_connection(("127.0.0.1", store)) for _ in range(3)]
    try:
        for each in silent:
            network._read(each, 32)
        with socket.create_connection(("127.0.0.1", store)) as refused:
            assert read_to_end(refused) == b""
        # Another address of this host is another source.
        with socket.create_connection(("127.0.0.1", store), source_address=("127.0.0.2", 0)) as other:
            assert len(network._read(other, 32)) == 32
    finally:
        for each in silent:
            each.close()
    wait_until(lambda: answer_to_or_nothing(store) != b"", "the service answers again")


def answer_to_or_nothing(port: int) -> bytes:
    try:
        return answer_to(port, own_key(), bytes)
    except ConnectionError:  # it was closed before the random number
        return b""


def test_a_silent_peer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_SERVER_WAIT_S", 0.05)
    service = network.BasicService("service", secret.make_secret_key(), None)
    try:
        with socket.create_connection(("127.0.0.1", service.get_port())) as stream:
            network._read(stream, 32)
            assert read_to_end(stream) == b""
    finally:
        service.shutdown()


@pytest.fixture
def key() -> bytes:
    return secret.make_secret_key()


@pytest.fixture
def drivers(key: bytes) -> Iterator[driver_service.HorovodRunDriverService]:
    service = driver_service.HorovodRunDriverService(2, key, interfaces.get_local_intfs())
    yield service
    service.shutdown()


def test_tasks_register_and_learn_the_addresses_of_others(
    drivers: driver_service.HorovodRunDriverService, key: bytes
) -> None:
    client = driver_service.HorovodRunDriverClient(drivers.addresses(), key, 0)
    of_task = {"lo": [("127.0.0.1", 5)], "eth0": [("192.0.2.1", 5)]}
    client.register_task(1, of_task, "hash-1")
    with pytest.raises(TimeoutException, match="^the registration of all tasks: 0$"):
        drivers.wait_for_initial_registration(Timeout(-1, "{activity}: 0"))
    waiting = in_thread(drivers.wait_for_initial_registration, (Timeout(60, "{activity}"),))
    client.register_task(0, {"eth0": [("192.0.2.2", 6)]}, "hash-0")
    waiting.join()
    assert client.all_task_addresses(1) == of_task
    assert drivers.task_addresses_for_driver(1) == {"lo": [("127.0.0.1", 5)]}
    assert drivers.task_addresses_for_driver(0) == {"eth0": [("192.0.2.2", 6)]}
    assert drivers.task_host_hash_indices() == {"hash-0": [0], "hash-1": [1]}
    assert drivers.task_index_host_hash(1) == "hash-1"
    for index in range(2):
        client.register_task_to_task_addresses(index, {"lo": [("127.0.0.1", index)]})
    drivers.wait_for_task_to_task_address_updates(Timeout(60, "{activity}"))
    assert drivers.task_addresses_for_tasks(1) == {"lo": [("127.0.0.1", 1)]}
    assert isinstance(drivers, BasicDriverService)


def test_a_task_that_does_not_exist_is_refused(
    drivers: driver_service.HorovodRunDriverService, key: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    client = driver_service.HorovodRunDriverClient(drivers.addresses(), key, 0)
    with pytest.raises(ConnectionError):
        client.register_task(2, {}, "hash")
    wait_until(lambda: "there is no task 2: the service has 2, from 0 on" in capfd.readouterr().err, "the reason")


def settings_of(**options: Any) -> Settings:
    return Settings(verbose=2, **options)


def test_local_hosts_use_the_loopback_interface(capsys: pytest.CaptureFixture[str]) -> None:
    lo = interfaces.get_local_intfs()
    assert driver_service.get_common_interfaces(settings_of(), ["localhost", "127.0.0.1"]) == lo
    out = capsys.readouterr().out
    assert "All hosts are local, finding the interfaces with address 127.0.0.1\n" in out
    assert f"Local interface found {' '.join(lo)}\n" in out
    with pytest.raises(ValueError, match=r"none of the interfaces nothing0 has the address 127\.0\.0\.1"):
        driver_service.get_local_interfaces(settings_of(nics={"nothing0"}))


def test_given_interfaces_are_used_for_other_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter is looked up at the call."""
    asked: List[Tuple[str, ...]] = []

    def filter_names(names: Any) -> List[str]:
        asked.append(tuple(names))
        return list(names)

    monkeypatch.setattr(interfaces, "filter_local_addresses", filter_names)
    assert driver_service.get_common_interfaces(settings_of(nics={"eth5"}), ["localhost"]) == {"eth5"}
    assert asked == [("localhost",)]
