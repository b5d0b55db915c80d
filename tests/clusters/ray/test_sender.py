"""Functions that are called repeatedly: they are sent once, and each call gets a new one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, List

import pytest
from horovod.ray import RayExecutor
from horovod.ray.errors import Place
from horovod.ray.sender import Sender


class Worker:
    """Records the names of the methods that are called."""

    def __init__(self) -> None:
        self.called: List[str] = []
        for name in ("execute", "execute_again"):
            setattr(self, name, SimpleNamespace(remote=lambda *_, name=name: self._call(name)))

    def _call(self, name: str) -> Any:
        self.called.append(name)
        return object()


def first_function(_: Any) -> int:
    return 1


def second(_: Any) -> int:
    return 2


def test_a_function_is_sent_again_unless_all_workers_have_run_it_last() -> None:
    workers = [Worker(), Worker()]
    places = [Place(0), Place(1)]
    sender = Sender(workers, places)
    first = sender.call(first_function)
    assert list(first.values()) == places
    sender.completed(sender.call(first_function))  # the first calls may have been cancelled, or still run
    sender.call(first_function)
    sender.completed(sender.call(first_function))
    other = sender.call(second)
    sender.completed(first)
    sender.call(second)
    sender.completed(other)  # but not the calls that followed
    sender.call(second)
    assert [worker.called for worker in workers] == [[*["execute"] * 2, *["execute_again"] * 2, *["execute"] * 3]] * 2


@pytest.mark.usefixtures("nothing_is_left")
def test_each_call_gets_the_present_variables_of_its_function(two: RayExecutor) -> None:
    values = [1]

    def add() -> List[int]:
        values.append(2)
        return values

    assert two.run(add) == [[1, 2]] * 2
    assert two.execute_single(lambda _: 5) == 5  # on one worker
    assert two.run(add) == [[1, 2]] * 2
    values[0] = 3
    assert two.run(add) == [[3, 2]] * 2
    with pytest.raises(LookupError, match="no such table"):
        two.run(fail)
    with pytest.raises(LookupError, match="no such table"):
        two.run(fail)
    assert two.run(add) == [[3, 2]] * 2


def fail() -> None:
    raise LookupError("no such table")
