"""Asynchronous calls by their numbers, until somebody asks for their results."""

from __future__ import annotations

from typing import Any, Dict

from farandole.common.exceptions import HorovodInternalError
from farandole.common.operations import public

kept: Dict[int, Any] = {}


def keep(call: Any) -> int:
    """Keeps what ``entry.start`` or one of its kin returned; its number is what the caller gets."""
    number: int = call.number
    kept[number] = call
    return number


@public
def poll(handle: int) -> bool:
    call = kept.get(handle)
    if call is None:
        raise ValueError(f"no operation has the handle {handle}: it was never given out, or has been synchronized")
    return call.settled()


@public
def synchronize(handle: int) -> Any:
    call = kept.get(handle)
    if call is None:
        return None
    try:
        result = call.finish()
    except (HorovodInternalError, ValueError):
        kept.pop(handle, None)
        raise
    kept.pop(handle, None)
    return result
