"""Sends a function to many actors: a small one within each call, a large one once through Ray's object store."""

from __future__ import annotations

import io
from typing import Any, Callable

import ray
from ray import cloudpickle

INLINE_BYTES = 1 << 16
"""A pickled function of at most this size is sent within a call."""


class _Unsuitable(Exception):
    """The function is too large, or refers to objects and actors, which Ray has to know of."""


class _LimitedBuffer(io.BytesIO):
    def write(self, data: Any) -> int:
        count = super().write(data)
        if self.tell() > INLINE_BYTES:
            raise _Unsuitable
        return count


class _Pickler(cloudpickle.CloudPickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (ray.ObjectRef, ray.actor.ActorHandle)):
            raise _Unsuitable
        return super().reducer_override(value)


def sendable(function: Callable[[Any], Any]) -> Any:
    """The function as an argument for the ``execute`` of many actors: its pickle, or, if that is large, a reference to
    an object of Ray.

    ``TypeError`` with Ray's explanation if it cannot be pickled.
    """
    buffer = _LimitedBuffer()
    try:
        _Pickler(buffer).dump(function)
        return buffer.getvalue()
    except Exception:  # Ray pickles a large one more efficiently, and explains why another one cannot be pickled
        return ray.put(function)


def received(function: Any) -> Callable[[Any], Any]:
    """The function that an actor has received.

    :param function: a result of ``sendable()``, or the function itself
    """
    return cloudpickle.loads(function) if isinstance(function, bytes) else function
