"""The queue of ``ray_logger.log()`` while Ray cannot reach it for a moment."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, Iterator, List

import pytest
import ray
from conftest import DEADLINE_S, wait_until
from horovod.ray import RayExecutor, calls, errors, ray_logger

pytestmark = pytest.mark.usefixtures("nothing_is_left")


class UnreachableActor:
    """Calls of the actor fail a number of times, as when the network is interrupted."""

    def __init__(self, actor: Any, failures: int) -> None:
        self.actor, self.failures = actor, failures

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *arguments: self._call(name, arguments))

    def _call(self, name: str, arguments: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise ray.exceptions.ActorUnavailableError("the connection is interrupted", None)
        return getattr(self.actor, name).remote(*arguments)


@pytest.fixture
def values() -> List[Any]:
    """Those that the callback has received."""
    return []


@pytest.fixture
def logs(two: RayExecutor, values: List[Any]) -> Iterator[calls.LogQueue]:
    found = calls.LogQueue([values.append])
    yield found
    ray_logger.configure(None)
    if isinstance(found.queue.actor, UnreachableActor):
        found.queue.actor = found.queue.actor.actor
    found.close()


def interrupt(logs: calls.LogQueue, failures: int) -> None:
    logs.queue.actor = UnreachableActor(logs.queue.actor, failures)


def finish(pump: calls.Pump) -> None:
    """Fails if the end of the values does not arrive."""
    finishing = threading.Thread(target=pump.__exit__, args=(None, None, None), daemon=True)
    finishing.start()
    finishing.join(DEADLINE_S)
    assert not finishing.is_alive()


def test_the_end_is_sent_again_after_an_interruption(logs: calls.LogQueue, values: List[Any]) -> None:
    pump = calls.Pump(logs, lambda: None)
    logs.queue.put(1)
    wait_until(lambda: values == [1], lambda: f"{values}")
    interrupt(logs, 2)
    finish(pump)
    assert logs.queue.actor.failures == 0


def test_a_queue_that_stays_unreachable_is_removed(logs: calls.LogQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "UNAVAILABLE_S", 0.0)
    actor = logs.queue.actor
    pump = calls.Pump(logs, lambda: None)
    interrupt(logs, 1000)
    monkeypatch.setattr(logs, "close", lambda: ray.kill(actor))  # the wrapper is no handle
    finish(pump)


def test_a_get_whose_reply_is_lost_costs_neither_later_values_nor_the_end(
    logs: calls.LogQueue, values: List[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: List[Any] = []
    take = ray.get

    def get(reference: Any, **options: Any) -> Any:
        value = take(reference, **options)
        if not lost and (value == 1 or isinstance(value, calls._End)):
            lost.append(value)
            raise ray.exceptions.ActorUnavailableError("the reply is lost", None)
        return value

    monkeypatch.setattr(ray, "get", get)
    pump = calls.Pump(logs, lambda: None)
    for value in (1, 2):
        logs.queue.put(value)
    finish(pump)
    assert lost == [1] and values == [2]
    lost.clear()
    pump = calls.Pump(logs, lambda: None)
    finish(pump)
    assert len(lost) == 1 and isinstance(lost[0], calls._End)


def test_a_worker_logs_its_next_value_after_an_interruption(logs: calls.LogQueue, values: List[Any]) -> None:
    pump = calls.Pump(logs, lambda: None)
    interrupt(logs, 1)
    ray_logger.configure(logs.queue)
    for value in ("lost", "kept"):
        ray_logger.log(value)
    finish(pump)
    assert values == ["kept"]


def test_the_failure_of_a_worker_is_reported_before_that_of_a_callback(
    two: RayExecutor, logs: calls.LogQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise LookupError("no place for the value")

    monkeypatch.setattr(logs, "deliver_rest", fail)
    call = two.adapter.workers[0].execute.remote(lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError, match="rank 0 raised ZeroDivisionError"):
        calls.results_of({call: errors.Place(0)}, logs)
