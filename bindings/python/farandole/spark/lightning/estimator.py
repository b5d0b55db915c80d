"""The estimator that trains by Lightning, and the trained model as a transformer of Spark ML."""

from __future__ import annotations

from typing import Any, Callable, Dict

from farandole.spark.common.estimator import HorovodEstimator
from farandole.spark.common.params import parameter, warn_of_shuffle_buffer_size
from farandole.spark.lightning.versions import package_of, require_lightning
from farandole.spark.torch import estimator as plain

TorchEstimatorParamsWriter = plain.TorchEstimatorParamsWriter
TorchEstimatorParamsWritable = plain.TorchEstimatorParamsWritable
TorchEstimatorParamsReader = plain.TorchEstimatorParamsReader
TorchEstimatorParamsReadable = plain.TorchEstimatorParamsReadable


class TorchEstimator(plain.TorchParams, HorovodEstimator, TorchEstimatorParamsWritable, TorchEstimatorParamsReadable):
    """Trains a module of Lightning, or a plain model of PyTorch with an optimizer and a loss, on a DataFrame.

    The batches of a module are dicts from column to tensor. Learning rates are those of a single process; training
    multiplies them by the number of processes. ``fit`` returns the weights of the best checkpoint if ``callbacks``
    contains a ``ModelCheckpoint`` that monitors a value, otherwise the last weights.

    ``RuntimeError`` where Lightning is missing or older than 2.2.0.

    :param model: a ``LightningModule``, or a ``torch.nn.Module``; it stays unchanged
    :param optimizer: of a plain model; a ``LightningModule`` has its own, and so are ``loss``, ``loss_constructors``
        and ``loss_weights``
    :param callbacks: callbacks of Lightning
    :param trainer_args: further arguments of Lightning's ``Trainer``, which replace those of the estimator
    :param num_gpus: number of GPUs of each process
    :param logger: a logger of Lightning, which writes on rank 0 only
    :param log_every_n_steps: steps between two entries of the logger
    :param data_module: a ``LightningDataModule`` class; by default ``PetastormDataModule``
    :param loader_num_epochs: epochs that the reader reads; by default as many as are trained
    :param terminate_on_nan: end the training when a loss is not finite
    :param profiler: a profiler of Lightning, or its name
    :param debug_data_loader: print when the loaders begin and end an epoch
    :param train_async_data_loader_queue_size: batches that a thread prepares ahead for training
    :param val_async_data_loader_queue_size: the same for validation

    The other parameters are those of ``horovod.spark.torch.TorchEstimator``.
    """

    _package = "farandole.spark.lightning"

    train_minibatch_fn, setTrainMinibatchFn, getTrainMinibatchFn = parameter(
        "train_minibatch_fn", "refused: a module of Lightning has training_step"
    )
    trainer_args, setTrainerArgs, getTrainerArgs = parameter("trainer_args", "further arguments of Lightning's Trainer")
    num_gpus, setNumGPUs, getNumGPUs = parameter("num_gpus", "number of GPUs of each process")
    logger, setLogger, getLogger = parameter("logger", "a logger of Lightning")
    log_every_n_steps, setLogEveryNSteps, getLogEveryNSteps = parameter(
        "log_every_n_steps", "steps between two entries of the logger", 50
    )
    loader_num_epochs, setLoaderNumEpochs, getLoaderNumEpochs = parameter(
        "loader_num_epochs", "epochs that the reader reads"
    )
    terminate_on_nan, setTerminateOnNan, getTerminateOnNan = parameter(
        "terminate_on_nan", "end the training when a loss is not finite", False
    )
    profiler, setProfiler, getProfiler = parameter("profiler", "a profiler of Lightning, or its name")
    debug_data_loader, setDebugDataLoader, getDebugDataLoader = parameter(
        "debug_data_loader", "print when the loaders begin and end an epoch", False
    )
    train_async_data_loader_queue_size, setTrainAsyncDataLoaderQueueSize, getTrainAsyncDataLoaderQueueSize = parameter(
        "train_async_data_loader_queue_size", "batches that a thread prepares ahead for training"
    )
    val_async_data_loader_queue_size, setValAsyncDataLoaderQueueSize, getValAsyncDataLoaderQueueSize = parameter(
        "val_async_data_loader_queue_size", "batches that a thread prepares ahead for validation"
    )

    def __init__(
        self,
        num_proc: Any = None,
        model: Any = None,
        backend: Any = None,
        store: Any = None,
        optimizer: Any = None,
        loss: Any = None,
        loss_constructors: Any = None,
        metrics: Any = None,
        loss_weights: Any = None,
        sample_weight_col: Any = None,
        gradient_compression: Any = None,
        feature_cols: Any = None,
        input_shapes: Any = None,
        validation: Any = None,
        label_cols: Any = None,
        callbacks: Any = None,
        batch_size: Any = None,
        val_batch_size: Any = None,
        epochs: Any = None,
        verbose: Any = 1,
        random_seed: Any = None,
        shuffle_buffer_size: Any = None,
        shuffle: Any = True,
        partitions_per_process: Any = None,
        run_id: Any = None,
        train_minibatch_fn: Any = None,
        train_steps_per_epoch: Any = None,
        validation_steps_per_epoch: Any = None,
        transformation_fn: Any = None,
        transformation_edit_fields: Any = None,
        transformation_removed_fields: Any = None,
        train_reader_num_workers: Any = None,
        trainer_args: Any = None,
        val_reader_num_workers: Any = None,
        reader_pool_type: Any = None,
        label_shapes: Any = None,
        inmemory_cache_all: Any = False,
        num_gpus: Any = None,
        logger: Any = None,
        log_every_n_steps: Any = 50,
        data_module: Any = None,
        loader_num_epochs: Any = None,
        terminate_on_nan: Any = False,
        profiler: Any = None,
        debug_data_loader: Any = False,
        train_async_data_loader_queue_size: Any = None,
        val_async_data_loader_queue_size: Any = None,
        use_gpu: Any = True,
        mp_start_method: Any = None,
    ) -> None:
        given = dict(locals())
        require_lightning()
        super().__init__()
        warn_of_shuffle_buffer_size(shuffle_buffer_size)
        self._set_given(given)

    def get_model_class(self) -> Any:
        """The class of the trained models."""
        return TorchModel

    def _check_framework(self) -> None:
        if package_of(self.getModel()) is not None:
            own = ("optimizer", "loss", "loss_constructors", "loss_weights")
            given = [name for name in own if self.getOrDefault(name) is not None]
            if given:
                raise ValueError(
                    f"{', '.join(given)}: leave these out, because the model is a LightningModule "
                    f"({type(self.getModel()).__name__}), which has its own in training_step and configure_optimizers"
                )
        else:
            plain.check_losses(self)
            if self.getOptimizer() is None:
                raise ValueError("the estimator has no optimizer: set it, because the model is not a LightningModule")
        if self.getTrainMinibatchFn() is not None:
            raise ValueError("train_minibatch_fn: leave it out, and give a LightningModule with its own training_step")
        if self.getBackwardPassesPerStep() != 1:
            raise ValueError(
                f"backward_passes_per_step={self.getBackwardPassesPerStep()}: leave it out, and set "
                "trainer_args={'accumulate_grad_batches': ...} instead"
            )
        plain.check_input_shapes(self)

    def _prepare(self, run_id: str) -> Any:
        from farandole.spark.lightning.training import prepare

        return prepare(self.getModel(), self.getOptimizer(), self.getStore(), run_id)

    def _returned(self, training: Any, result: Any) -> Dict[str, Any]:
        from farandole.spark.lightning.training import returned

        model, history = returned(training, result)
        return {
            "history": history,
            "model": model,
            "input_shapes": self.getInputShapes(),
            "loss": self.getLoss(),
            "loss_constructors": self.getLossConstructors(),
        }


def _forward(model: Any, *inputs: Any) -> Any:
    return model(*inputs)


class TorchModel(plain.TorchModel):
    """A trained module of Lightning or model of PyTorch, in evaluation mode, which adds predictions to DataFrames."""

    def get_prediction_fn(self) -> Callable[..., Any]:
        """The function that predicts: ``fn(model, *inputs)`` returns the outputs. A class may override this method,
        for example to call another method of the module than ``forward``."""
        return _forward

    def _predictor(self) -> Any:
        from farandole.spark.torch.predicting import TorchPredictor

        return TorchPredictor(
            self.getModel(),
            self.getFeatureColumns(),
            self.getLabelColumns(),
            self.getInputShapes(),
            forward=self.get_prediction_fn(),
        )
