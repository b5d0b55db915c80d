"""Ports for programs that need to be told on which port to listen."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from pathlib import Path
from typing import List

_tried = itertools.count()


def free_ports(count: int) -> List[int]:
    """Ports of 127.0.0.1 on which a program can listen soon. They differ from those of other calls in this process, and
    begin at another place in each process. If
    the system leaves enough of them, they are below those that it gives to connections and to listeners without a
    port."""
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first, end = 10_000, int(range_file.read_text().split()[0])
    if end < first + 10_000:
        end = 65_536
    found: List[int] = []
    for number in itertools.islice(_tried, end - first):
        port = first + (17 * os.getpid() + number) % (end - first)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise RuntimeError(f"there are no {count} free ports below {end}")
