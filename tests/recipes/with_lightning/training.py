"""Plays a recipe with a trainer, in one process or in a job, and records what it has after every step."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, Tuple

import faults
import lightning.pytorch as pl
import torch
from comparing import Snapshot
from lightning.pytorch.plugins.environments import LightningEnvironment
from seats import Seat
from with_torch.snapshots import flattened

ROWS, INPUTS = 12, 3
OPTIMIZERS: Dict[str, Tuple[Any, Dict[str, float]]] = {
    "SGD": (torch.optim.SGD, {}),
    "momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "Adam": (torch.optim.Adam, {}),
    "AdamW": (torch.optim.AdamW, {}),
}


class Loader:
    """The numbers of the batches of an epoch. It goes on where it was when a trainer's state was saved."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.position = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number in range(self.position % self.count, self.count):
            self.position = number + 1
            yield torch.tensor(number)

    def state_dict(self) -> Dict[str, Any]:
        return {"position": self.position}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.position = state["position"]


class Model(pl.LightningModule):  # type: ignore[misc]
    """Its buffers count the calls of hooks that follow a batch, which are part of the state."""

    def __init__(self, recipe: Any, seat: Seat) -> None:
        super().__init__()
        self.recipe, self.seat = recipe, seat
        torch.manual_seed(recipe.seed + seat.rank)
        self.first = torch.nn.Linear(INPUTS, 4, dtype=torch.float64)
        self.head = torch.nn.Linear(4, 1, dtype=torch.float64)
        self.register_buffer("calls", torch.zeros(3, dtype=torch.int64))

    def loss(self, number: int) -> torch.Tensor:
        """That of this rank's rows of a batch."""
        source = torch.Generator().manual_seed(1000 * self.recipe.seed + number)
        x = torch.randn(ROWS, INPUTS, generator=source, dtype=torch.float64)
        rows = self.seat.equal_parts(ROWS)[self.seat.rank]
        own: torch.Tensor = self.head(torch.tanh(self.first(x[rows])))
        return (own - 1.0).square().mean()

    def training_step(self, batch: Any, index: int) -> torch.Tensor:
        assert int(batch) == index, "the loader does not go on where it was"
        number = self.trainer.global_step * self.recipe.passes + index % self.recipe.passes
        loss = self.loss(number)
        self.log("now", loss, on_step=True, sync_dist=True)
        return loss

    def validation_step(self, batch: Any, index: int) -> None:
        self.calls[0] += 1

    def on_train_batch_end(self, *_: Any) -> None:
        self.calls[1] += 1
        if self.recipe.fault and self.trainer.global_step == 2:
            faults.commit(self, self.head.bias.data.mul_)

    def on_train_epoch_end(self) -> None:
        self.calls[2] += 1

    def configure_optimizers(self) -> Any:
        kind, options = OPTIMIZERS[self.recipe.optimizer]
        optimizer = kind(self.parameters(), lr=0.1, **options)
        if not self.recipe.scheduler:
            return optimizer
        kind, _, interval = self.recipe.scheduler.partition("_")
        if kind == "plateau":
            scheduler: Any = torch.optim.lr_scheduler.ReduceLROnPlateau(
                optimizer, factor=0.5, patience=0, threshold=9.0
            )
        else:
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        return [optimizer], [{"scheduler": scheduler, "interval": interval, "monitor": "now"}]


def trainer_of(recipe: Any, callbacks: Sequence[Any], **options: Any) -> Any:
    """It trains all steps, and validates as the recipe says."""
    validation = {"": {"limit_val_batches": 0}, "epoch": {}, "step": {"val_check_interval": recipe.passes}}
    return pl.Trainer(
        max_steps=recipe.steps, max_epochs=-1, accumulate_grad_batches=recipe.passes, callbacks=list(callbacks),
        accelerator="cpu", use_distributed_sampler=False, num_sanity_val_steps=0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        **validation[recipe.validates], **options,
    )  # fmt: skip


def loaders(recipe: Any) -> List[Loader]:
    """The passes of an epoch, and a batch to validate with."""
    return [Loader(recipe.length * recipe.passes), Loader(1)]


def taken(trainer: Any) -> Snapshot:
    """The values that belong to the state."""
    values = {
        "model": dict(trainer.lightning_module.state_dict()),
        "optimizer": trainer.optimizers[0].state_dict(),
        "rates": [dict(each.scheduler.state_dict()) for each in trainer.lr_scheduler_configs],
        "epoch": trainer.current_epoch,
    }
    return dict(flattened("", values))


class Recorder(pl.Callback):  # type: ignore[misc]
    """Takes a snapshot when all that follows a step is over."""

    def __init__(self) -> None:
        self.snapshots: List[Snapshot] = []

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if len(self.snapshots) < trainer.global_step:
            self.snapshots.append(taken(trainer))

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        self.snapshots.append(taken(trainer))


def play(recipe: Any, seat: Seat) -> List[Snapshot]:
    recorder = Recorder()
    alone = LightningEnvironment()  # without it, Lightning would initialize MPI to find out who has started the process
    trainer_of(recipe, [recorder], plugins=[alone]).fit(Model(recipe, seat), *loaders(recipe))
    return recorder.snapshots
