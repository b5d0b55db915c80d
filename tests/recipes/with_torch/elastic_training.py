"""Plays a recipe on a worker of an elastic job."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, List, Protocol, Sequence, Set

import horovod.torch as hvd
import torch
from comparing import Snapshot, differences, digests
from elastic.plan import FAILURES, Event, Plan
from horovod.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt

from with_torch import loop, resuming
from with_torch.framework import FRAMEWORK
from with_torch.recipe import Recipe
from with_torch.seats import Member
from with_torch.snapshots import take
from with_torch.training import Training


class Observer(Protocol):
    """The player, to which a worker reports."""

    def tell(self, **message: Any) -> None: ...

    def change(self, event: str) -> None:
        """Adds or removes a host, and waits until a worker that joins has started."""


class DeliberateError(Exception):
    """A script's own error, with which its process ends."""


class State(hvd.elastic.TorchState):
    """At some points of `commit` and `sync`, the worker may fail."""

    training: ElasticTraining

    def save(self) -> None:
        super().save()
        self.training.reach("commit")

    def sync(self) -> None:
        self.training.reach("sync")
        super().sync()


class ElasticTraining(Training):
    """:param worker: the number of this worker in the plan
    :param expected: the snapshots of one process
    """

    def __init__(self, recipe: Recipe, plan: Plan, worker: int, expected: List[Snapshot], observer: Observer) -> None:
        self.plan = plan
        self.worker = worker
        self.expected = expected
        self.observer = observer
        self.happened: Set[Event] = set()
        self.generation = 0
        super().__init__(recipe, Member())

    def build(self) -> None:
        super().build()
        compute = self.compute

        def computed(*batch: Any) -> torch.Tensor:
            self.reach("pass")
            hooks = self.fail_in_backward()
            loss: torch.Tensor = compute(*batch)
            for hook in hooks:
                hook.remove()
            self.reach("backward")  # if the hook's parameter was not used
            self.reach("passed")
            return loss

        self.compute = computed

    def fail_in_backward(self) -> List[Any]:
        if not any(each.point == "backward" for each in self.due(FAILURES)):
            return []
        parameter = loop.trained(self)[0]
        return [parameter.register_hook(lambda gradient: self.reach("backward"))]

    def play(self) -> List[Snapshot]:
        values: Dict[str, Any] = {"step": 0, "batches": 0, "calls": {}, "passes": 0}
        state = State(**resuming.values_by_name(self), **values)
        state.training = self
        state.register_reset_callbacks([lambda: self.reach("reset"), self.seat.find])
        if self.worker >= self.plan.size:
            self.step = self.recipe.steps  # it joins, and may fail in its first sync
        hvd.elastic.run(self.train)(state)
        return self.snapshots

    def train(self, state: Any) -> None:
        self.follow(state)
        told = hvd.allgather_object((self.worker, self.generation, self.happened), name="members")
        self.generation = 1 + max(generation for _, generation, _ in told)
        self.happened = set().union(*(happened for *_, happened in told))
        members = [worker for worker, *_ in told]
        kept = {key: value for key, value in take(self).items() if is_kept(key)}
        self.report("begins", members=members, step=state.step, **self.compared(kept, state.step - 1))
        while state.step < self.recipe.steps:
            self.step = state.step
            torch.manual_seed(self.recipe.seed + self.step)
            self.play_step()
            self.report("step", step=self.step, **self.compared(self.snapshots[-1], self.step))
            self.reach("step")
            restores = self.due(("restore",))
            if restores:
                self.happened.update(restores)
                state.restore()
                self.follow(state)
                self.report("restored", step=state.step)
                continue
            self.keep(state)
            self.commit(state)

    def follow(self, state: Any) -> None:
        """Takes the values of the state that are not objects of their own, and what follows from them."""
        self.batches, self.calls, self.model.passes = state.batches, dict(state.calls), state.passes
        self.indices = iter(())
        if self.recipe.frozen in ("until", "from"):
            self.freeze((self.recipe.frozen == "from") == (state.step > 1))
        loop.clear_all(self)

    def keep(self, state: Any) -> None:
        state.step, state.batches, state.calls = self.step + 1, self.batches, dict(self.calls)
        state.passes = getattr(self.model, "passes", 0)

    def commit(self, state: Any) -> None:
        """Commits or only looks for changes of members, and waits for one that is planned for this step."""
        changes = [each for each in self.plan.events if each.is_planned_change and each.step == self.step]
        for change in changes:
            if change.kind != "sigterm" and self.seat.rank == 0:
                self.observer.change(str(change))
            if change.kind == "sigterm" and change.worker == self.worker:
                os.kill(os.getpid(), signal.SIGTERM)
        try:
            if self.plan.is_committed[self.step]:
                state.commit()
                self.report("committed", step=self.step)
            else:
                state.check_host_updates()
            while changes:
                state.check_host_updates()
        except HostsUpdatedInterrupt:
            self.report("interrupted", step=self.step)
            raise

    def due(self, kinds: Sequence[str]) -> List[Event]:
        """The events that have to happen now to this worker. A step may be reached late: it is not repeated if others
        have committed it."""
        events = (each for each in self.plan.events if each.kind in kinds and each not in self.happened)
        return [each for each in events if each.step <= self.step and each.worker in (-1, self.worker)]

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
        found: Dict[str, Any] = {"digests": digests(FRAMEWORK.rules, self.recipe, snapshot)}
        if step >= 0:
            expected = {key: value for key, value in self.expected[step].items() if key in snapshot or is_kept(key)}
            found["differences"] = differences(FRAMEWORK.rules, self.recipe, snapshot, expected)
        return found


def is_kept(key: str) -> bool:
    """Whether the value is one of the state. The others are set by the next step."""
    return not key.startswith(("gradient.", "frozen.", "calls.", "loss"))
