"""The network interfaces of this host.

Tools replace functions of this module, so its callers look each up when they call it.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple

_GET_ADDRESS = 0x8915  # SIOCGIFADDR


def _addresses() -> Dict[str, str]:
    """The IPv4 address of each interface that has one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def get_local_host_addresses() -> Set[str]:
    """The IPv4 addresses of this host."""
    return set(_addresses().values())


def get_local_intfs(nic: Optional[str] = None) -> Set[str]:
    """The interfaces of this host that have the address 127.0.0.1; with a name, those of this name."""
    return {name for name, address in _addresses().items() if (name == nic if nic else address == "127.0.0.1")}


def resolve_host_address(host_name: str) -> Optional[str]:
    """The IPv4 address of a host; None if its name cannot be resolved."""
    try:
        return socket.gethostbyname(host_name)
    except OSError:
        return None


def filter_local_addresses(all_host_names: Iterable[str]) -> List[str]:
    """The hosts that are other machines. A name that cannot be resolved is one: ssh may know it."""
    own = get_local_host_addresses()
    return [name for name in all_host_names if not _is_own(name, own)]


def _is_own(name: str, addresses: Iterable[str]) -> bool:
    """Whether this host has the name, in any letter case, with or without a final dot, or without the domain. The name
    without the domain may be that of another host, in a domain that is searched first."""
    own_name = socket.gethostname().lower().rstrip(".")
    plain = name.lower().removesuffix(".")
    if plain in ("localhost", own_name):
        return True
    address = resolve_host_address(name)
    if address is None:
        return plain == own_name.partition(".")[0] or _is_bound_here(name)
    return address in addresses or address.startswith("127.") or _is_bound_here(name)


def _is_bound_here(name: str) -> bool:
    """Whether an address of this name belongs to this host: one of IPv6, or a further one of an interface."""
    try:
        found = socket.getaddrinfo(name, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with contextlib.suppress(OSError), socket.socket(family, kind) as probe:
            probe.bind(address)  # only an address of this host can be bound
            return True
    return False


def find_port(server_factory: Callable[[Tuple[str, int]], Any]) -> Tuple[Any, int]:
    """A server on a free port of all interfaces, and the port.

    :param server_factory: makes a server for an address and a port
    """
    server = server_factory(("", 0))  # the kernel chooses
    return server, server.socket.getsockname()[1]


def get_driver_ip(nics: Optional[Iterable[str]]) -> str:
    """The IPv4 address of this host on one of the interfaces; without any, the one that other hosts can reach."""
    addresses = _addresses()
    names = sorted(nics or ())
    for name in names or addresses:
        address = addresses.get(name)
        if address is not None and (names or not address.startswith("127.")):
            return address
    if not names and "127.0.0.1" in addresses.values():
        return "127.0.0.1"
    have = ", ".join(f"{name} ({address})" for name, address in addresses.items())
    raise RuntimeError(f"none of the interfaces {', '.join(names)} has an IPv4 address here; this host has {have}")
