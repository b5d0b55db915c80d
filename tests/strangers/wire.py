"""The man in the middle: a program through which the cable of a host leads.

It passes frames on, and can read, hold or change the TCP segments in them.

    python wire.py CONTROL      # CONTROL: path of the Unix socket on which it receives orders, one in each datagram

It prints each action on its own line, with the second at which it happened if that matters.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_VNET_HDR = 15  # unfinished checksums and segments larger than the MTU pass unchanged
PACKET_IGNORE_OUTGOING = 23
VIRTIO_BYTES, ETHERNET_BYTES = 10, 14
MOST_RECORDED = 1 << 20
SYN, ACK = 0x02, 0x10

Address = Tuple[str, int]
Flow = Tuple[Address, Address]


class Segment(NamedTuple):
    source: Address
    target: Address
    flags: int
    payload_at: int  # in the frame

    @property
    def flow(self) -> Flow:
        return self.source, self.target


def segment_of(frame: bytes) -> Optional[Segment]:
    at = VIRTIO_BYTES + ETHERNET_BYTES
    if frame[at - 2 : at] != b"\x08\x00" or len(frame) < at + 20 or frame[at + 9] != 6:
        return None
    tcp = at + 4 * (frame[at] & 15)
    ports = int.from_bytes(frame[tcp : tcp + 2], "big"), int.from_bytes(frame[tcp + 2 : tcp + 4], "big")
    addresses = socket.inet_ntoa(frame[at + 12 : at + 16]), socket.inet_ntoa(frame[at + 16 : at + 20])
    payload = tcp + 4 * (frame[tcp + 12] >> 4)
    return Segment((addresses[0], ports[0]), (addresses[1], ports[1]), frame[tcp + 13], payload)


def flow_of(frame: bytes) -> Optional[Flow]:
    segment = segment_of(frame)
    return segment.flow if segment is not None else None


def interface(name: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    made.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    made.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    made.bind((name, ETH_P_ALL))
    return made


def say(text: str) -> None:
    print(text, flush=True)


class Wire:
    def __init__(self) -> None:
        self.holds = False
        self.hold = ""
        self.held_caller = ""
        self.held: List[Tuple[socket.socket, bytes]] = []
        self.held_flows: List[Flow] = []
        self.known_ports: List[int] = []
        self.recorded: Dict[Flow, bytearray] = {}
        self.spoil_port = 0
        self.spoil_bytes = 0
        self.repeat_port = 0
        self.repeatable: Dict[Tuple[Flow, int], bytes] = {}
        self.swap: Tuple[bytes, bytes] = (b"", b"")

    def obey(self, order: str) -> None:
        verb, *words = order.split()
        getattr(self, f"do_{verb}")(*words)

    def do_hold(self, number: str, caller: str, *known_ports: str) -> None:
        """From now on, new connections of this caller get through to these ports only."""
        self.held_caller = caller
        self.known_ports = [int(port) for port in known_ports]
        self.hold = number
        self.holds = True

    def do_release(self) -> None:
        self.holds = False
        self.held_flows.clear()
        for target, frame in self.held:
            target.send(frame)
        self.held.clear()
        say(f"hold {self.hold}: released")

    def do_let(self, port: str) -> None:
        """Lets the connections to this port through, and goes on to hold the others."""
        self.known_ports.append(int(port))
        let = [flow for flow in self.held_flows if flow[1][1] == int(port)]
        self.held_flows = [flow for flow in self.held_flows if flow not in let]
        for target, frame in self.held:
            if flow_of(frame) in let:
                target.send(frame)
        self.held = [(target, frame) for target, frame in self.held if flow_of(frame) not in let]
        say(f"let {port}")

    def do_save(self, number: str, port: str, path: str) -> None:
        """Writes the bytes that the first caller of this port has sent so far into a file."""
        for (_, target), content in self.recorded.items():
            if target[1] == int(port):
                Path(path).write_bytes(content)
                say(f"save {number}: {len(content)} bytes")
                return
        say(f"save {number}: 0 bytes")

    def do_spoil(self, port: str, bytes_before: str) -> None:
        """Changes one bit in a segment to or from this port, once so many bytes have passed."""
        self.spoil_port, self.spoil_bytes = int(port), int(bytes_before)

    def do_repeat(self, port: str) -> None:
        """Replaces the payload of one segment to or from this port by an earlier payload of the same length."""
        self.repeat_port = int(port)

    def do_swap(self, old: str, new: str) -> None:
        """Replaces bytes by as many others in every frame."""
        self.swap = bytes.fromhex(old), bytes.fromhex(new)
        say("swapping")

    def carry(self, frame: bytearray, onward: socket.socket) -> None:
        segment = segment_of(frame)
        if segment is not None:
            if self.is_held(segment):
                self.held.append((onward, bytes(frame)))
                return
            self.look_at(segment, frame)
        onward.send(frame)

    def is_held(self, segment: Segment) -> bool:
        opens = segment.flags & (SYN | ACK) == SYN
        if opens and segment.flow not in self.held_flows:
            self.recorded[segment.flow] = bytearray()
            is_callers = segment.source[0] == self.held_caller
            if self.holds and is_callers and segment.target[1] not in self.known_ports:
                self.held_flows.append(segment.flow)
                say(f"hold {self.hold}: {segment.source[0]} to {segment.target[0]}:{segment.target[1]}")
        return segment.flow in self.held_flows

    def look_at(self, segment: Segment, frame: bytearray) -> None:
        size = len(frame) - segment.payload_at
        record = self.recorded.get(segment.flow)
        if record is not None and len(record) < MOST_RECORDED:
            record += frame[segment.payload_at :]
        if size > 0 and self.spoil_port in (segment.source[1], segment.target[1]) and self.spoil_port:
            self.spoil_bytes -= size
            if self.spoil_bytes < 0:
                self.spoil_port = 0
                frame[segment.payload_at + size // 2] ^= 1
                say(f"changed {segment.source[0]} {segment.target[0]} at {time.monotonic()}")
        if size > 0 and self.repeat_port and self.repeat_port in (segment.source[1], segment.target[1]):
            content = bytes(frame[segment.payload_at :])
            before = self.repeatable.setdefault((segment.flow, size), content)
            if before != content:
                self.repeat_port = 0
                frame[segment.payload_at :] = before
                say(f"repeated {segment.source[0]} {segment.target[0]} at {time.monotonic()}")
        old, new = self.swap
        if old and old in frame:
            frame[:] = frame.replace(old, new)
            say(f"swapped at {time.monotonic()}")


def main() -> None:
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(sys.argv[1])
    host, rest = interface("host"), interface("rest")
    onward = {host: rest, rest: host}
    wire = Wire()
    say("the wire is up")
    while True:
        for ready in select.select([control, host, rest], [], [])[0]:
            if ready is control:
                wire.obey(control.recv(65536).decode())
            else:
                wire.carry(bytearray(ready.recv(1 << 17)), onward[ready])


main()
