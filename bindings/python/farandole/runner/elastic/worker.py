"""Notifies a worker's state that hosts have joined or left, for tools that know more than the launcher."""

from __future__ import annotations

from farandole.common.elastic.notices import HostsUpdatedRequest as HostsUpdatedRequest
from farandole.common.elastic.notices import HostUpdateResult as HostUpdateResult
from farandole.common.elastic.notices import WorkerNotificationManager as WorkerNotificationManager
