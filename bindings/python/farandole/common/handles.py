"""Asynchronous calls by their numbers, until somebody asks for their results."""

from __future__ import annotations

from typing import Any

from farandole import _native
from farandole.common.exceptions import HorovodInternalError
from farandole.common.operations import public

kept: Any = _native.Kept()


def keep(call: Any) -> int:
    """Keeps what ``entry.start`` or one of its kin returned; its number is what the caller gets."""
    number: int = kept.add(call)
    return number


@public
def poll(handle: int) -> bool:
    call = kept.get(handle)
    if call is None:
        raise ValueError(f"no operation has the handle {handle}: it was never given out, or has been synchronized")
    settled: bool = call.settled()
    return settled


@public
def synchronize(handle: int) -> Any:
    output = kept.output_of_settled(handle)
    if output is not NotImplemented:
        return output
    call = kept.get(handle)
    if call is None:
        return None
    try:
        result = call.finish()
    except (HorovodInternalError, ValueError):
        kept.forget(handle)
        raise
    kept.forget(handle)
    return result
