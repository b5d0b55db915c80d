"""Values that a session has put on its workers, once per host.

The first worker of a host gets the value, and keeps its bytes in a file without a name in memory (memfd), which the
other workers of the host read through ``/proc``. The kernel frees it with the process.
"""

from __future__ import annotations

import os
import pickle
from typing import Any, Dict, Optional, Tuple

_values: Dict[str, Any] = {}
_descriptors: Dict[str, int] = {}


class Reference:
    """Stands for a value on the workers; a function that gets it as an argument, or uses it, finds the value."""

    def __init__(self) -> None:
        self.key = os.urandom(8).hex()

    def __reduce__(self) -> Any:
        return value_of, (self.key,)


def value_of(key: str) -> Any:
    """The value, on a worker."""
    try:
        return _values[key]
    except KeyError:
        raise RuntimeError(
            "this value was put on the workers of another session, or is read outside of a worker; put() it again"
        ) from None


def nothing() -> None:
    """A call without an effect."""


def keep(key: str, content: bytes) -> Tuple[int, int]:
    """Keeps a value, and offers its bytes to the other workers of this host. Returns process and descriptor."""
    release(key)
    descriptor = _descriptors[key] = os.memfd_create("farandole-value")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    _values[key] = pickle.loads(content)
    return os.getpid(), descriptor


def load(key: str, places: Dict[str, Tuple[int, int]]) -> bool:
    """Reads the value of the first worker of this host. Returns False where the system does not allow it."""
    place = _place_of_this_host(places)
    if place is None:
        return False
    try:
        with open(f"/proc/{place[0]}/fd/{place[1]}", "rb") as file:
            _values[key] = pickle.load(file)
    except OSError:
        return False
    return True


def _place_of_this_host(places: Dict[str, Tuple[int, int]]) -> Optional[Tuple[int, int]]:
    return places.get(os.environ.get("HOROVOD_HOSTNAME") or os.uname().nodename)


def release(key: str) -> None:
    """All workers have read the bytes."""
    descriptor = _descriptors.pop(key, None)
    if descriptor is not None:
        os.close(descriptor)
