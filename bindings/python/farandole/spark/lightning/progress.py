"""The callback of Lightning that keeps ranks together, records the history and writes checkpoints."""

from __future__ import annotations

import os
from typing import Any, Dict, List

import torch

import farandole.torch as hvd
from farandole.spark.common.logs import Record, RunLog, record
from farandole.spark.common.plan import Plan
from farandole.spark.lightning.together import Logged, TrainBatches, ValidationBatches, scale_gradient
from farandole.spark.lightning.training import Training
from farandole.spark.torch.normalisation import keep_statistics
from farandole.spark.torch.rates import scale_groups, scale_schedulers

CHECKPOINT = "checkpoint.ckpt"
"""The name of the checkpoint of a run, which is one of Lightning's."""


def progress_callback(base: Any) -> Any:
    """The class of the callback that keeps ranks together, records the history and writes checkpoints.

    :param base: ``Callback`` of the package of Lightning in use
    """

    class Progress(base):
        """Lightning calls its methods in the training loop of each rank."""

        def __init__(
            self,
            plan: Plan,
            training: Training,
            batches: TrainBatches,
            validation: ValidationBatches,
            folder: str,
            saves: bool,
        ) -> None:
            self.history: List[Record] = list(training.history)
            self._plan = plan
            self._batches = batches
            self._logged = Logged(batches, validation)
            self._folder = folder
            self._saves = saves
            logs = os.path.join(folder, plan.remote_store.logs_subdir) if saves else None
            self._log = RunLog(logs, plan.verbose if hvd.rank() == 0 else 0)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Scales the learning rates, after a checkpoint has been loaded, and replaces the module's ``log``."""
            for optimizer in trainer.optimizers:
                scale_groups(optimizer.param_groups, hvd.size())
            scale_schedulers([each.scheduler for each in trainer.lr_scheduler_configs], hvd.size())
            self._put_back = self._logged.wrap(pl_module)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            """Begins a step."""
            self._batches.begin_step()
            if self._batches.part.batch is None:  # type: ignore[union-attr]
                self._statistics_back = keep_statistics(pl_module)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            """Ends a step."""
            if self._batches.part.batch is None:  # type: ignore[union-attr]
                self._statistics_back()
            self._batches.end_step()

        def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
            """Weighs the rows of this rank."""
            if self._plan.terminate_on_nan and not torch.isfinite(loss.detach()).all():
                raise ValueError(
                    f"the loss is {loss.detach().cpu()} on rank {hvd.rank()} in epoch {trainer.current_epoch}, step "
                    f"{trainer.global_step}: terminate_on_nan ends the training"
                )
            scale_gradient(loss, self._batches.part.scale)  # type: ignore[union-attr]

        def on_validation_batch_start(
            self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
        ) -> None:
            """Remembers the number of rows."""
            self._logged.begin_validation_batch(batch)

        def on_validation_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
        ) -> None:
            """Forgets the number of rows."""
            self._logged.end_validation_batch()

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            """Records the epoch, and writes a checkpoint."""
            values = {name: float(value) for name, value in trainer.callback_metrics.items()}
            parts = {
                part: {name: values[name] for name in sorted(names) if name in values}
                for part, names in self._logged.names.items()
            }
            self.history.append(
                record(
                    trainer.current_epoch, parts["train"], parts["validation"] if self._plan.has_validation else None
                )
            )
            self._log.epoch(self.history[-1], self._plan.last_epoch)
            if self._plan.remote_store.saving_runs:
                trainer.save_checkpoint(os.path.join(self._folder, CHECKPOINT))
                if self._saves:
                    self._plan.remote_store.sync(self._folder)

        def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Dict[str, Any]) -> None:
            """Adds the history. Checkpoints have the learning rate of a single process."""
            checkpoint["farandole"] = {"history": self.history, "epochs": self._plan.last_epoch}
            for state in checkpoint.get("optimizer_states", []):
                scale_groups(state["param_groups"], 1 / hvd.size())
            scale_schedulers(checkpoint.get("lr_schedulers", []), 1 / hvd.size())

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            """Puts the module's ``log`` back."""
            self._put_back()

        def finish(self) -> None:
            """Closes the logs, and copies the last files of the run to the store."""
            self._log.close()
            if self._saves:
                self._plan.remote_store.sync(self._folder)

    return Progress
