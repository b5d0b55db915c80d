"""The queue of the changes of hosts that an elastic state has been told of."""

from __future__ import annotations

import queue
import time
from typing import List, Tuple

from farandole.common import membership
from farandole.common.elastic.notices import HostUpdateResult
from farandole.common.membership import NO_CHANGE, Change


class HostMessages(queue.Queue[Tuple[float, int]]):
    """The changes of hosts that this process has been told of since the generation began, each as its time and a
    ``HostUpdateResult``: those that came on the links of the job, and those that were put in.

    A script may look at messages and take them out. ``change`` counts those that were taken out, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._put_in = NO_CHANGE
        self._from_links = 0
        """Changes that came on the links, and for which there is or was a message."""

    def change(self) -> Change:
        """All changes together."""
        return membership.change().and_then(self._put_in)

    def take(self) -> List[float]:
        """Takes all messages out, and returns their times."""
        times = []
        while not self.empty():
            times.append(self.get_nowait()[0])
        return times

    # The superclass calls these two with its lock held.

    def _qsize(self) -> int:
        told = membership.change()
        result = HostUpdateResult.removed if told.removals_only else HostUpdateResult.mixed
        for _ in range(told.changes - self._from_links):
            super()._put((time.time(), result))
        self._from_links = max(self._from_links, told.changes)
        return super()._qsize()

    def _put(self, item: Tuple[float, int]) -> None:
        self._put_in = self._put_in.and_then(Change(1, item[1] == HostUpdateResult.removed))
        super()._put(item)
