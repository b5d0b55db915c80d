"""The training by Lightning on one rank of an estimator's job."""

from __future__ import annotations

import importlib
import inspect
import os
import tempfile
from typing import Any, Dict, Optional

import torch

import farandole.torch as hvd
from farandole.lightning.registration import classes_for
from farandole.spark.common.estimator_checks import one_per_label
from farandole.spark.common.plan import Plan, check_devices
from farandole.spark.common.steps import Epochs, Steps
from farandole.spark.common.trainer import exchange
from farandole.spark.lightning.legacy import to_lightning_module
from farandole.spark.lightning.progress import progress_callback
from farandole.spark.lightning.together import (
    TrainBatches,
    ValidationBatches,
    rows_of,
)
from farandole.spark.lightning.training import Training, result_bytes
from farandole.spark.lightning.versions import package_in_use, package_of


class Trainer:
    """A fit of Lightning on this rank."""

    def __init__(self, plan: Plan, training: Training) -> None:
        self._plan = plan
        self._training = training
        self._package = package_of(training.model) or package_in_use()
        self._lightning = importlib.import_module(self._package)
        plan.start_process(hvd.rank(), torch.manual_seed)
        gpu = plan.gpu_of(hvd.local_rank(), torch.cuda.device_count() if torch.cuda.is_available() else 0)
        self._device = torch.device("cpu" if gpu is None else f"cuda:{gpu}")
        check_devices(hvd.allgather_object(self._device.type, name="estimator.devices"))
        self._module = training.model if package_of(training.model) else self._wrapped()

    def _wrapped(self) -> Any:
        plan = self._plan
        name = "loss" if plan.loss is not None else "loss_constructors"
        given = one_per_label(name, getattr(plan, name), plan.label_cols)
        return to_lightning_module(
            self._training.model,
            self._training.optimizer,
            given if name == "loss" else [constructor() for constructor in given],
            plan.loss_weights,
            plan.feature_cols,
            plan.label_cols,
            plan.sample_weight_col,
            plan.input_shapes,
            plan.label_shapes,
            plan.metrics,
            self._package,
        )

    def run(self) -> Optional[bytes]:
        """Trains all epochs; on rank 0 the result as bytes."""
        plan, store = self._plan, self._plan.remote_store
        saves = hvd.rank() == 0 and store.saving_runs
        folder_of_run = store.get_local_output_dir() if saves else tempfile.TemporaryDirectory()
        with folder_of_run as folder:
            data = plan.data_module(**self._data_arguments())
            data.setup("fit")
            try:
                steps = Steps(exchange, hvd.size(), self._weight_of, 1, plan.train_steps_per_epoch)
                batches = TrainBatches(Epochs(data.train_dataloader, plan.train_steps_per_epoch), steps)
                validation = ValidationBatches(Epochs(data.val_dataloader, plan.validation_steps_per_epoch))
                kind = progress_callback(self._lightning.Callback)
                progress = kind(plan, self._training, batches, validation, folder, saves)
                trainer = self._trainer(folder, progress)
                given = validation if plan.has_validation else None
                trainer.fit(self._module, batches, given, **self._resumed(trainer, folder))
            finally:
                data.teardown("fit")
            progress.finish()
            return self._result(trainer, progress) if hvd.rank() == 0 else None

    def _weight_of(self, batch: Any) -> float:
        column = self._plan.sample_weight_col
        return float(batch[column].sum()) if column and isinstance(batch, dict) else float(rows_of(batch))

    def _data_arguments(self) -> Dict[str, Any]:
        plan = self._plan
        arguments = plan.data_arguments(hvd.rank(), hvd.size())
        for name in ("transform_fn", "train_reader_worker_count", "val_reader_worker_count", "random_seed"):
            del arguments[name]
        return {
            **arguments,
            "num_reader_epochs": plan.loader_num_epochs,
            "reader_worker_count": plan.train_reader_num_workers,
            "transformation": plan.transformation_fn,
            "debug_data_loader": plan.debug_data_loader,
            "train_async_data_loader_queue_size": plan.train_async_data_loader_queue_size,
            "val_async_data_loader_queue_size": plan.val_async_data_loader_queue_size,
            "seed": plan.random_seed,
        }

    def _trainer(self, folder: str, progress: Any) -> Any:
        plan = self._plan
        callbacks = [*plan.callbacks, progress]
        checkpoints = [each for each in callbacks if _is_checkpoint(each)]
        for each in checkpoints:
            each.dirpath = folder  # it is copied to the store with the run
        options = {
            "strategy": classes_for(self._package).strategy(
                device=str(self._device), compression=plan.gradient_compression or hvd.Compression.none
            ),
            "accelerator": "gpu" if self._device.type == "cuda" else "cpu",
            "devices": plan.num_gpus or 1,
            "max_epochs": plan.last_epoch,
            "callbacks": callbacks,
            "logger": plan.logger if plan.logger is not None else False,
            "log_every_n_steps": plan.log_every_n_steps,
            "profiler": plan.profiler,
            "num_sanity_val_steps": 0,
            "default_root_dir": folder,
            "enable_checkpointing": bool(checkpoints),
            "enable_progress_bar": False,
            "enable_model_summary": plan.verbose > 1 and hvd.rank() == 0,
            "use_distributed_sampler": False,
        }
        return self._lightning.Trainer(**{**options, **(plan.trainer_args or {})})

    def _resumed(self, trainer: Any, folder: str) -> Dict[str, Any]:
        if self._training.checkpoint is None:
            return {}
        path = os.path.join(folder, "resumed")
        with open(path, "wb") as file:
            file.write(self._training.checkpoint)
        own = {"weights_only": False} if "weights_only" in inspect.signature(trainer.fit).parameters else {}
        return {"ckpt_path": path, **own}

    def _result(self, trainer: Any, progress: Any) -> bytes:
        """The weights of the best checkpoint where a callback chooses one, otherwise the last weights."""
        state = self._module.state_dict()
        for each in trainer.callbacks:
            if _is_checkpoint(each) and each.monitor is not None and each.best_model_path:
                state = torch.load(each.best_model_path, map_location="cpu", weights_only=False)["state_dict"]
        if not package_of(self._training.model):
            state = {name[len("plain.") :]: value for name, value in state.items()}
        return result_bytes(state, progress.history)


def _is_checkpoint(callback: Any) -> bool:
    return any(each.__name__ == "ModelCheckpoint" for each in type(callback).__mro__)
