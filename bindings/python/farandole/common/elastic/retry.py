"""Decides when the elastic loop tries again after a failure, and when it gives up.

After the loss of a member the loop tries again at once, since the remaining members can go on. If a failure recurs
before any step was completed, the next try would most likely fail as well. The delay before such tries grows
(exponential backoff with jitter, the same as in ``init()``: elastic/retry_delay.hpp), and they end at the job's reset
limit.
"""

from __future__ import annotations

import random
from typing import Callable, NamedTuple, Optional

from farandole import _native


class Decision(NamedTuple):
    """Whether and when to try again after a failure."""

    delay_s: float
    """How long to wait before the next try; 0 after a failure that follows a completed step."""
    gives_up: bool
    """There is no next try: the reset limit is exceeded."""


class RetryPolicy:
    """Counts what happens to one elastic loop. It neither waits nor looks at a clock.

    :param reset_limit: the most resets of the job (``--reset-limit``); None: any number
    :param uniform: draws from [0, 1)
    """

    def __init__(self, reset_limit: Optional[int], uniform: Callable[[], float] = random.random) -> None:
        self.reset_limit = reset_limit
        self.resets = 0
        """Planned changes and tries after failures, as the launcher counts them too."""
        self._uniform = uniform
        self._has_progressed = False
        self._failures_in_a_row = 0

    def progressed(self) -> None:
        """A step was completed since the last failure."""
        self._has_progressed = True
        self._failures_in_a_row = 0

    def changed(self) -> None:
        """Members change as planned, between two steps."""
        self.resets += 1
        self.progressed()

    def failed(self) -> Decision:
        """The last try has failed."""
        self.resets += 1
        # With steps between failures the launcher alone ends the job: it knows which workers were lost.
        is_over = self.reset_limit is not None and self.resets > self.reset_limit
        gives_up = is_over and not self._has_progressed
        self._has_progressed = False
        self._failures_in_a_row += 1
        return Decision(_native.retry_delay_s(self._failures_in_a_row, self._uniform()), gives_up)
