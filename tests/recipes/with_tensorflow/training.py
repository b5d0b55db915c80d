"""Plays a recipe, in one process or on a rank, and records what it has after every step."""

from __future__ import annotations

import contextlib
import tempfile
from typing import Any, List

import faults
import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf
from comparing import Snapshot, Tensor, from_start

from with_tensorflow import resuming
from with_tensorflow.gradients import differentiated
from with_tensorflow.models import OUTPUTS, WIDTH, WORDS, make_variables
from with_tensorflow.optimizers import RATE, apply, make_parts, make_rate
from with_tensorflow.recipe import ROWS, Recipe
from with_tensorflow.seats import OneProcess


class Training:
    """The state of a recipe while it is played.

    :param folder: for files of this process
    """

    def __init__(self, recipe: Recipe, seat: OneProcess, folder: str) -> None:
        self.recipe, self.seat, self.folder, self.step = recipe, seat, folder, 0
        self._contexts = contextlib.ExitStack()
        self.build()
        self.start = self._taken_weights()

    def build(self) -> None:
        """Makes everything that a script makes before its loop."""
        recipe, seat = self.recipe, self.seat
        self._contexts.close()
        self.session: Any = None
        if recipe.mode == "graph":
            self._contexts.enter_context(tf.Graph().as_default())
            self.session = self._contexts.enter_context(tf.compat.v1.Session())
        self.weights = make_variables(recipe, abs(seat.rank - seat.root(recipe)) if recipe.start else 0)
        self.trained = {name: each for name, each in self.weights.items() if each.trainable}
        self.norm = seat.sync_batch_norm(dtype=recipe.policy or recipe.dtype, name="norm") if recipe.norm else None
        if self.norm:
            self.norm.build((None, WIDTH))
            self.trained.update({"gamma": self.norm.gamma, "beta": self.norm.beta})
        self.global_step = tf.Variable(0, trainable=False, dtype="int64")
        self.rate = make_rate(recipe, self.global_step)
        parts = make_parts(recipe, self.rate, self.trained)
        parts = [each.scaled(recipe.scaler) for each in parts] if recipe.scaler in ("inside", "fixed") else parts
        parts = [seat.wrap(self, each) for each in parts]
        self.parts = [each.scaled(recipe.scaler) for each in parts] if recipe.scaler == "outside" else parts
        self.turns = [[each] for each in self.parts] if recipe.second == "turns" else [self.parts]
        first = self.parts[0].optimizer
        if isinstance(first, keras.optimizers.Optimizer):
            for each in self.parts:
                each.optimizer.build([*each.trained.values()])
            self.rate = (lambda: first.learning_rate) if recipe.schedule else first.learning_rate
        self.moving = tf.train.ExponentialMovingAverage(0.8) if recipe.average else None
        self._aggregation = seat.aggregation(self)
        self.run = self._compiled()
        seat.make_equal(self)

    def _compiled(self) -> Any:
        if not self.session:
            return tf.function(self._train) if self.recipe.mode == "function" else self._train
        shapes = [(*each.shape[:1], None, *each.shape[2:])[: each.ndim] for each in self._batches()[0]]
        inputs = [tf.compat.v1.placeholder(each.dtype, shape) for each, shape in zip(self._batches()[0], shapes)]
        fetched = self._train(*inputs)
        self.session.run(tf.compat.v1.global_variables_initializer())
        return lambda *batch: self.session.run(fetched, dict(zip(inputs, batch)))

    def _batches(self) -> List[Any]:
        """The step's number, and the inputs, words and targets of each call in this step."""
        recipe, source = self.recipe, np.random.default_rng([self.recipe.seed, self.step])
        shape, rows = (recipe.passes, ROWS), self.seat.equal_parts(ROWS)
        made = source.normal(size=(*shape, WIDTH)), source.integers(0, WORDS, shape), source.random((*shape, OUTPUTS))
        if recipe.overflow and self.step == 1:
            made[2][:, rows[-1]] = np.inf
        kinds = (recipe.dtype, "int32", recipe.dtype)
        parts = [self.seat.part(recipe, self.step, each[:, rows].astype(kind)) for each, kind in zip(made, kinds)]
        return [(np.int32(self.step), *call) for call in zip(*parts)]

    def _train(self, number: Any, *stacks: Any) -> Any:
        """Steps after some passes. Returns the mean loss over ranks."""
        batches = [[tf.convert_to_tensor(each[place]) for each in stacks] for place in range(stacks[0].shape[0])]
        done: List[Any] = []
        for turn in self.turns:
            with tf.control_dependencies(done):
                losses, gradients, variables = zip(*[differentiated(self, turn, number, *batch) for batch in batches])
                if len(batches) > 1:
                    divisor = len(batches) if self.recipe.averages_passes else 1
                    gradients = ([tf.add_n([*map(tf.convert_to_tensor, each)]) / divisor for each in zip(*gradients)],)
                done = self._update(gradients[0], variables[0])
        with tf.control_dependencies(done):
            return self.seat.average(self.recipe, self.step, tf.add_n([*losses]) / len(losses))

    def _update(self, gradients: List[Any], variables: List[Any]) -> List[Any]:
        """What is to be done before the weights are read again."""
        if not self._aggregation:
            return apply(self, self.seat.reduce(self, gradients), variables)
        sums = self._aggregation.compute_gradients(gradients, variables)
        done = self._aggregation.apply_gradients(lambda: apply(self, sums, variables), self.parts[0].optimizer)
        return [] if self.recipe.mode == "eager" else [done]

    def play(self) -> List[Snapshot]:
        snapshots = []
        with self._contexts:
            for step in range(self.recipe.steps):
                snapshots.append(self.play_step(step))
                if step == 0 and self.recipe.resume:
                    resuming.RESUMES[self.recipe.resume](self)
        return snapshots

    def play_step(self, step: int) -> Snapshot:
        self.step = step
        if self.recipe.decays:
            self.assign(self.rate, RATE / (1 + step))
        loss = self.train()
        if step == 1 and self.recipe.fault:
            faults.commit(self, *(self._scaled(each) for each in (self.weights["head.bias"], self.rate)))
        return self.snapshot(loss)

    def _scaled(self, variable: Any) -> Any:
        return lambda factor: self.assign(variable, factor * self.read([variable])[0])

    def train(self) -> float:
        losses = [float(self.run(*batch)) for batch in self._batches()]
        loss = float(np.mean(losses)) if losses else 0.0
        if self.seat.is_in_job and self.seat.present(self.recipe, self.step) < self.seat.size:
            last = int(hvd.join())
            hvd.broadcast_variables(self.state(), last)
            loss = hvd.broadcast_object(loss, last)
        return loss

    def assign(self, variable: Any, value: Any) -> None:
        variable.load(value, self.session) if self.session else variable.assign(value)

    def read(self, variables: List[Any]) -> List[Any]:
        if self.session:
            return self.session.run(variables)  # type: ignore[no-any-return]
        return [np.array(tf.convert_to_tensor(each)) for each in variables]

    def state(self) -> List[Any]:
        """All variables that exist."""
        found = [*self.weights.values(), *(self.norm.variables if self.norm else []), self.global_step]
        found += [] if self.recipe.schedule else [self.rate]
        found += [each for part in self.parts for each in part.variables()]
        found += [self.moving.average(each) for each in self.trained.values()] if self.moving else []
        return [*{id(each): each for each in found if each is not None}.values()]

    def snapshot(self, loss: float) -> Snapshot:
        rate = self.rate() if callable(self.rate) else self.rate
        values: Snapshot = {"loss": loss, "rate0": float(self.read([rate])[0])}
        for place, array in enumerate(self.read(self.state())[len(self.weights) :]):
            values[f"state.{place}"] = copied(array)
        return from_start({**values, **self._taken_weights()}, self.start)

    def _taken_weights(self) -> Snapshot:
        arrays = self.read([*self.weights.values()])
        return {f"model.{name}": copied(array) for name, array in zip(self.weights, arrays)}


def copied(array: Any) -> Tensor:
    return Tensor(str(array.dtype), array.astype("float64") if array.dtype.kind == "V" else array)


def play(recipe: Recipe, seat: OneProcess) -> List[Snapshot]:
    """The snapshots after each step."""
    keras.utils.clear_session(free_memory=False)
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder:
        return Training(recipe, seat, folder).play()
