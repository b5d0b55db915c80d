"""Shows operations as ranges in a running ``torch.profiler``.

A function that waits is one range, such as ``horovod:allreduce``. An asynchronous one is a range for its submission,
and ``horovod:allreduce wait`` for each time that a thread waits for it. So the ranges of a thread are nested, as the
profiler requires.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Callable, List, Optional

from torch.autograd import profiler

from farandole.common.calls import handles_of

flags: Any = profiler if hasattr(profiler, "_is_profiler_enabled") else SimpleNamespace(_is_profiler_enabled=False)
"""Its ``_is_profiler_enabled`` says whether a profiler runs, in any thread. Versions of PyTorch without this flag show
no ranges: asking each time would take longer."""


class CallInRange:
    """A call that was submitted while a profiler ran. Has the methods of ``calls.Call``."""

    __slots__ = ("_call", "_title", "_open")

    def __init__(self, call: Any, title: str, open_range: Optional[profiler.record_function]) -> None:
        self._call = call
        self._title = title
        self._open = open_range

    @property
    def handles(self) -> List[Any]:
        return handles_of(self._call)

    @property
    def number(self) -> int:
        number: int = self._call.number
        return number

    def settled(self) -> bool:
        settled: bool = self._call.settled()
        return settled

    def wait(self) -> None:
        self._in_range(self._call.wait)

    def finish(self) -> Any:
        return self._in_range(self._call.finish)

    def _in_range(self, function: Callable[[], Any]) -> Any:
        if self._open is not None:
            open_range, self._open = self._open, None
            try:
                return function()
            finally:
                open_range.__exit__(None, None, None)
        if self._call.settled():
            return function()
        with profiler.record_function(f"{self._title} wait"):
            return function()


def start_in_range(request: Any, name: Any, start: Callable[..., Any], *arguments: Any) -> CallInRange:
    """Submits an operation, in a range. Where the caller waits at once, the range lasts until it has waited."""
    title = f"horovod:{request.prefix}"
    submission = profiler.record_function(title, name[0] if isinstance(name, list) else name)
    submission.__enter__()
    waits = False
    try:
        call = start(request, name, *arguments, is_in_range=True)
        waits = request.waits
    finally:
        if not waits:
            submission.__exit__(None, None, None)
    return CallInRange(call, title, submission if waits else None)
