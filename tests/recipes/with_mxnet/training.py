"""Plays a recipe, in one process or on a rank, and records what it has after every step."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, List

import faults
import mxnet as mx
import numpy as np
from comparing import Snapshot

from with_mxnet.models import INPUTS, OUTPUTS, USES, WORDS, Model
from with_mxnet.optimizers import options_of
from with_mxnet.recipe import ROWS, Recipe
from with_mxnet.seats import OneProcess
from with_mxnet.snapshots import take, take_weights

CLIPPED, SCALE = 0.03, 64.0


class Training:
    """The state of a recipe while it is played.

    :param folder: for files of this process
    """

    def __init__(self, recipe: Recipe, seat: OneProcess, folder: str) -> None:
        self.recipe, self.seat, self.folder = recipe, seat, folder
        self.step, self.loss = 0, 0.0
        self.rows = seat.rows(recipe)
        self.build()
        self.start = take_weights(self)

    @property
    def divisor(self) -> float:
        """That of the gradients: the passes, by the rows or a scale of the loss."""
        rows = self.rows.stop - self.rows.start if self.recipe.loss == "rows" else 1
        return self.recipe.passes * rows * (SCALE if self.recipe.scaler == "hand" else 1.0)

    def build(self, is_resumed: bool = False) -> None:
        """Makes everything that a script makes before its loop."""
        recipe, seat = self.recipe, self.seat
        mx.random.seed(recipe.seed + (1000 * abs(seat.rank - seat.root(recipe)) if recipe.start else 0))
        self.model = Model(recipe)
        self.model.cast(recipe.dtype)
        self.model.initialize(mx.init.Uniform(0.5))
        if recipe.hybrid:
            self.model.hybridize(static_alloc=recipe.hybrid == "static", static_shape=recipe.hybrid == "static")
        params, head = self.model.collect_params(), self.model.head.collect_params()
        if recipe.multipliers:
            self.model.collect_params(".*bias").setattr("lr_mult", 2.0)
            self.model.collect_params(".*bias").setattr("wd_mult", 0.0)
        for each in {"": {}, "head": head, "all": params}[recipe.added].values():
            each.grad_req = "add" if each.grad_req == "write" else each.grad_req
        if recipe.start and not is_resumed:
            seat.broadcast(recipe, params)
        rest = {name: each for name, each in params.items() if name not in head}
        self.trainers: List[Any] = []
        for number, part in enumerate((rest, head) if recipe.second else (params,)):
            given = [*part.values()][::-1] if recipe.is_listed else part
            self.trainers.append(seat.trainer(recipe, given, options_of(recipe), self.divisor, f"trainer{number}."))
        if recipe.scaler in ("amp", "overflow"):
            mx.contrib.amp.init_trainer(self.trainers[0])

    def play(self) -> List[Snapshot]:
        snapshots = []
        for step in range(self.recipe.steps):
            self.step = step
            self.change()
            self.train()
            if self.step == 1 and self.recipe.fault:
                bias, trainer = self.model.head.bias, self.trainers[0]
                faults.commit(
                    self,
                    lambda factor, bias=bias: bias.set_data(bias.data() * factor),
                    lambda factor, trainer=trainer: trainer.set_learning_rate(trainer.learning_rate * factor),
                )
            snapshots.append(take(self))
        return snapshots

    def change(self) -> None:
        """What a script changes between two steps."""
        recipe = self.recipe
        if recipe.resume and self.step == 1:
            self.resume()
        if recipe.rate and self.step == 1:
            for each in self.trainers:
                each.set_learning_rate(0.3 * each.learning_rate)
        if recipe.frozen:
            is_frozen = recipe.frozen == "always" or (recipe.frozen == "until") == (self.step == 0)
            request = "null" if is_frozen else "add" if recipe.added == "all" else "write"
            self.model.body[0].collect_params().setattr("grad_req", request)

    def resume(self) -> None:
        """A step is trained and undone by files; or there are new objects, for which only the root has files."""
        recipe, seat, path = self.recipe, self.seat, Path(self.folder)
        self.model.save_parameters(f"{path}/model")
        for number, each in enumerate(self.trainers):
            each.save_states(f"{path}/{number}")
        is_new = recipe.resume == "root"
        self.build(is_resumed=True) if is_new else self.train()
        if not is_new or seat.rank == seat.root(recipe):
            self.model.load_parameters(f"{path}/model")
        if is_new:
            seat.broadcast(recipe, self.model.collect_params())
        for number, each in enumerate(self.trainers):
            if is_new:
                (path / str(number)).write_bytes(seat.broadcast(recipe, (path / str(number)).read_bytes()))
            each.load_states(f"{path}/{number}")

    def train(self) -> None:
        """A step."""
        recipe = self.recipe
        if recipe.added and not (recipe.remainder and self.step % 2):
            self.model.collect_params().zero_grad()
        for number in range(recipe.passes):
            self.backward(number)
        ignores = recipe.ignores or any(each in USES for each in recipe.extras)
        for each in self.trainers:
            each.allreduce_grads() if recipe.clip else each.step(self.divisor, ignores)
        if recipe.clip:
            self.clip()
            for each in self.trainers:
                each.update(self.divisor, ignores)

    def backward(self, number: int) -> None:
        recipe, arrays = self.recipe, mx.np if self.recipe.is_numpy else mx.nd
        source = np.random.default_rng([recipe.seed, self.step, number])
        x, y = source.standard_normal((ROWS, INPUTS)), source.standard_normal((ROWS, OUTPUTS))
        words, mask = source.integers(0, WORDS, ROWS), np.arange(ROWS)[:, None] < ROWS // self.seat.size
        if recipe.scaler == "overflow" and self.step == 1:
            y[-1] = np.inf
        self.model.step = self.step
        self.model.mask = arrays.array(mask[self.rows], dtype=recipe.dtype) if mask[self.rows].any() else None
        x, y, words = (arrays.array(each[self.rows], dtype=recipe.dtype) for each in (x, y, words))
        with mx.autograd.record():
            rows = ((self.model(x, words) - y) ** 2).mean(axis=1)
            loss = rows if recipe.loss == "rows" else rows.mean()
            if recipe.fault in faults.GRADIENT_FAULTS:
                loss = loss * faults.gradient_factor(recipe, self.seat)
            if recipe.scaler in ("amp", "overflow"):
                with mx.contrib.amp.scale_loss(loss, self.trainers[0]) as scaled:
                    scaled.backward()
            else:
                (loss * SCALE if recipe.scaler == "hand" else loss).backward()
        self.loss = self.seat.average(float(rows.mean().asnumpy()))

    def clip(self) -> None:
        """Clips reduced gradients before they are divided."""
        gradients = [each.grad() for each in self.model.collect_params().values() if each.grad_req != "null"]
        bound = np.inf if self.recipe.clip == "none" else CLIPPED * self.divisor
        norm = np.sqrt(sum(np.square(each.asnumpy()).sum(dtype="float64") for each in gradients))
        for each in gradients:
            is_scaled = self.recipe.clip == "norm"
            each[:] = each * float(min(1.0, bound / norm)) if is_scaled else each.clip(-bound, bound)


def play(recipe: Recipe, seat: OneProcess) -> List[Snapshot]:
    """The snapshots after each step."""
    arrays = mx.util.np_shape(recipe.is_numpy), mx.util.np_array(recipe.is_numpy)
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder, arrays[0], arrays[1]:
        return Training(recipe, seat, folder).play()
