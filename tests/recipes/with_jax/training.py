"""Plays a recipe, in one process or on a rank, and records what it has after every step."""

from __future__ import annotations

from functools import partial
from typing import Any, List, Tuple

import faults
import horovod.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import optax
from comparing import Snapshot, Tensor, from_start
from farandole.jax.optimizer import DistributedState
from recipe import Recipe

from with_jax.models import INPUTS, OUTPUTS, ROWS, forward, make_params
from with_jax.optimizers import SEARCHES, make_optimizer
from with_jax.seats import JaxSeat

LOOPS = ("jit", "eager", "scan", "ensemble")
"""A program for each batch, none, one for all batches of a step (each is taken twice), or one for two models."""
RESUMES = ("root", "elastic")


class Training:
    """The state of a recipe while it is played: `values` are the parameters and the state of the optimizer."""

    def __init__(self, recipe: Recipe, seat: JaxSeat) -> None:
        self.recipe, self.seat = recipe, seat
        source = np.random.default_rng(recipe.seed)
        shape = (recipe.steps, recipe.passes, ROWS)
        self.x = source.standard_normal((*shape, INPUTS)).astype(jnp.dtype(recipe.dtype))
        y = source.random((*shape, OUTPUTS)).astype(self.x.dtype)
        self.y = y / y.sum(-1, keepdims=True)
        if recipe.overflow:
            self.y[1:2, :, -1] = np.inf
        self.build(abs(seat.rank - seat.root(recipe)) if recipe.start else 0)
        self.values = seat.equal(recipe, self.values)
        self.start = taken(0.0, self.values[0], None)

    def build(self, distance: int) -> None:
        """Makes everything that a script makes before its loop, with other weights at a distance from the root."""
        recipe = self.recipe
        self.optimizer = make_optimizer(recipe, lambda *arguments: self.seat.wrap(recipe, *arguments))
        params, init = make_params(recipe, recipe.seed + 1000 * distance), self.optimizer.init
        step: Any = partial(jax.lax.scan, self.update) if recipe.loop == "scan" else self.update
        if recipe.loop == "ensemble":
            params = jax.tree.map(lambda each: jnp.stack([each, 0.9 * each]), params)
            init, step = jax.vmap(init), jax.vmap(step, (0, None))
        donated = (0,) if recipe.donates else ()
        self.values = params, init(params)
        if recipe.donates:  # states begin with the parameters themselves, or with one number in two places
            copied = lambda each: each.copy() if isinstance(each, jax.Array) else each  # noqa: E731
            self.values = jax.tree.map(copied, self.values)
        self.step = step if recipe.loop == "eager" else jax.jit(step, donate_argnums=donated)

    def loss(self, params: Any, x: Any, y: Any) -> Any:
        recipe, mean = self.recipe, self.seat.mean
        output = (jax.checkpoint if recipe.remat else lambda each: each)(lambda *each: forward(recipe, mean, *each))
        loss = self.seat.factor(recipe) * getattr(optax.losses, recipe.loss)(output(params, x), y).mean()
        return mean(loss, "loss") if recipe.mean == "inside" else loss

    def update(self, values: Any, batch: Any) -> Tuple[Any, Any]:
        recipe, (params, state) = self.recipe, values
        loss, gradients = jax.value_and_grad(self.loss)(params, *batch)
        own, loss = loss, self.seat.mean(loss, "loss") if recipe.mean == "after" else loss
        loss /= self.seat.factor(recipe)
        if recipe.fault in faults.GRADIENT_FAULTS:
            gradients = jax.tree.map(lambda each: faults.gradient_factor(recipe, self.seat) * each, gradients)
        gradients = self.seat.reduced(recipe, gradients)
        extra = {"value": own if recipe.reduction in ("around", "parts") else loss}
        if recipe.optimizer in SEARCHES:
            extra.update(grad=gradients, value_fn=lambda params: self.loss(params, *batch))
        updates, state = self.optimizer.update(gradients, state, params, **extra)
        return (optax.apply_updates(params, updates), state), loss

    def train(self, steps: range) -> List[Snapshot]:
        """Snapshots are taken of all steps together, so that programs whose values need no copies run on meanwhile."""
        recipe, found = self.recipe, []
        for step in steps:
            batches = list(zip(*(self.seat.batches(each[step]) for each in (self.x, self.y))))
            if recipe.loop == "scan":
                batches = [jax.tree.map(lambda *each: np.stack(each), *batches, *batches)]
            losses = []
            for batch in batches:
                self.values, loss = self.step(self.values, batch)
                losses.append(loss)
            if step == 1 and recipe.fault:
                faults.commit(self, self._scale_bias)
            value = (jnp.stack(losses).mean(), *self.values)
            found.append(taken(*value) if recipe.donates else value)
        snapshots = found if recipe.donates else [taken(*each) for each in found]
        return [from_start(each, self.start) for each in snapshots]

    def _scale_bias(self, factor: float) -> None:
        params, state = self.values
        head = params["head"]
        self.values = {**params, "head": {**head, "bias": head["bias"] * factor}}, state

    def resume(self) -> None:
        """New objects go on with values that only the `root` has; or steps are undone by an `elastic` state, and one
        process does not take them."""
        recipe, seat, values = self.recipe, self.seat, self.values
        if recipe.resume == "root":
            self.build(1)
            self.values = seat.equal(recipe, values if seat.rank == seat.root(recipe) else self.values)
        elif seat.is_in_job:
            state = hvd.elastic.JaxState(values=values)
            for _ in range(2):
                self.train(range(1))
                state.restore()
                self.values = state.values


def taken(loss: Any, params: Any, state: Any) -> Snapshot:
    """Copies of all that a step may change, by name, without the sums of gradients of a rank."""
    wrappers = {DistributedState: "inner", optax.MultiStepsState: "inner_opt_state"}
    inner = lambda each: getattr(each, wrappers[type(each)]) if type(each) in wrappers else each  # noqa: E731
    state = jax.tree.map(inner, state, is_leaf=lambda each: type(each) in wrappers)
    values: Snapshot = {}
    for path, each in jax.tree_util.tree_leaves_with_path({"loss": loss, "model": params, "optimizer": state}):
        each = each if hasattr(each, "dtype") else np.asarray(each)  # outside of programs, also values of Python
        each = jax.random.key_data(each) if jnp.issubdtype(each.dtype, jax.dtypes.prng_key) else each
        wide = np.array(each, "float32" if each.dtype == "bfloat16" else None)
        values[jax.tree_util.keystr(path, simple=True, separator=".")] = Tensor(str(each.dtype), wide)
    return values


def play(recipe: Recipe, seat: JaxSeat) -> List[Snapshot]:
    """The snapshots after each step."""
    jax.config.update("jax_enable_x64", recipe.dtype == "float64")
    training = Training(recipe, seat)
    middle = recipe.steps // 2 if recipe.resume else recipe.steps
    snapshots = training.train(range(middle))
    if middle < recipe.steps:
        training.resume()
        snapshots += training.train(range(middle, recipe.steps))
    return snapshots
