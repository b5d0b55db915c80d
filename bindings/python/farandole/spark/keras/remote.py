"""The training of a model of Keras on one rank of an estimator's job.

The trainer reads batches from a data module, takes the same number of steps as all other ranks, and validates after
each epoch. It calls the callbacks, and ``train_step`` and ``test_step`` of the model, as ``Model.fit`` does. Rank 0
writes checkpoints and logs to the store, and returns the trained model.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence

import farandole.tensorflow as hvd
from farandole._keras.library import all_variables_of
from farandole.spark.common.logs import record
from farandole.spark.common.plan import Plan, check_devices
from farandole.spark.common.spare import Spare
from farandole.spark.common.steps import Epochs, Part, Steps
from farandole.spark.common.trainer import EpochTrainer, exchange
from farandole.spark.keras.callbacks import Callbacks
from farandole.spark.keras.columns import Batch, Inputs, Targets, columns_of
from farandole.spark.keras.formats import decode_model, keras_named
from farandole.spark.keras.phases import Logs, Phase
from farandole.spark.keras.rates import ScaledRate
from farandole.spark.keras.state import History, State, assign_optimizer, check_same_model, name_of
from farandole.spark.keras.training import Training, build_optimizer, result_bytes


class Trainer(EpochTrainer):
    """Trains the model of an estimator on this rank."""

    def __init__(self, plan: Plan, training: Training) -> None:
        super().__init__(plan)
        self._training = training
        self._keras = keras_named(training.root)
        plan.start_process(hvd.rank(), self._keras.utils.set_random_seed)
        check_devices(hvd.allgather_object(self._choose_device(), name="estimator.devices"))
        self._model = decode_model(training.model)
        self._history: History = {} if training.state is None else dict(training.state.history)
        self._inputs = Inputs(self._model, plan.feature_cols, plan.categorical_cols, self._keras.backend.floatx())
        self._stops = False

    def _choose_device(self) -> str:
        """Lets TensorFlow see the GPU of this rank only, or none. Returns the type of the device."""
        import tensorflow as tf

        gpus = tf.config.list_physical_devices("GPU")
        index = self._plan.gpu_of(hvd.local_rank(), len(gpus))
        if gpus:
            chosen = [] if index is None else [gpus[index]]
            tf.config.set_visible_devices(chosen, "GPU")
            for each in chosen:
                tf.config.experimental.set_memory_growth(each, True)
        return "cpu" if index is None else "gpu"

    def run(self) -> Optional[bytes]:
        """Trains all epochs; on rank 0 the result as bytes."""
        plan = self._plan
        ahead = plan.tensorflow_dataset_prefetch_buffer_size
        options = {"tensorflow_dataset_prefetch_buffer_size": ahead} if ahead else {}
        module = plan.data_module(**plan.data_arguments(hvd.rank(), hvd.size()), **options)
        with module as data, self._output() as folder:
            train_epochs = Epochs(data.train_data, plan.train_steps_per_epoch)
            val_epochs = Epochs(lambda: _or_empty(data.val_data()), plan.validation_steps_per_epoch)
            columns = self._build(self._columns(train_epochs))
            phases = {name: Phase(self._model, name, exchange) for name in ("train", "test")}
            self._callbacks = Callbacks(self._keras, plan, self._model, self._rate, hvd.rank() == 0, folder)
            self._callbacks.call("on_train_begin")
            log = self._log(folder)
            for epoch in range(plan.first_epoch, plan.last_epoch):
                self._callbacks.call("on_epoch_begin", epoch)
                train = self._train(phases["train"], columns)
                test = self._validate(phases["test"], self._columns(val_epochs)) if plan.has_validation else {}
                self._end_epoch(epoch, {**train, **{f"val_{name}": value for name, value in test.items()}}, folder)
                log.epoch(_record(epoch, train, test if plan.has_validation else None), plan.last_epoch)
                if sum(exchange([float(self._stops or self._model.stop_training)])):
                    break
                columns = self._columns(train_epochs)
            if hasattr(self._optimizer, "finalize_variable_values"):
                self._optimizer.finalize_variable_values(self._model.trainable_variables)
            self._callbacks.call("on_train_end")
            log.close()
            if folder:
                plan.remote_store.sync(folder)
            return self._result() if hvd.rank() == 0 else None

    def _columns(self, epochs: Epochs) -> Iterator[Dict[str, Any]]:
        """The columns of the batches of the next epoch."""
        return (columns_of(each, self._plan.label_cols) for each in epochs.next())

    def _build(self, columns: Iterator[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
        """Compiles the model, and creates all variables by a prediction for the first row. Returns the same columns.

        A rank without rows gets those of another rank, because Keras must run a step.
        """
        import numpy
        import tensorflow as tf

        plan, model, state = self._plan, self._model, self._training.state
        spare = Spare(lambda batch: {name: numpy.asarray(batch[name]) for name in plan.columns})
        columns = spare.kept_from(columns)
        if spare.batch is None:
            raise ValueError(f"no rank has rows to train on at {plan.remote_store.train_data_path}")
        was_built = bool(model.built and model.weights)
        self._optimizer = self._distributed()
        self._training.compile(model, self._optimizer, plan.label_cols, plan.loss_weights)
        row = {name: tf.convert_to_tensor(spare.batch[name])[:1] for name in plan.columns}
        outputs = model(self._inputs(row), training=False)
        self._targets = Targets(plan.label_cols, outputs, plan.label_shapes)
        self._last = self._batch(spare.batch)
        build_optimizer(model.optimizer, model)
        self._rate = ScaledRate(self._keras, self._optimizer, hvd.size())
        if not was_built:  # each rank has drawn its own initial weights
            hvd.broadcast_variables(model.weights, root_rank=0)
        if state is not None:
            check_same_model(model, state, plan.run_id, "its checkpoint")
            for variable, value in zip(model.weights, state.weights):
                variable.assign(value)
            with self._rate.loading():
                assign_optimizer(all_variables_of(model.optimizer), state, plan.run_id)
        return columns

    def _distributed(self) -> Any:
        import tensorflow as tf

        from farandole._keras.package import functions_for

        plan, functions = self._plan, functions_for(self._keras)
        optimizer = functions.DistributedOptimizer(
            self._training.new_optimizer(self._keras),
            compression=plan.gradient_compression or functions.Compression.none,
            backward_passes_per_step=plan.backward_passes_per_step,
        )
        self._scale = optimizer._farandole.scale = tf.Variable(1.0, trainable=False, name="weight_of_rows")
        return optimizer

    def _batch(self, columns: Any) -> Batch:
        plan = self._plan
        data = [self._inputs(columns), self._targets(columns)]
        if plan.sample_weight_col:
            import tensorflow as tf

            data.append(tf.cast(tf.reshape(columns[plan.sample_weight_col], [-1]), self._keras.backend.floatx()))
        return Batch(tuple(data), len(columns[plan.label_cols[0]]))

    def _exchange_until_stop(self, values: List[float]) -> Sequence[float]:
        """Sums the weights of batches over all ranks. They are zero when a callback of a rank has ended the training
        within an epoch, so that all ranks end the epoch together."""
        *totals, stops = exchange([*values, float(self._stops)])
        self._stops = bool(stops)
        return [0.0] * len(totals) if stops else totals

    def _train(self, phase: Phase, columns: Iterator[Dict[str, Any]]) -> Logs:
        """Trains an epoch; the means over the rows of all ranks."""
        plan = self._plan
        steps = Steps(
            self._exchange_until_stop,
            hvd.size(),
            lambda batch: batch.rows,
            plan.backward_passes_per_step,
            plan.train_steps_per_epoch,
        )
        phase.start()
        number = 0
        for part in steps(self._batch(each) for each in columns):
            self._train_batch(phase, part, number)
            number += 1
        for missing in range(-number % plan.backward_passes_per_step):  # completes the last step
            self._train_batch(phase, Part(None, 0.0, 0.0, False), number + missing)
        return phase.results()

    def _train_batch(self, phase: Phase, part: Part, number: int) -> None:
        self._callbacks.call("on_train_batch_begin", number)
        self._scale.assign(part.scale)
        self._last = self._last if part.batch is None else part.batch
        logs = phase.step(self._last, counts=part.batch is not None)
        self._callbacks.call("on_train_batch_end", number, logs)
        self._stops = self._stops or bool(self._model.stop_training)
        self._model.stop_training = False

    def _validate(self, phase: Phase, columns: Iterator[Dict[str, Any]]) -> Logs:
        """Validates; the means over the rows of all ranks."""
        self._callbacks.call("on_test_begin")
        phase.start()
        for number, each in enumerate(columns):
            self._callbacks.call("on_test_batch_begin", number)
            self._callbacks.call("on_test_batch_end", number, phase.step(self._batch(each)))
        if phase.needs_a_step:
            phase.step(self._last, counts=False)
        results = phase.results()
        self._callbacks.call("on_test_end", results)
        return results

    def _end_epoch(self, epoch: int, logs: Logs, folder: Optional[str]) -> None:
        for name, value in logs.items():
            self._history.setdefault(name, []).append(value)
        self._callbacks.call("on_epoch_end", epoch, logs)
        if folder:
            self._write_checkpoint(folder, self._state(epoch + 1).to_bytes())

    def _state(self, epoch: int) -> State:
        """The state after ``epoch`` epochs, with the learning rate of a single process."""
        weights = self._model.weights
        with self._rate.unscaled():
            optimizer = [each.numpy() for each in all_variables_of(self._model.optimizer)]
        return State(
            [name_of(each) for each in weights],
            [each.numpy() for each in weights],
            type(self._optimizer).__name__,
            optimizer,
            epoch,
            self._plan.last_epoch,
            self._history,
        )

    def _result(self) -> bytes:
        state = self._state(len(next(iter(self._history.values()), [])))
        self._callbacks.load_best()
        return result_bytes(self._model, self._plan.custom_objects, state)


def _or_empty(data: Any) -> Any:
    return [] if data is None else data


def _record(epoch: int, train: Logs, test: Optional[Logs]) -> Any:
    """The numbers of an epoch for the log; values that are lists are left out."""
    parts = [
        None if each is None else {n: v for n, v in each.items() if isinstance(v, float)} for each in (train, test)
    ]
    return record(epoch, parts[0] or {}, parts[1])
