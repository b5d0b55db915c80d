"""Plays a recipe on a worker of an elastic job."""

from __future__ import annotations

from typing import Any

import horovod.lightning
import horovod.torch as hvd
import lightning.pytorch as pl
from comparing import Snapshot
from elastic.training import ElasticTraining, FailingState, Place
from seats import Seat

from with_lightning.elastic_recipes import FRAMEWORK, Recipe
from with_lightning.training import Model, loaders, taken, trainer_of


class State(FailingState, horovod.lightning.LightningState):
    """One that may fail. It commits, or not, as the plan says."""

    training: LightningTraining  # type: ignore[assignment]

    def commit(self) -> None:
        self.training.end_step(self)
        self.training.commit(super())


class Member(Seat):
    """This rank of an elastic job."""

    def __init__(self) -> None:
        super().__init__(hvd.size(), hvd.rank())

    def find(self) -> None:
        """Members may have changed."""
        self.take(hvd.size(), hvd.rank())


class Steps(pl.Callback):  # type: ignore[misc]
    """Reports steps, and fails in them."""

    def __init__(self, training: LightningTraining, state: State) -> None:
        self._training, self._state = training, state

    def on_train_start(self, *_: Any) -> None:
        self._training.begin(self._state)

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        self._training.current = trainer.global_step
        self._training.reach("pass")

    def on_after_backward(self, *_: Any) -> None:
        self._training.reach("backward")
        self._training.reach("passed")

    def on_train_end(self, *_: Any) -> None:
        self._training.end_step(self._state)


class LightningTraining(ElasticTraining):
    """A trainer plays the steps."""

    hvd, used = hvd, FRAMEWORK

    def __init__(self, recipe: Recipe, place: Place) -> None:
        super().__init__(place)
        self.recipe, self.seat = recipe, Member()
        self.model = Model(recipe, self.seat)

    def make_state(self) -> State:
        return State(step=0)

    def take(self) -> Snapshot:
        return taken(self.model.trainer)

    def play_from(self, state: Any) -> None:
        self.meet()
        trainer = trainer_of(self.recipe, [state.commit_every(1), Steps(self, state)], strategy="farandole")
        state.fit(trainer, self.model, *loaders(self.recipe))

    def end_step(self, state: State) -> None:
        self.report("step", step=self.current, **self.compared(self.take(), self.current))
        self.reach("step")
        state.step = self.current + 1


TRAINING = LightningTraining
