"""Plays a recipe, in one process or on a rank, and records what it has after every step."""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Iterator, List, Tuple

import faults
import torch
from comparing import Snapshot

from with_torch import loop, resuming
from with_torch.hooks import HOOKS
from with_torch.models import INPUTS, OUTPUTS, WORDS, make_model
from with_torch.optimizers import added_group, make_optimizers, named_parts
from with_torch.recipe import EPOCH, ROWS, Recipe
from with_torch.schedulers import SCHEDULERS
from with_torch.seats import OneProcess
from with_torch.snapshots import take, take_broadcast, take_weights

Batch = Tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class Training:
    """The state of a recipe while it is played."""

    def __init__(self, recipe: Recipe, seat: OneProcess) -> None:
        self.recipe = recipe
        self.seat = seat
        self.calls: Dict[str, int] = {}
        self.snapshots: List[Snapshot] = []
        self.start: Snapshot = {}
        self.hooks: List[Any] = []
        self.batches = 0
        self.sampler = seat.sampler(recipe) if recipe.is_sampled else None
        self.indices: Iterator[int] = iter(())
        self.step = 0
        self.loss = torch.zeros(())
        self.scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2) if recipe.scaler else None
        self.build()

    def build(self) -> None:
        """Makes everything that a script makes before its loop."""
        recipe, seat = self.recipe, self.seat
        # Ranks begin with different weights, until those of the root are broadcast.
        torch.manual_seed(recipe.seed + 1000 * abs(seat.rank - seat.root(recipe)))
        self.model = make_model(recipe, seat.sync_batch_norm)
        if recipe.frozen in ("always", "until"):
            self.freeze(True)
        self.optimizers = make_optimizers(recipe, named_parts(recipe, self.model))
        self.schedulers: List[Any] = []
        self.install_hooks()
        for event in recipe.order:
            getattr(self, event)()
        average = torch.optim.swa_utils
        ema = average.get_ema_multi_avg_fn(0.9) if recipe.average == "ema" else None
        self.average = average.AveragedModel(self.model, multi_avg_fn=ema) if recipe.average else None
        self.forward: Callable[..., torch.Tensor] = self.model
        self.compute: Callable[..., torch.Tensor] = lambda *arguments: loop.compute(self, *arguments)
        if recipe.compiled:
            part, _, backend = recipe.compiled.partition("-")
            if part == "model":
                self.forward = torch.compile(self.model, backend=backend)
            else:
                self.compute = torch.compile(self.compute, backend=backend)

    def wrap(self) -> None:
        parts = named_parts(self.recipe, self.model)
        self.optimizers = [
            self.seat.wrap(self.recipe, optimizer, self._in_optimizer(named))
            for optimizer, named in zip(self.optimizers, parts)
        ]

    def _in_optimizer(self, named: List[Any]) -> List[Any]:
        """Without the parameters that are added later."""
        groups = [group["params"] for optimizer in self.optimizers for group in optimizer.param_groups]
        held = {id(each) for group in groups for each in group}
        return [pair for pair in named if id(pair[1]) in held or not self.recipe.added]

    def broadcast(self) -> None:
        self.seat.broadcast(self.recipe, self.model, self.optimizers)

    def schedule(self) -> None:
        if self.recipe.scheduler:
            self.schedulers = [SCHEDULERS[self.recipe.scheduler](each) for each in self.optimizers]

    def install_hooks(self) -> None:
        for name in self.recipe.hooks:
            self.hooks += HOOKS[name](self)

    def freeze(self, frozen: bool) -> None:
        self.model.body.first.requires_grad_(not frozen)

    def next_batch(self, is_short: bool = False) -> Batch:
        rows = self.seat.rows(self.recipe, is_short)
        if self.sampler is not None:
            return self._sampled(len(rows))
        self.batches += 1
        return self._batch(self.batches - 1, ROWS, rows)

    def _sampled(self, count: int) -> Batch:
        """So many rows of the rest of this epoch."""
        rows = list(itertools.islice(self.indices, count))
        if not rows:  # members have changed, or another epoch begins
            self.indices = iter(self.sampler)
            rows = list(itertools.islice(self.indices, count))
        batch = self._batch(self.sampler.epoch, EPOCH, rows)
        self.sampler.record_batch(0, count)
        if self.sampler.processed_num == EPOCH:
            self.sampler.set_epoch(self.sampler.epoch + 1)
        return batch

    def _batch(self, number: int, length: int, rows: Any) -> Batch:
        source = torch.Generator().manual_seed(1000 * self.recipe.seed + number)
        x = torch.randn(length, INPUTS, generator=source, dtype=torch.float64).to(getattr(torch, self.recipe.dtype))
        words = torch.randint(0, WORDS, (length,), generator=source)
        target = torch.randn(length, OUTPUTS, generator=source, dtype=torch.float64)
        return x[rows], words[rows], target[rows]

    def play(self) -> List[Snapshot]:
        recipe = self.recipe
        torch.manual_seed(recipe.seed)  # all ranks draw the same
        self.start = take_weights(self)
        for self.step in range(recipe.steps):
            is_short = recipe.uneven and self.step + 1 == recipe.steps
            if self.seat.has_joined(recipe, is_short):
                self.snapshots.append({})
                break
            self.play_step(is_short)
        if recipe.uneven:
            self.seat.join(recipe, self.model, self.optimizers)
            self.snapshots.append(take_broadcast(self))
        return self.snapshots

    def _scale_bias(self, factor: float) -> None:
        with torch.no_grad():
            self.model.head.bias.mul_(factor)

    def _scale_rate(self, factor: float) -> None:
        self.optimizers[0].param_groups[0]["lr"] *= factor

    def play_step(self, is_short: bool = False) -> None:
        """The next step, and what follows before the one after it."""
        recipe = self.recipe
        loop.take_step(self, is_short)
        if self.step == 1 and recipe.fault:
            faults.commit(self, self._scale_bias, self._scale_rate)
        self.snapshots.append(take(self))
        if self.step == 0 and recipe.added:
            self.optimizers[0].add_param_group(added_group(recipe, self.model))
        if self.step == 1 and recipe.frozen in ("until", "from"):
            self.freeze(recipe.frozen == "from")
        if self.step == 1 and recipe.resume:
            resuming.RESUMES[recipe.resume](self)

    def end(self) -> None:
        while self.hooks:
            self.hooks.pop().remove()
        for optimizer in self.optimizers:
            self.seat.unwrap(optimizer)


def play(recipe: Recipe, seat: OneProcess) -> List[Snapshot]:
    """The snapshots after each step."""
    if recipe.compiled:
        torch._dynamo.reset()
    training = Training(recipe, seat)
    try:
        return training.play()
    finally:
        training.end()
