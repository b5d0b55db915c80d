"""What a worker of an elastic job does, whatever its framework is."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, List, NamedTuple, Protocol, Sequence, Set

from comparing import Snapshot, differences, digests
from farandole.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from frameworks import Framework
from recipe import Recipe

from elastic.plan import FAILURES, Event, Plan

JOINING = -1
"""The step of a worker that has not played any yet, as it joins."""


class Observer(Protocol):
    """The player, to which a worker reports."""

    def tell(self, **message: Any) -> None: ...

    def change(self, event: str) -> None:
        """Adds or removes a host, and waits until a worker that joins has started."""


class Place(NamedTuple):
    """What a worker knows of its job."""

    plan: Plan
    worker: int
    """The number of this worker in the plan."""
    expected: Sequence[Snapshot]
    """The snapshots of one process."""
    observer: Observer


class DeliberateError(Exception):
    """A script's own error, with which its process ends."""


class FailingState:
    """At some points of `commit` and `sync`, the worker may fail. An elastic state derives from this class first."""

    training: ElasticTraining

    def save(self) -> None:
        super().save()  # type: ignore[misc]
        self.training.reach("commit")

    def sync(self) -> None:
        self.training.reach("sync")
        super().sync()  # type: ignore[misc]


class ElasticTraining:
    """Derived classes are a `Training` of their framework, too, and define what raises `NotImplementedError` here."""

    hvd: Any
    """The interface of the framework."""
    used: Framework
    recipe: Recipe
    seat: Any

    def __init__(self, place: Place) -> None:
        self.plan, self.worker, self.expected, self.observer = place
        self.happened: Set[Event] = set()
        self.generation = 0
        self.current = 0
        """The step that is played, or `JOINING`."""

    def make_state(self) -> Any:
        """The elastic state, of a class that derives from `FailingState`. Its `step` is the next one."""
        raise NotImplementedError

    def follow(self, state: Any) -> None:
        """Takes the values of the state that are not objects of their own, and what follows from them."""
        raise NotImplementedError

    def keep(self, state: Any) -> None:
        """Puts such values into the state."""
        raise NotImplementedError

    def take(self) -> Snapshot:
        """The values of now, among them those of the state."""
        raise NotImplementedError

    def take_step(self) -> Snapshot:
        """Plays the current step."""
        raise NotImplementedError

    def play_elastically(self) -> None:
        state = self.make_state()
        state.training = self
        state.register_reset_callbacks([lambda: self.reach("reset"), self.seat.find])
        if self.worker >= self.plan.size:
            self.current = JOINING
        self.hvd.elastic.run(self.play_from)(state)

    def meet(self) -> None:
        """Learns who the members are now, and what has happened to them."""
        told = self.hvd.allgather_object((self.worker, self.generation, self.happened), name="members")
        self.generation = 1 + max(generation for _, generation, _ in told)
        self.happened = set().union(*(happened for *_, happened in told))
        self.members = [worker for worker, *_ in told]

    def begin(self, state: Any) -> None:
        """Reports the state that these members begin with."""
        kept = {key: value for key, value in self.take().items() if is_kept(key)}
        self.report("begins", members=self.members, step=state.step, **self.compared(kept, state.step - 1))

    def play_from(self, state: Any) -> None:
        self.follow(state)
        self.meet()
        self.begin(state)
        while state.step < self.recipe.steps:
            self.current = state.step
            snapshot = self.take_step()
            self.report("step", step=self.current, **self.compared(snapshot, self.current))
            self.reach("step")
            restores = self.due(("restore",))
            if restores:
                self.happened.update(restores)
                state.restore()
                self.follow(state)
                self.report("restored", step=state.step)
                continue
            state.step = self.current + 1
            self.keep(state)
            self.commit(state)

    def commit(self, state: Any) -> None:
        """Commits or only looks for changes of members, and waits for one that is planned for this step."""
        changes = [each for each in self.plan.events if each.is_planned_change and each.step == self.current]
        for change in changes:
            if change.kind != "sigterm" and self.seat.rank == 0:
                self.observer.change(str(change))
            if change.kind == "sigterm" and change.worker == self.worker:
                os.kill(os.getpid(), signal.SIGTERM)
        try:
            if self.plan.is_committed[self.current]:
                state.commit()
                self.report("committed", step=self.current)
            else:
                state.check_host_updates()
            while changes:
                state.check_host_updates()
        except HostsUpdatedInterrupt:
            self.report("interrupted", step=self.current)
            raise

    def due(self, kinds: Sequence[str]) -> List[Event]:
        """The events that have to happen now to this worker. A step may be reached late: it is not repeated if others
        have committed it."""
        events = (each for each in self.plan.events if each.kind in kinds and each not in self.happened)
        return [each for each in events if self.has_come(each) and each.worker in (-1, self.worker)]

    def has_come(self, event: Event) -> bool:
        """Whether its step is reached. A worker that joins fails in its first sync, whatever the step is."""
        return event.step <= self.current or (self.current == JOINING and event.point == "sync")

    def is_due(self, point: str) -> bool:
        """Whether this worker has to fail at this point."""
        return any(each.point == point for each in self.due(FAILURES))

    def reach(self, point: str) -> None:
        """Fails, if that is due at this point."""
        for event in self.due(FAILURES):
            if event.point == point:
                self.happened.add(event)
                self.report("fails", event=str(event))
                if event.kind == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise DeliberateError if event.kind == "raise" else HorovodInternalError("a deliberate failure")

    def report(self, kind: str, **message: Any) -> None:
        self.observer.tell(kind=kind, generation=self.generation, **message)

    def compared(self, snapshot: Snapshot, step: int) -> Dict[str, Any]:
        """What the player learns of the state after this step."""
        rules = self.used.rules
        found: Dict[str, Any] = {"digests": digests(rules, self.recipe, snapshot)}
        if step >= 0:
            expected = {key: value for key, value in self.expected[step].items() if key in snapshot or is_kept(key)}
            found["differences"] = differences(rules, self.recipe, snapshot, expected)
        return found


def is_kept(key: str) -> bool:
    """Whether the value is one of the state. The others are set by the next step."""
    return not key.startswith(("gradient.", "frozen.", "calls.", "loss", "logs."))
