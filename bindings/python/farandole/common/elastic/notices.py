"""Notifies the states in use that hosts have joined or left.

Members also receive changes on their links, and states query those when they commit. The notifications of this module
are counted in addition to them.
"""

from __future__ import annotations

import enum
from typing import Any, List, Optional


class HostUpdateResult(enum.IntFlag):
    """How the set of hosts has changed."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class HostsUpdatedRequest:
    """One notification."""

    def __init__(self, timestamp: float, res: int = HostUpdateResult.no_update) -> None:
        self.timestamp = timestamp
        self.res = res


class WorkerNotificationManager:
    """Keeps the list of listeners, and notifies them."""

    def __init__(self) -> None:
        self._listeners: List[Any] = []

    def init(
        self,
        rendezvous_addr: Optional[str] = None,
        rendezvous_port: Optional[int] = None,
        nic: Optional[str] = None,
        hostname: Optional[str] = None,
        local_rank: Optional[int] = None,
    ) -> None:
        """For scripts that call it: there is nothing to start, since members have links already."""

    def register_listener(self, listener: Any) -> None:
        """Calls the listener's ``on_hosts_updated`` from now on."""
        if not any(each is listener for each in self._listeners):
            self._listeners.append(listener)

    def remove_listener(self, listener: Any) -> None:
        """Stops calling the listener."""
        self._listeners = [each for each in self._listeners if each is not listener]

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Notifies all listeners."""
        for listener in list(self._listeners):
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = WorkerNotificationManager()
