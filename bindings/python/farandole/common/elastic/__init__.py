"""Training that goes on while members come and go, for any framework.

``state`` holds the values that must be the same on all ranks, ``loop`` calls the training function again when members
have changed, and ``notices`` passes notifications about hosts on to the states.
"""

from __future__ import annotations

from farandole.common.elastic.loop import run, run_fn
from farandole.common.elastic.notices import (
    HostsUpdatedRequest,
    HostUpdateResult,
    WorkerNotificationManager,
    notification_manager,
)
from farandole.common.elastic.state import ObjectState, State
from farandole.common.elastic.variables import VariablesState

__all__ = [
    "HostUpdateResult",
    "HostsUpdatedRequest",
    "ObjectState",
    "State",
    "VariablesState",
    "WorkerNotificationManager",
    "notification_manager",
    "run",
    "run_fn",
]
