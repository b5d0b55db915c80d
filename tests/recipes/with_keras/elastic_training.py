"""Plays a recipe on a worker of an elastic job."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow
from comparing import Snapshot
from elastic.training import ElasticTraining, FailingState, Place
from farandole._keras.library import build
from faults import FORGOTTEN

from with_keras import versions
from with_keras.elastic_recipes import FRAMEWORK
from with_keras.recipe import Recipe
from with_keras.seats import Member
from with_keras.snapshots import take
from with_keras.training import Training
from with_keras.versions import hvd, keras


class KerasState(FailingState, hvd.elastic.KerasState):
    """One that may fail."""


class TensorFlowKerasState(FailingState, horovod.tensorflow.elastic.TensorFlowKerasState):
    """The same, of the package for TensorFlow."""


STATES = {"keras": KerasState, "tensorflow": TensorFlowKerasState}


class KerasTraining(ElasticTraining, Training):
    """A worker fails "in the backward pass" between two batches of an epoch."""

    hvd, used = hvd, FRAMEWORK

    def __init__(self, recipe: Recipe, place: Place) -> None:
        versions.clear_session()
        ElasticTraining.__init__(self, place)
        Training.__init__(self, recipe, Member(), folder="")

    def begin_batch(self, batch: int) -> None:
        self.reach("pass")
        if batch > 0:
            self.reach("backward")

    def end_step(self, **losses: float) -> None:
        super().end_step(**losses)
        self.reach("backward")  # if one batch is an epoch
        self.reach("passed")

    def make_state(self) -> Any:
        optimizer = self.model.optimizer
        if self.recipe.fault == FORGOTTEN:
            optimizer = keras.optimizers.SGD()
            build(optimizer, self.model.trainable_variables)
        return STATES[self.recipe.state](self.model, optimizer, step=0)

    def follow(self, state: Any) -> None:
        """The members have other parts of an epoch."""
        self.x, self.y = self.epoch()

    def keep(self, state: Any) -> None:
        """All is in the variables."""

    def take(self) -> Snapshot:
        return take(self)

    def take_step(self) -> Snapshot:
        return self.play_epoch(self.current)


TRAINING = KerasTraining
