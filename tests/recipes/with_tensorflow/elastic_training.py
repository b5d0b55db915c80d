"""Plays a recipe on a worker of an elastic job."""

from __future__ import annotations

from typing import Any

import horovod.tensorflow as hvd
import keras
import tensorflow as tf
from comparing import Snapshot
from elastic.training import ElasticTraining, FailingState, Place
from faults import FORGOTTEN

from with_tensorflow.elastic_recipes import FRAMEWORK
from with_tensorflow.recipe import Recipe
from with_tensorflow.seats import Member
from with_tensorflow.training import Training


class State(FailingState, hvd.elastic.TensorFlowState):
    """One that may fail."""


class TensorFlowTraining(ElasticTraining, Training):
    """A worker fails "in the backward pass" after the first of a step's calls."""

    hvd, used = hvd, FRAMEWORK

    def __init__(self, recipe: Recipe, place: Place) -> None:
        keras.utils.clear_session(free_memory=False)
        ElasticTraining.__init__(self, place)
        Training.__init__(self, recipe, Member(), folder="")

    def build(self) -> None:
        super().build()
        run = self.run

        def reached(*batch: Any) -> Any:
            self.reach("pass")
            loss = run(*batch)
            self.reach("backward")
            return loss

        self.run = reached

    def make_state(self) -> State:
        variables = tf.compat.v1.global_variables() if self.session else self.state()
        if self.recipe.fault == FORGOTTEN:
            variables = [*self.weights.values()]
        return State(variables, self.session, step=0)

    def follow(self, state: Any) -> None:
        """All is in the variables."""

    def keep(self, state: Any) -> None:
        """All is in the variables."""

    def take(self) -> Snapshot:
        return self.snapshot(0.0)

    def train(self) -> float:
        loss = super().train()
        self.reach("passed")
        return loss

    def take_step(self) -> Snapshot:
        return self.play_step(self.current)


TRAINING = TensorFlowTraining
