"""A program that prints the hosts of a discovery object, for the launcher, which is another process."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from typing import Any, Callable, Dict, Iterator, List

from farandole.runner.elastic import discovery as discoveries


@contextlib.contextmanager
def script_of(discovery: discoveries.HostDiscovery, interval_s: Callable[[], float]) -> Iterator[Any]:
    """A discovery script that prints the hosts of a discovery object, and the slots of hosts without a number.

    :param interval_s: how often the object is asked; called each time
    """
    if isinstance(discovery, discoveries.HostDiscoveryScript):
        yield discovery.script, discovery.default_slots
        return
    # Files in memory: nothing is left of them when this process is killed.
    hosts = os.memfd_create("farandole-hosts")
    script = os.memfd_create("farandole-discovery")
    try:
        _write_hosts(hosts, discovery)  # an error of the first time is one of the caller
        os.pwrite(script, f"#!/bin/sh\nexec cat {_path_of(hosts)}\n".encode(), 0)
        os.fchmod(script, 0o700)
        ended = threading.Event()
        thread = threading.Thread(target=_refresh, args=(hosts, discovery, interval_s, ended), daemon=True)
        thread.start()
        try:
            yield _path_of(script), None
        finally:
            ended.set()
            thread.join()
    finally:
        os.close(hosts)
        os.close(script)


def _path_of(descriptor: int) -> str:
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def _write_hosts(descriptor: int, discovery: discoveries.HostDiscovery) -> None:
    found: Dict[str, int] = dict(discovery.find_available_hosts_and_slots())
    lines: List[str] = [f"{host}:{slots}\n" for host, slots in found.items()]
    fresh = os.memfd_create("farandole-hosts")
    try:
        os.pwrite(fresh, "".join(lines).encode(), 0)
        os.dup2(fresh, descriptor, inheritable=False)  # the script reads the old file or the new one
    finally:
        os.close(fresh)


def _refresh(
    hosts: int, discovery: discoveries.HostDiscovery, interval_s: Callable[[], float], ended: threading.Event
) -> None:
    while not ended.wait(interval_s()):
        try:
            _write_hosts(hosts, discovery)
        except Exception as problem:
            warnings.warn(f"the hosts of the job stay as they are, because discovery failed: {problem}", stacklevel=2)
