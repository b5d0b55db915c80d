"""Calls functions on all workers of a job."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, List, Optional

from farandole.ray.errors import Place
from farandole.ray.functions import sendable


class Sender:
    """Calls functions on all workers, in the same order on each of them. May be used by several threads.

    Ray's calls take a fifth longer with an argument. So a function is not sent again if its pickle equals that of the
    function that all workers have run last. The workers keep the pickle and unpickle it for each call, so that no call
    sees changes that another has made to the variables of the function.
    """

    def __init__(self, workers: List[Any], places: List[Place]) -> None:
        self._workers, self._places = workers, places
        self._lock = threading.Lock()
        self._sent: Any = None
        """The last function that was sent, as an argument."""
        self._calls: Optional[Dict[Any, Place]] = None
        """The calls of ``_sent``, until others follow."""
        self._is_kept = False
        """Whether all workers are known to have received ``_sent``."""

    def call(self, function: Callable[[Any], Any]) -> Dict[Any, Place]:
        """Starts the calls. Returns their object references, with the workers that run them."""
        argument = sendable(function)
        with self._lock:
            if self._is_kept and argument == self._sent:
                return dict(zip([worker.execute_again.remote() for worker in self._workers], self._places))
            calls = dict(zip([worker.execute.remote(argument) for worker in self._workers], self._places))
            self._sent, self._calls, self._is_kept = argument, calls, False
            return calls

    def completed(self, calls: Dict[Any, Place]) -> None:
        """Tells that all workers have run these calls, and so have the function. Without it the function is sent again,
        because calls that were cancelled may not have reached all workers."""
        with self._lock:
            if calls is self._calls:
                self._is_kept = isinstance(self._sent, bytes)
