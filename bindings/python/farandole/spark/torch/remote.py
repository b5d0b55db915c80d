"""The training of a model of PyTorch on one rank of an estimator's job.

The trainer reads batches from a data module, takes the same number of steps as all other ranks, and validates after
each epoch. Rank 0 writes checkpoints and logs to the store, and returns the trained weights.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

import farandole.torch as hvd
from farandole.spark.common.estimator_checks import one_per_label
from farandole.spark.common.logs import Record, record
from farandole.spark.common.plan import Plan, check_devices
from farandole.spark.common.spare import Spare
from farandole.spark.common.steps import Epochs, Means, Part, Steps
from farandole.spark.common.trainer import EpochTrainer, exchange
from farandole.spark.torch.batches import (
    Columns,
    Losses,
    Metrics,
    Targets,
    float_type_of,
    with_scaled_gradient,
)
from farandole.spark.torch.minibatch import Batch, OptimizerOfPasses, train_minibatch
from farandole.spark.torch.normalisation import keep_statistics
from farandole.spark.torch.rates import scale_groups
from farandole.spark.torch.training import Result, Training, checkpoint_bytes


class Trainer(EpochTrainer):
    """Trains the model of an estimator on this rank.

    :param training: the model and the optimizer, whose learning rate is that of a single process
    """

    def __init__(self, plan: Plan, training: Training) -> None:
        super().__init__(plan)
        self._history: List[Record] = list(training.history)
        plan.start_process(hvd.rank(), torch.manual_seed)
        gpu = plan.gpu_of(hvd.local_rank(), torch.cuda.device_count() if torch.cuda.is_available() else 0)
        self._device = torch.device("cpu" if gpu is None else f"cuda:{gpu}")
        check_devices(hvd.allgather_object(self._device.type, name="estimator.devices"))
        # All ranks got the same bytes, so weights and optimizer state are equal without a broadcast.
        self._model = training.model.to(self._device)
        self._optimizer = self._distributed(training.optimizer)
        self._passes = OptimizerOfPasses(self._optimizer)
        self._optimizer_of_minibatch = self._optimizer if plan.backward_passes_per_step == 1 else self._passes
        self._minibatch = plan.train_minibatch_fn or train_minibatch
        self._columns = Columns(
            plan.feature_cols, float_type_of(self._model), self._device, plan.input_shapes, plan.categorical_cols
        )
        self._targets = Targets(plan.label_cols, plan.label_shapes)
        self._loss = Losses(_losses(plan), plan.loss_weights, plan.sample_weight_col is not None)
        self._metrics = Metrics(plan.metrics, plan.label_cols)
        self._synchronizes = any(isinstance(each, hvd.SyncBatchNorm) for each in self._model.modules())
        self._spare = Spare()

    def _distributed(self, optimizer: Any) -> Any:
        scale_groups(optimizer.param_groups, hvd.size())
        for state in optimizer.state.values():
            for key, value in state.items():
                state[key] = value.to(self._device) if torch.is_tensor(value) and value.dim() else value
        return hvd.DistributedOptimizer(
            optimizer,
            named_parameters=list(self._model.named_parameters()),
            compression=self._plan.gradient_compression or hvd.Compression.none,
            backward_passes_per_step=self._plan.backward_passes_per_step,
        )

    def run(self) -> Optional[bytes]:
        """Trains all epochs; on rank 0 the result as bytes."""
        plan = self._plan
        module = plan.data_module(**plan.data_arguments(hvd.rank(), hvd.size()))
        with module as data, self._output() as folder:
            log = self._log(folder)
            train_epochs = Epochs(data.train_data, plan.train_steps_per_epoch)
            val_epochs = Epochs(data.val_data, plan.validation_steps_per_epoch)
            _call(plan.callbacks, "on_train_begin", self._model, self._optimizer)
            for epoch in range(plan.first_epoch, plan.last_epoch):
                _call(plan.callbacks, "on_epoch_begin", epoch)
                train = self._train(train_epochs.next())
                validation = self._validate(val_epochs.next()) if plan.has_validation else None
                self._history.append(record(epoch, train, validation))
                log.epoch(self._history[-1], plan.last_epoch)
                if folder:
                    epochs = (epoch + 1, plan.last_epoch)
                    self._write_checkpoint(folder, checkpoint_bytes(*self._states(), *epochs, self._history))
                if sum(exchange([float(_call(plan.callbacks, "on_epoch_end", epoch, self._history[-1]))])):
                    break
            log.close()
            if folder:
                plan.remote_store.sync(folder)
        return Result(self._history, *self._states()).to_bytes() if hvd.rank() == 0 else None

    def _states(self) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """The states of the model and of the optimizer with the learning rate of a single process."""
        state = self._optimizer.state_dict()
        scale_groups(state["param_groups"], 1 / hvd.size())  # these groups are copies
        return self._model.state_dict(), state

    def _batches(self, columns: Iterator[Any]) -> Iterator[Batch]:
        plan = self._plan
        for each in columns:
            labels = [self._columns.tensor(each[name]) for name in plan.label_cols]
            weights = self._columns.tensor(each[plan.sample_weight_col]) if plan.sample_weight_col else None
            yield Batch(self._columns.inputs(each), labels, weights)

    def _train(self, columns: Iterator[Any]) -> Dict[str, float]:
        """Trains an epoch; the means over the rows of all ranks."""
        self._model.train()
        steps = Steps(
            exchange,
            hvd.size(),
            lambda batch: batch.weight,
            self._plan.backward_passes_per_step,
            self._plan.train_steps_per_epoch,
        )
        means = Means(["loss", *self._metrics.names])
        self._passes.starts_step = True
        if self._synchronizes or self._plan.train_minibatch_fn:
            # Synchronised batch normalisation reduces in the forward pass, and the function may use a gradient scaler,
            # clip gradients or step a scheduler: all ranks must call them.
            columns = self._spare.kept_from(columns)
        for part in steps(self._batches(columns)):
            self._passes.ends_step = part.ends_step
            if part.batch is not None:
                self._train_batch(part, means)
            else:
                self._train_without_rows()
            self._passes.starts_step = part.ends_step
        return means.over_ranks(exchange)

    def _train_batch(self, part: Part, means: Means) -> None:
        batch: Batch = part.batch  # type: ignore[assignment]
        outputs, labels, loss = self._call_minibatch(batch, part.scale)
        means.add([loss.detach(), *self._metrics(outputs, labels)], part.weight)

    def _train_without_rows(self) -> None:
        """Takes part in the reductions of the other ranks with gradients of zero."""
        if self._spare.batch is None:
            self._passes.zero_grad()
            self._passes.step()
            return
        put_back = keep_statistics(self._model)
        (batch,) = self._batches(iter([self._spare.batch]))
        self._call_minibatch(batch, 0.0)
        put_back()

    def _call_minibatch(self, batch: Batch, scale: float) -> Tuple[Any, Any, torch.Tensor]:
        """Calls the minibatch function: outputs, labels and loss."""
        seen: List[Any] = []

        def transform_outputs(outputs: Any, labels: Any) -> Any:
            seen[:] = self._targets(outputs, labels)
            return seen[0], seen[1]

        def loss_fn(outputs: Any, labels: Any, sample_weights: Any = None) -> torch.Tensor:
            return with_scaled_gradient(self._loss(outputs, labels, sample_weights), scale)

        outputs, loss = self._minibatch(
            self._model,
            self._optimizer_of_minibatch,
            transform_outputs,
            loss_fn,
            batch.inputs,
            batch.labels,
            batch.sample_weights,
        )
        outputs, labels = (seen[0], seen[1]) if seen else self._targets(outputs, batch.labels)
        return outputs, labels, loss

    @torch.no_grad()
    def _validate(self, columns: Iterator[Any]) -> Dict[str, float]:
        """Validates; the means over the rows of all ranks."""
        self._model.eval()
        means = Means(["loss", *self._metrics.names])
        for batch in self._batches(columns):
            outputs, labels = self._targets(self._model(*batch.inputs), batch.labels)
            loss = self._loss(outputs, labels, batch.sample_weights)
            means.add([loss, *self._metrics(outputs, labels)], batch.weight)
        return means.over_ranks(exchange)


def _losses(plan: Plan) -> List[Any]:
    """The loss of each label."""
    if plan.loss_constructors is None:
        return one_per_label("loss", plan.loss, plan.label_cols)
    constructors = one_per_label("loss_constructors", plan.loss_constructors, plan.label_cols)
    return [constructor() for constructor in constructors]


def _call(callbacks: Sequence[Any], name: str, *arguments: Any) -> bool:
    """Calls a method of all callbacks that have it; a function is called at the end of each epoch. Whether any of them
    returned True."""
    answers = []
    for each in callbacks:
        method = getattr(each, name, each if callable(each) and name == "on_epoch_end" else None)
        if method is not None:
            answers.append(method(*arguments) is True)
    return any(answers)
