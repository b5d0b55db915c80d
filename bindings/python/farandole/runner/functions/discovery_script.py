"""A program that prints the hosts of a discovery object, for the launcher, which is another process."""

from __future__ import annotations

import contextlib
import os
import shlex
import tempfile
import threading
import warnings
from pathlib import Path
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
    with tempfile.TemporaryDirectory(prefix="farandole-discovery-") as folder:
        hosts, script = Path(folder, "hosts"), Path(folder, "discover.sh")
        _write_hosts(hosts, discovery)  # an error of the first time is one of the caller
        script.write_text(f"#!/bin/sh\nexec cat {shlex.quote(str(hosts))}\n")
        script.chmod(0o700)
        ended = threading.Event()
        thread = threading.Thread(target=_refresh, args=(hosts, discovery, interval_s, ended), daemon=True)
        thread.start()
        try:
            yield str(script), None
        finally:
            ended.set()
            thread.join()


def _write_hosts(path: Path, discovery: discoveries.HostDiscovery) -> None:
    found: Dict[str, int] = dict(discovery.find_available_hosts_and_slots())
    lines: List[str] = [f"{host}:{slots}\n" for host, slots in found.items()]
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(lines))
    os.replace(fresh, path)  # the script reads the old file or the new one


def _refresh(
    path: Path, discovery: discoveries.HostDiscovery, interval_s: Callable[[], float], ended: threading.Event
) -> None:
    while not ended.wait(interval_s()):
        try:
            _write_hosts(path, discovery)
        except Exception as problem:
            warnings.warn(f"the hosts of the job stay as they are, because discovery failed: {problem}", stacklevel=2)
