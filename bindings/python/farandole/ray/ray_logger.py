"""Sends values from workers to the callbacks of ``RayExecutor.run()`` while the job runs."""

from __future__ import annotations

from typing import Any, Optional

import ray

UNAVAILABLE: Any = getattr(ray.exceptions, "ActorUnavailableError", ())
"""The exception of calls to an actor that Ray cannot reach for a moment. Old versions of Ray have none, so that an
``except`` clause with this value catches nothing."""
_queue: Optional[Any] = None


def configure(queue: Any) -> None:
    """Sets the queue that ``log()`` fills in this process.

    :param queue: a ``ray.util.queue.Queue``; None: ``log()`` drops its values
    """
    global _queue
    _queue = queue


def log(info_dict: Any) -> None:
    """Passes a value, usually a dictionary, to each callback of the call that this worker runs.

    Without callbacks, and after the caller has stopped to listen, the value is dropped. It may also be lost while Ray
    cannot reach the queue.
    """
    if _queue is None:
        return
    try:
        _queue.put(info_dict)
    except UNAVAILABLE:
        pass  # the next value is tried again; a second attempt with this one could pass it twice
    except ray.exceptions.RayActorError:
        configure(None)  # the call has been given up, and its queue removed
