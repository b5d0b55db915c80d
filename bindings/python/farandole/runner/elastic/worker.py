"""Notifies a worker's state that hosts have joined or left, for tools that know more than the launcher."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from farandole.common.elastic.notices import HostsUpdatedRequest as HostsUpdatedRequest
from farandole.common.elastic.notices import HostUpdateResult as HostUpdateResult
from farandole.common.elastic.notices import WorkerNotificationManager as WorkerNotificationManager
from farandole.runner.common.util import network


class WorkerNotificationService(network.BasicService):
    """Receives notifications from another process, and passes them on to a manager."""

    NAME = "worker notification service"

    def __init__(self, key: bytes, nic: Optional[str], manager: WorkerNotificationManager) -> None:
        """
        :param nic: the interface whose address the service gives; None: all
        """
        self._manager = manager
        super().__init__(self.NAME, key, {nic} if nic else None)

    def _handle(self, req: Any, client_address: Tuple[str, int]) -> Any:
        if isinstance(req, HostsUpdatedRequest):
            self._manager.handle_hosts_updated(req.timestamp, req.res)
            return network.AckResponse()
        return super()._handle(req, client_address)


class WorkerNotificationClient(network.BasicClient):
    """Sends notifications to a worker's service."""

    def __init__(self, addresses: network.Addresses, key: bytes, verbose: int, match_intf: bool = False) -> None:
        super().__init__(WorkerNotificationService.NAME, addresses, key, verbose, match_intf)

    def notify_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Hosts have joined or left."""
        self._send(HostsUpdatedRequest(timestamp, update_res))
