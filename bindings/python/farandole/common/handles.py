"""Keeps asynchronous calls by their handle numbers, until they are synchronized."""

from __future__ import annotations

from typing import Any

from farandole import _native
from farandole.common.arguments import shown
from farandole.common.exceptions import HorovodInternalError
from farandole.common.operations import public

pending_handles: Any = _native.PendingHandles()


def require_handle(function: str, handle: Any) -> None:
    """``ValueError`` for a value that cannot be a handle, regardless of the numbers in use."""
    if isinstance(handle, int) and not isinstance(handle, bool):
        return
    remedy = "pass what an asynchronous function such as allreduce_async returned"
    if callable(handle):
        remedy = "call what sparse_allreduce_async returned, or pass what another asynchronous function returned"
    elif not isinstance(handle, (bool, float, str)) and handle is not None:
        remedy += "; what a function without _async returns is complete already"
    raise ValueError(f"{function} takes a handle, which is an int, not {shown(handle)}; {remedy}")


def keep(call: Any) -> int:
    """Keeps a call that ``entry.start`` or a similar function returned. Returns its number, the caller's handle."""
    number: int = pending_handles.add(call)
    return number


@public
def poll(handle: int) -> bool:
    call = pending_handles.get(handle)
    if call is None:
        require_handle("poll", handle)
        raise ValueError(f"no operation has the handle {handle}: it was never given out, or has been synchronized")
    settled: bool = call.settled()
    return settled


@public
def synchronize(handle: int) -> Any:
    output = pending_handles.output_of_settled(handle)
    if output is not NotImplemented:
        return output
    call = pending_handles.get(handle)
    if call is None:
        require_handle("synchronize", handle)
        return None
    try:
        result = call.finish()
    except (HorovodInternalError, ValueError):
        pending_handles.forget(handle)
        raise
    pending_handles.forget(handle)
    return result
