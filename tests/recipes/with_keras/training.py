"""Plays a recipe, in one process or on a rank, and records what it has after every step."""

from __future__ import annotations

import tempfile
from typing import Any, Callable, Dict, List

import faults
import numpy as np
from comparing import Snapshot
from farandole._keras.library import build

from with_keras import resuming, versions
from with_keras.callbacks import Records, rate_callbacks
from with_keras.models import INPUTS, OUTPUTS, WORDS, make_model
from with_keras.optimizers import make_optimizer, rate_of, with_scaler
from with_keras.recipe import EPOCH_STEPS, ROWS, Recipe
from with_keras.seats import OneProcess
from with_keras.snapshots import take, take_weights
from with_keras.versions import floatx, keras


class Training:
    """The state of a recipe while it is played.

    :param folder: for files of this process
    """

    def __init__(self, recipe: Recipe, seat: OneProcess, folder: str) -> None:
        self.recipe = recipe
        self.seat = seat
        self.folder = folder
        self.snapshots: List[Snapshot] = []
        self.step = 0
        self.is_recorded = True
        self.build()
        self.start = take_weights(self)
        self.x, self.y = self.epoch()

    def build(self) -> None:
        """Makes everything that a script makes before its loop."""
        recipe, seat = self.recipe, self.seat
        distance = abs(seat.rank - seat.root(recipe)) if recipe.start else 0
        keras.utils.set_random_seed(recipe.seed + 1000 * distance)
        self.model = make_model(recipe, seat.sync_batch_norm)
        self.model.factor = lambda: seat.factor(recipe)
        if recipe.frozen == "always":
            self.model.get_layer("first").trainable = False
        optimizer = seat.wrap(recipe, make_optimizer(recipe))
        self.compile(with_scaler(optimizer) if recipe.scaler == "outside" else optimizer)
        if recipe.is_built:
            build(self.model.optimizer, self.model.trainable_variables)
        seat.make_equal(recipe, self.model)

    def compile(self, optimizer: Any) -> None:
        self.model.compile(
            optimizer=optimizer,
            loss=self.recipe.loss,
            metrics=["mae"],
            run_eagerly=self.recipe.loop == "eager",
            steps_per_execution=self.recipe.executions,
            jit_compile=False,
        )
        if self.model.optimizer is not optimizer:  # Keras' own scale is so large that parts of a batch overflow
            versions.set_scale(self.model.optimizer, 64.0)

    def epoch(self) -> Any:
        """The inputs and targets of an epoch on this seat."""
        recipe, dtype = self.recipe, floatx()
        shape, rows = (EPOCH_STEPS, recipe.passes, ROWS), self.seat.equal_parts(ROWS)
        source = np.random.default_rng(recipe.seed)
        x = source.standard_normal((*shape, INPUTS)).astype(dtype)
        words = source.integers(0, WORDS, shape).astype("int32")
        y = source.random((*shape, OUTPUTS)).astype(dtype)
        if recipe.overflow:
            y[1, :, rows[-1]] = np.inf
        part = [self.seat.part(recipe, each[:, :, rows]) for each in (x, words, y / y.sum(-1, keepdims=True))]
        return {"inputs": part[0], "words": part[1]}, part[2]

    @property
    def rows(self) -> int:
        """The rows of a batch on this seat."""
        return len(self.y) // (EPOCH_STEPS * self.seat.passes(self.recipe))

    def play(self) -> List[Snapshot]:
        recipe = self.recipe
        middle = 1 if (recipe.resume or recipe.frozen == "from") and recipe.steps > 1 else recipe.steps
        LOOPS[recipe.loop](self, 0, middle)
        if middle < recipe.steps:
            self.freeze(middle)
            if recipe.resume:
                resuming.RESUMES[recipe.resume](self)
            LOOPS[recipe.loop](self, middle, recipe.steps)
        return self.snapshots

    def freeze(self, epoch: int) -> None:
        """The first layer, if that is due in this epoch; or trains it again."""
        layer, is_frozen = self.model.get_layer("first"), self.recipe.frozen == "from" and epoch > 0
        if self.recipe.frozen == "from" and layer.trainable == is_frozen:
            layer.trainable = not is_frozen
            self.compile(self.model.optimizer)

    def play_epoch(self, epoch: int) -> Snapshot:
        """The last of the epoch's values, its losses and its logs."""
        self.freeze(epoch)
        self.step, self.snapshots = epoch * EPOCH_STEPS, []
        LOOPS[self.recipe.loop](self, epoch, epoch + 1)
        return {key: value for each in self.snapshots for key, value in each.items()}

    def begin_batch(self, batch: int) -> None:
        """Called before a batch, whose number counts from the begin of its epoch."""

    def train_more(self) -> None:
        """An epoch that is to be undone."""
        self.is_recorded = False
        LOOPS[self.recipe.loop](self, 0, 1)
        self.is_recorded = True

    def end_step(self, **losses: float) -> None:
        if not self.is_recorded:
            return
        if self.step == 1 and self.recipe.fault:
            bias, rate = self.model.get_layer("head").bias, self.model.optimizer.learning_rate
            scaled = [lambda factor, each=each: each.assign(each * factor) for each in (bias, rate)]
            faults.commit(self, *scaled)
        self.snapshots.append({**take(self), **losses})
        self.step += 1

    @property
    def logged_factor(self) -> float:
        """The factor of the losses that Keras logs. Those of Keras 2 lack the model's."""
        return (float(self.model.factor()) if versions.IS_THREE else 1.0) or 1.0  # a deliberate fault has none

    def record_logs(self, logs: Dict[str, Any]) -> None:
        """The averaged losses and metrics of an epoch."""
        if self.is_recorded:
            factors = dict.fromkeys(("loss", "val_loss"), self.logged_factor)
            self.snapshots.append({f"logs.{name}": float(value) / factors.get(name, 1) for name, value in logs.items()})


def fit(training: Training, first: int, last: int) -> None:
    recipe, seat = training.recipe, training.seat
    callbacks = [*seat.callbacks(recipe), *rate_callbacks(recipe, rate_of(recipe)), Records(training)]
    training.model.fit(
        training.x,
        training.y,
        batch_size=training.rows,
        initial_epoch=first,
        epochs=last,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
        validation_data=(training.x, training.y) if recipe.validates else None,
        validation_batch_size=training.rows,
    )
    training.end_step()  # the averages of weights replace them


def by_batches(training: Training, first: int, last: int) -> None:
    model = training.model

    def step(x: Any, y: Any) -> Any:
        model.reset_metrics()  # the loss is that of this batch alone
        return model.train_on_batch(x, y, return_dict=True)["loss"] / training.logged_factor

    _run(training, first, last, step)


def with_tape(training: Training, first: int, last: int) -> None:
    """On TensorFlow."""
    import tensorflow as tf

    model = training.model

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
            scaled = versions.scaled(model.optimizer, loss)
        variables = model.trainable_variables
        versions.apply(model.optimizer, tape.gradient(scaled, variables), variables)
        return loss / model.factor()

    _run(training, first, last, step)


def _run(training: Training, first: int, last: int, step: Callable[[Any, Any], Any]) -> None:
    passes, rows = training.seat.passes(training.recipe), training.rows
    losses: List[float] = []
    for batch in range((last - first) * EPOCH_STEPS * passes):
        begin = batch % (EPOCH_STEPS * passes) * rows
        x = {name: each[begin : begin + rows] for name, each in training.x.items()}
        training.begin_batch(batch % (EPOCH_STEPS * passes))
        losses.append(float(step(x, training.y[begin : begin + rows])))
        if (batch + 1) % passes == 0:
            training.end_step(loss=training.seat.average(np.mean(losses)))
            losses.clear()


LOOPS: Dict[str, Callable[[Training, int, int], None]] = {
    "fit": fit,
    "eager": fit,
    "train_step": fit,
    "batches": by_batches,
    "tape": with_tape,
}


def play(recipe: Recipe, seat: OneProcess) -> List[Snapshot]:
    """The snapshots after each step and epoch."""
    versions.clear_session()
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder:
        return Training(recipe, seat, folder).play()
