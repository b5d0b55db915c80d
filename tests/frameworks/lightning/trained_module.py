"""A module of a few layers, and the trainer and the samples with which it is trained."""

from __future__ import annotations

from typing import Any, List

import torch
import torchmetrics

SAMPLES, BATCH = 48, 4
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}


def samples() -> torch.Tensor:
    return torch.randn(SAMPLES, 5, generator=torch.Generator().manual_seed(1))


def loader(batch: int = BATCH) -> Any:
    return torch.utils.data.DataLoader(samples(), batch_size=batch)  # type: ignore[arg-type]


def network(normalised: bool = False) -> torch.nn.Module:
    layers = [torch.nn.Linear(5, 6), *([torch.nn.BatchNorm1d(6)] if normalised else []), torch.nn.Tanh()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(6, 2))


def module(pl: Any, seed: int = 3, normalised: bool = False, automatic: bool = True) -> Any:
    class Module(pl.LightningModule):  # type: ignore[misc]
        """A few layers; records the values that its hooks see."""

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(seed)
            self.layers = network(normalised)
            self.mean = torchmetrics.MeanMetric()
            self.seen = torchmetrics.CatMetric()
            self.norms: List[float] = []
            self.automatic_optimization = automatic

        def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
            loss = self.layers(batch).square().mean()
            self.mean(batch.sum())
            self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
            self.log("sum", self.mean, on_step=False, on_epoch=True)
            if not automatic:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            return loss

        def on_before_optimizer_step(self, optimizer: Any) -> None:
            self.norms.append(float(sum(each.grad.square().sum() for each in self.parameters())))

        def validation_step(self, batch: torch.Tensor, index: int) -> None:
            self.seen.update(batch[:, 0])
            self.log("val", self.layers(batch).square().mean(), sync_dist=True)

        def predict_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
            return self.layers(batch)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.2, momentum=0.9)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)]

    return Module()


def trainer(pl: Any, **options: Any) -> Any:
    given = {"strategy": "farandole", "max_epochs": 2, "enable_checkpointing": False, **QUIET, **options}
    return pl.Trainer(**given)
