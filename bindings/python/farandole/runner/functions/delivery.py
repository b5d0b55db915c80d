"""The calls by which workers load a value that a session has put on them. It is sent once per host."""

from __future__ import annotations

from typing import Any, Callable, Dict, Generator, List, NamedTuple, Optional, Tuple

from farandole.runner.functions import values


class Step(NamedTuple):
    """A call on the workers in some slots."""

    function: Callable[..., Any]
    arguments: Tuple[Any, ...]
    slots: List[int]


class Delivery:
    """A value on its way to workers that lack it.

    :param lacking: their slots by host
    """

    def __init__(self, key: str, content: bytes, lacking: Dict[str, List[int]]) -> None:
        self.key = key
        self.slots = [slot for slots in lacking.values() for slot in slots]
        self._steps = _steps_to_load(key, content, lacking)

    def next_step(self, results: Optional[Dict[int, Any]]) -> Optional[Step]:
        """The next step; None if all workers have been sent the value.

        :param results: by slot, of the step before; None before the first
        """
        try:
            return self._steps.send(results)
        except StopIteration:
            return None


def _steps_to_load(key: str, content: bytes, lacking: Dict[str, List[int]]) -> Generator[Step, Any, None]:
    first = {host: slots[0] for host, slots in lacking.items()}
    keeping = list(first.values())
    kept = yield Step(values.keep, (key, content), keeping)
    others = [slot for slots in lacking.values() for slot in slots[1:]]
    if others:
        places = {host: kept[slot] for host, slot in first.items()}
        were_loaded = yield Step(values.load, (key, places), others)
        missing = [slot for slot in others if not were_loaded[slot]]
        if missing:
            yield Step(values.keep, (key, content), missing)
            keeping += missing
    yield Step(values.release, (key,), keeping)
