"""Passes on that hosts have joined or left to the states that are in use.

Members hear of changes on their links, and states ask for that when they commit; what is handed in here comes on top.
"""

from __future__ import annotations

import enum
from typing import Any, List, Optional


class HostUpdateResult(enum.IntFlag):
    """What has happened to the hosts."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class HostsUpdatedRequest:
    """One notice."""

    def __init__(self, timestamp: float, res: int = HostUpdateResult.no_update) -> None:
        self.timestamp = timestamp
        self.res = res


class WorkerNotificationManager:
    """Knows who listens."""

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
        """Its ``on_hosts_updated`` is called from now on."""
        if not any(each is listener for each in self._listeners):
            self._listeners.append(listener)

    def remove_listener(self, listener: Any) -> None:
        """It is not any more."""
        self._listeners = [each for each in self._listeners if each is not listener]

    def handle_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Tells all."""
        for listener in list(self._listeners):
            listener.on_hosts_updated(timestamp, update_res)


notification_manager = WorkerNotificationManager()
