"""Plays a recipe on a worker of an elastic job."""

from __future__ import annotations

from typing import Any, Dict, List

import horovod.torch as hvd
import torch
from comparing import Snapshot
from elastic.training import ElasticTraining, FailingState, Place
from faults import FORGOTTEN

from with_torch import loop, resuming
from with_torch.framework import FRAMEWORK
from with_torch.recipe import Recipe
from with_torch.seats import Member
from with_torch.snapshots import take
from with_torch.training import Training


class State(FailingState, hvd.elastic.TorchState):
    """One that may fail."""


class TorchTraining(ElasticTraining, Training):
    """A worker fails in the backward pass in a hook of a parameter."""

    hvd, used = hvd, FRAMEWORK

    def __init__(self, recipe: Recipe, place: Place) -> None:
        ElasticTraining.__init__(self, place)
        Training.__init__(self, recipe, Member())

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
        if not self.is_due("backward"):
            return []
        parameter = loop.trained(self)[0]
        return [parameter.register_hook(lambda gradient: self.reach("backward"))]

    def play_elastically(self) -> None:
        super().play_elastically()
        self.end()

    def make_state(self) -> State:
        values: Dict[str, Any] = {"step": 0, "batches": 0, "calls": {}, "passes": 0}
        values.update(resuming.values_by_name(self))
        if self.recipe.fault == FORGOTTEN:
            del values["optimizer0"]
        return State(**values)

    def follow(self, state: Any) -> None:
        self.batches, self.calls, self.model.passes = state.batches, dict(state.calls), state.passes
        self.indices = iter(())
        if self.recipe.frozen in ("until", "from"):
            self.freeze((self.recipe.frozen == "from") == (state.step > 1))
        loop.clear_all(self)

    def keep(self, state: Any) -> None:
        state.batches, state.calls = self.batches, dict(self.calls)
        state.passes = getattr(self.model, "passes", 0)

    def take(self) -> Snapshot:
        return take(self)

    def take_step(self) -> Snapshot:
        self.step = self.current
        torch.manual_seed(self.recipe.seed + self.step)
        self.play_step()
        return self.snapshots[-1]


TRAINING = TorchTraining
