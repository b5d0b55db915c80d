"""An attack on a port by a process without the secret of the job.

It is a separate program, because it runs on another host, or as another user, than the job.

    python stranger.py ATTACK ADDRESS PORT COUNT [FILE]

It prints "under way" once the attack has reached the port. It prints "over: …" with the result if the attack ends
by itself; otherwise it goes on until it is killed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import selectors
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Callable, Iterator, List, Set, Tuple

DEADLINE_S = 240.0
AT_ONCE = 64
Address = Tuple[str, int]


def say(text: str) -> None:
    print(text, flush=True)


def record(kind: int, length: int, content: bytes) -> bytes:
    return struct.pack(">BHH", kind, 0x0303, length) + content


def hello_without_key() -> bytes:
    """A ClientHello of TLS 1.3 without a pre-shared key, as browsers send it."""
    share = struct.pack(">HHHHH", 51, 38, 36, 29, 32) + os.urandom(32)
    versions = struct.pack(">HHBH", 43, 3, 2, 0x0304)
    groups = struct.pack(">HHHH", 10, 4, 2, 29)
    signatures = struct.pack(">HHHH", 13, 4, 2, 0x0804)
    extensions = versions + groups + signatures + share
    body = struct.pack(">H", 0x0303) + os.urandom(32) + b"\0" + struct.pack(">HH", 2, 0x1301) + b"\1\0"
    body += struct.pack(">H", len(extensions)) + extensions
    hello = b"\1" + len(body).to_bytes(3, "big") + body
    return record(22, len(hello), hello)


def hostile_bytes() -> Iterator[Tuple[str, bytes]]:
    """The bytes that are sent at once on a new connection."""
    yield "eight zero bytes", bytes(8)
    yield "eight random bytes", b"\xa5" + os.urandom(7)
    # The form that UCX's TCP transport accepts: an operation, a length, an address of the receiver's memory.
    yield (
        "bytes like a PUT of UCX, with a raw address",
        struct.pack("<BIQQQ", 5, 4096, 0x7FFF00001000, 1, 1) + bytes(4096),
    )
    yield (
        "bytes like an active message of UCX, with forged gradients",
        struct.pack("<BI", 2, 4096) + struct.pack("<512d", *[1000.0] * 512),
    )
    yield "a pickled object", b"\x80\x04cposix\nsystem\n(S'touch /tmp/stranger'\ntR."
    yield "a request of HTTP", b"GET / HTTP/1.1\r\nHost: farandole\r\n\r\n"
    yield "a frame as long as can be", struct.pack("<II", 0xFFFFFFFF, 0) + os.urandom(1024)
    yield "an alert of seven bytes", record(21, 2, b"\2\x28")
    yield "a record of TLS that is too long", record(22, 0xFFFF, os.urandom(2048))
    yield "half a record of TLS", record(22, 512, os.urandom(100))
    yield "a hello of TLS without a key", hello_without_key()
    yield "data of TLS before any handshake", record(23, 512, os.urandom(512))


def connected(address: Address) -> socket.socket:
    return socket.create_connection(address, timeout=DEADLINE_S)


def send(connection: socket.socket, content: bytes) -> None:
    """Sends as many bytes as the other end accepts before it closes the connection."""
    try:
        connection.sendall(content)
    except (BrokenPipeError, ConnectionResetError):
        pass


def until_closed(connection: socket.socket) -> bytes:
    """The bytes that arrived before the other end closed the connection."""
    received = b""
    try:
        while chunk := connection.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def attack_bytes(address: Address, count: int, path: str) -> None:
    """Sends each kind of bytes `count` times, one connection after the other."""
    tried = 0
    for _ in range(count):
        for name, content in hostile_bytes():
            with connected(address) as connection:
                send(connection, content)
                if tried == 0:
                    say("under way")
                answer = until_closed(connection)
                if answer[:1] not in (b"", b"\x15"):  # nothing, or an alert
                    say(f"over: it answered {name} with {answer[:40].hex()}")
                    return
                tried += 1
    say(f"over: {tried} connections closed")


def attack_key(address: Address, count: int, path: str) -> None:
    """Makes whole handshakes with the right name of the key and another key."""
    refused = 0
    for _ in range(count):
        command = ["openssl", "s_client", "-connect", f"{address[0]}:{address[1]}", "-tls1_3"]
        command += ["-ciphersuites", "TLS_AES_128_GCM_SHA256"]
        command += ["-psk", os.urandom(32).hex(), "-psk_identity", "farandole 1", "-brief"]
        done = subprocess.run(command, check=False, capture_output=True, input=b"x", timeout=DEADLINE_S)
        if refused == 0:
            say("under way")
        refused += done.returncode != 0
    say(f"over: {refused} of {count} handshakes refused")


def attack_replay(address: Address, count: int, path: str) -> None:
    """Replays the bytes that a member sent on another connection."""
    recorded = Path(path).read_bytes()
    answered = 0
    for number in range(count):
        with connected(address) as connection:
            send(connection, recorded)
            if number == 0:
                say("under way")
            answered = max(answered, len(until_closed(connection)))
    say(f"over: {count} connections closed")


def attack_mirror(address: Address, count: int, path: str) -> None:
    """Sends a recorded hello of a member, and reflects each answer of the port on a second connection."""
    recorded = Path(path).read_bytes()
    for number in range(count):
        with connected(address) as first, connected(address) as second:
            first.sendall(recorded[: 5 + int.from_bytes(recorded[3:5], "big")])
            if number == 0:
                say("under way")
            answer = first.recv(65536)
            try:
                second.sendall(answer)
                first.sendall(answer)
            except (BrokenPipeError, ConnectionResetError):
                pass
            until_closed(second)
            until_closed(first)
    say(f"over: {2 * count} connections closed")


def allow_descriptors() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Flood:
    """Many connections at once; each connection that is closed is opened again."""

    def __init__(self, address: Address, on_closed: Callable[[], bool], first_words: bytes) -> None:
        self.address = address
        self.on_closed = on_closed
        self.first_words = first_words
        self.ready = selectors.DefaultSelector()
        self.opened = 0

    def open(self) -> None:
        made = socket.socket()
        made.setblocking(False)
        made.connect_ex(self.address)
        self.ready.register(made, selectors.EVENT_WRITE)

    def run(self) -> None:
        while True:
            for key, events in self.ready.select():
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if events & selectors.EVENT_WRITE and not connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    self.opened += 1
                    self.ready.modify(connection, selectors.EVENT_READ)
                    if self.first_words:
                        connection.send(self.first_words)
                    continue
                try:
                    if events & selectors.EVENT_READ and connection.recv(65536):
                        continue
                except OSError:
                    pass
                self.ready.unregister(connection)
                connection.close()
                if not self.on_closed():
                    return
                self.open()


def attack_silence(address: Address, count: int, path: str) -> None:
    """Holds `count` silent connections open until the program is killed."""
    allow_descriptors()
    closed = 0

    def on_closed() -> bool:
        nonlocal closed
        closed += 1
        if closed == count:
            say(f"{closed} closed")
        return True

    flood = Flood(address, on_closed, b"")
    for _ in range(count):
        flood.open()
    say("under way")
    flood.run()


def attack_new_listeners(address: Address, count: int, path: str) -> None:
    """Opens `count` silent connections to each new listening port of this host."""
    allow_descriptors()
    known = listening_ports()
    say("under way")
    while True:
        for port in listening_ports() - known:
            known.add(port)
            flood = Flood((address[0], port), lambda: True, b"")
            try:
                for _ in range(count):
                    flood.open()
            except OSError:
                continue  # the listener has closed already
            threading.Thread(target=flood.run, daemon=True).start()
            say(f"at {port}")
        time.sleep(0.001)


def listening_ports() -> Set[int]:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return {int(words[1].split(":")[1], 16) for words in map(str.split, lines) if words[3] == "0A"}


class UcxClient:
    """A worker of the real library with TCP alone. It makes the address of another worker from its own address: it
    replaces the IP address and the port."""

    def __init__(self) -> None:
        os.environ.update(UCX_TLS="tcp", UCX_NET_DEVICES="net0", UCX_WARN_UNUSED_ENV_VARS="n")
        self.ucp = ctypes.CDLL("libucp.so.0")
        for name in ("ucp_tag_send_nbx", "ucp_ep_flush_nbx"):
            getattr(self.ucp, name).restype = ctypes.c_void_p
        self.ucp.ucp_request_check_status.restype = ctypes.c_int8
        major, minor, release = ctypes.c_uint(), ctypes.c_uint(), ctypes.c_uint()
        self.ucp.ucp_get_version(ctypes.byref(major), ctypes.byref(minor), ctypes.byref(release))
        config, context = ctypes.c_void_p(), ctypes.c_void_p()
        self.worker = ctypes.c_void_p()
        self._good(self.ucp.ucp_config_read(None, None, ctypes.byref(config)))
        features = struct.pack("<QQ", 1, 1) + bytes(256)  # the features are the only field, and tags the only feature
        self._good(self.ucp.ucp_init_version(major, minor, features, config, ctypes.byref(context)))
        self._good(self.ucp.ucp_worker_create(context, bytes(256), ctypes.byref(self.worker)))
        self.endpoint = ctypes.c_void_p()

    @staticmethod
    def _good(status: int) -> None:
        assert status == 0, f"UCX answers {status}"

    def own_address(self) -> bytes:
        place, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._good(self.ucp.ucp_worker_get_address(self.worker, ctypes.byref(place), ctypes.byref(size)))
        assert place.value is not None
        return ctypes.string_at(place.value, size.value)

    def connect(self, own_ip: str, own_port: int, to: Address) -> int:
        """Connects, and returns the status of UCX."""
        address = self.own_address()
        # The address begins with the id of the worker, and ends with the IP address and the port.
        address = address[:1] + os.urandom(8) + address[9:]
        for own, other in (
            (socket.inet_aton(own_ip), socket.inet_aton(to[0])),
            (struct.pack(">H", own_port), struct.pack(">H", to[1])),
        ):
            before, found, after = address.rpartition(own)
            assert found, address.hex()
            address = before + other + after
        self.address = ctypes.create_string_buffer(address, len(address))
        params = struct.pack("<QQ", 1, ctypes.addressof(self.address)) + bytes(512)  # the address is the only field
        return int(self.ucp.ucp_ep_create(self.worker, params, ctypes.byref(self.endpoint)))

    def send(self, tag: int, content: bytes) -> None:
        """Sends a message; flush() returns whether it has arrived."""
        self.ucp.ucp_tag_send_nbx(
            self.endpoint, content, ctypes.c_size_t(len(content)), ctypes.c_uint64(tag), bytes(256)
        )

    def flush(self) -> int:
        """Waits until the other end has all messages, and returns the status of UCX."""
        request = self.ucp.ucp_ep_flush_nbx(self.endpoint, bytes(256))
        while request is not None:
            self.ucp.ucp_worker_progress(self.worker)
            status = self.ucp.ucp_request_check_status(ctypes.c_void_p(request))
            if status != 1:
                return int(status)
        return 0


def attack_ucx(address: Address, count: int, path: str) -> None:
    """Sends messages of the real UCX to the port of a worker, with the tags of rank 0 for the broadcasts of `count`
    operations. The path is FILE:FIRST:STEP: the file with the bytes of each message, the number of the first
    operation, and the distance to the next."""
    file, first, step = path.rsplit(":", 2)
    forged = Path(file).read_bytes()
    client = UcxClient()
    own_ip = subprocess.run(["hostname", "-I"], check=True, capture_output=True, text=True).stdout.split()[0]
    (own_port,) = listening_ports()
    say("under way")
    if status := client.connect(own_ip, own_port, address):
        say(f"over: UCX answers {ctypes.c_int8(status).value}")
        return
    generations, tree, rank = range(4), 5, 0
    for sequence in range(int(first), int(first) + count * int(step), int(step)):
        for generation in generations:
            client.send(generation << 52 | (sequence & 0xFFFF) << 20 | tree << 16 | rank, forged)
    status = client.flush()
    say(f"over: {count * len(generations)} messages sent" if status == 0 else f"over: UCX answers {status}")


def attack_refused(address: Address, count: int, path: str) -> None:
    """Makes `count` connections that send wrong bytes, each after another was closed."""
    left = count

    def on_closed() -> bool:
        nonlocal left
        left -= 1
        return left > 0

    flood = Flood(address, on_closed, b"\xa5" * 8)  # the same each time, so that all are refused for the same reason
    for _ in range(min(AT_ONCE, count)):
        flood.open()
    say("under way")
    flood.run()
    say(f"over: {count} connections closed")


def attack_impostor(address: Address, count: int, path: str) -> None:
    """Listens on the port of a process that has ended, and ends each handshake with an alert."""
    with socket.create_server(address) as server:
        say("under way")
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(record(21, 2, b"\2\x28"))
                say("answered with an alert")


def attack_segment(address: Address, count: int, path: str) -> None:
    """Requests the shared segment from each offer on this host. Offers are abstract Unix sockets, which are open to
    every process while members connect."""
    asked = 0
    say("under way")
    while asked < count:
        for line in Path("/proc/net/unix").read_text().splitlines():
            name = line.split()[-1]
            if name.startswith("@farandole"):
                asked += ask_for_segment(name)
    say(f"over: asked {asked} times, got nothing")


def ask_for_segment(name: str) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.settimeout(DEADLINE_S)
        try:
            asking.connect("\0" + name[1:])
        except OSError:
            return 0  # the socket has closed already
        try:
            asking.sendall(struct.pack("<I", 1) + os.urandom(32))
            received, descriptors, _, _ = socket.recv_fds(asking, 4096, 4)
        except OSError:
            return 1
        assert not received and not descriptors, f"{name} answered a stranger: {received!r}"
        return 1


def main(words: List[str]) -> None:
    name, ip, port, count = words[:4]
    path = words[4] if len(words) > 4 else ""
    attack: Callable[[Address, int, str], None] = globals()[f"attack_{name}"]
    attack((ip, int(port)), int(count), path)


main(sys.argv[1:])
