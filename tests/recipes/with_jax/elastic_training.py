"""Plays a recipe on a worker of an elastic job."""

from __future__ import annotations

from typing import Any

import horovod.jax as hvd
import jax
from comparing import Snapshot
from elastic.training import ElasticTraining, FailingState, Place
from faults import FORGOTTEN
from recipe import Recipe

from with_jax.framework import FRAMEWORK
from with_jax.seats import Member
from with_jax.training import Training, taken


class State(FailingState, hvd.elastic.JaxState):
    """One that may fail."""


class JaxTraining(ElasticTraining, Training):
    """A worker fails "in the backward pass" while the program of a step runs."""

    hvd, used = hvd, FRAMEWORK

    def __init__(self, recipe: Recipe, place: Place) -> None:
        ElasticTraining.__init__(self, place)
        Training.__init__(self, recipe, Member())

    def build(self, distance: int) -> None:
        super().build(distance)
        step = self.step

        def reached(values: Any, batch: Any) -> Any:
            self.reach("pass")
            found = step(values, batch)
            self.reach("backward")
            if self.is_due("passed"):
                jax.block_until_ready(found)
                self.reach("passed")
            return found

        self.step = reached

    def make_state(self) -> State:
        params, optimizer = self.values
        return State(step=0, params=params, optimizer=optimizer)

    def follow(self, state: Any) -> None:
        is_forgotten = self.recipe.fault == FORGOTTEN
        self.values = state.params, self.values[1] if is_forgotten else state.optimizer

    def keep(self, state: Any) -> None:
        state.params, state.optimizer = self.values

    def take(self) -> Snapshot:
        return taken(0.0, *self.values)

    def take_step(self) -> Snapshot:
        return self.train(range(self.current, self.current + 1))[0]


TRAINING = JaxTraining
