"""A deadline, and the exception for one that has passed."""

from __future__ import annotations

import time


class TimeoutException(Exception):
    """Something did not happen in time."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class Timeout:
    """A deadline that begins when the object is made."""

    def __init__(self, timeout: float, message: str) -> None:
        """
        :param timeout: seconds
        :param message: the text of the exception; ``{activity}`` and ``{timeout}`` in it are replaced
        """
        self._timeout = timeout
        self._deadline = time.monotonic() + timeout
        self._message = message

    def remaining(self) -> float:
        """Seconds until the deadline; 0 after it."""
        return max(0.0, self._deadline - time.monotonic())

    def timed_out(self) -> bool:
        """Whether the deadline has passed."""
        return time.monotonic() > self._deadline

    def check_time_out_for(self, activity: str) -> None:
        """``TimeoutException`` if the deadline has passed."""
        if self.timed_out():
            raise TimeoutException(self._message.format(activity=activity, timeout=self._timeout))
