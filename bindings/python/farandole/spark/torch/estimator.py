"""The estimator for models of PyTorch, and the trained model as a transformer of Spark ML."""

from __future__ import annotations

from typing import Any, Dict

from pyspark.ml.util import MLReadable, MLWritable

from farandole.spark.common import estimator_checks
from farandole.spark.common.estimator import HorovodEstimator, HorovodModel
from farandole.spark.common.params import GivenParams, parameter, warn_of_shuffle_buffer_size
from farandole.spark.common.serialization import Codec, HorovodParamsReader, HorovodParamsWriter
from farandole.spark.torch.formats import TorchCodec


class TorchEstimatorParamsWriter(HorovodParamsWriter):
    """Saves an object with parameters of PyTorch."""

    _codec: Codec = TorchCodec()


class TorchEstimatorParamsReader(HorovodParamsReader):
    """Loads an object that ``TorchEstimatorParamsWriter`` has saved."""

    _codec: Codec = TorchEstimatorParamsWriter._codec


class TorchEstimatorParamsWritable(MLWritable):
    """An estimator or a model that can be saved: ``object.write().overwrite().save(path)``."""

    def write(self) -> TorchEstimatorParamsWriter:
        """The writer of this object."""
        return TorchEstimatorParamsWriter(self)


class TorchEstimatorParamsReadable(MLReadable):
    """A class of estimators or models that can be loaded: ``TorchEstimator.load(path)``."""

    @classmethod
    def read(cls) -> TorchEstimatorParamsReader:
        """The reader of objects of this class."""
        return TorchEstimatorParamsReader(cls)


class TorchParams(GivenParams):
    """The parameters that estimators of models of PyTorch and their models have in common."""

    input_shapes, setInputShapes, getInputShapes = parameter(
        "input_shapes", "a shape for each feature column, with -1 for the rows"
    )
    loss_constructors, setLossConstructors, getLossConstructors = parameter(
        "loss_constructors", "functions that make the losses; excludes loss"
    )


class TorchEstimator(TorchParams, HorovodEstimator, TorchEstimatorParamsWritable, TorchEstimatorParamsReadable):
    """Trains a model of PyTorch on a DataFrame.

    The model is called with a tensor for each feature column, and returns a tensor for each label column. The learning
    rate of the optimizer is that of a single process; training multiplies it by the number of processes.

    :param num_proc: number of processes that train; by default Spark's default parallelism
    :param data_module: class that reads the data on each rank; by default ``PetastormDataModule``
    :param model: a ``torch.nn.Module`` or a TorchScript module; it stays unchanged
    :param backend: runs the processes; excludes ``num_proc``
    :param store: the store of intermediate data and runs
    :param optimizer: an optimizer of the model's parameters; it stays unchanged
    :param loss: a function of output and label, or a list with one for each label
    :param loss_constructors: functions that make the losses on each rank; excludes ``loss``
    :param metrics: functions of output and label; one list for all labels, or a list of lists
    :param loss_weights: a factor for the loss of each label
    :param sample_weight_col: the column with the weight of each row; losses must honour ``reduction="none"``
    :param gradient_compression: such as ``hvd.Compression.fp16``
    :param feature_cols: columns that are the inputs of the model
    :param continuous_cols: feature columns with continuous values
    :param categorical_cols: feature columns that the model gets as integers
    :param input_shapes: for each feature column a shape, with -1 for the rows
    :param validation: fraction of the rows in [0, 1), or name of a column that marks the rows to validate with
    :param label_cols: columns that are the labels, in the order of the model's outputs
    :param callbacks: functions of epoch number and record, or objects with ``on_train_begin(model, optimizer)``,
        ``on_epoch_begin(epoch)`` or ``on_epoch_end(epoch, record)``; True from the end of an epoch ends the training
    :param batch_size: rows of each process in a step, 32 by default
    :param val_batch_size: the same for validation
    :param epochs: passes through the data
    :param run_id: name of the run; a run that is in the store is resumed
    :param train_minibatch_fn: ``fn(model, optimizer, transform_outputs, loss_fn, inputs, labels, sample_weights)``,
        which trains a batch and returns outputs and loss
    :param label_shapes: for each label a shape, with -1 for the rows
    :param backward_passes_per_step: batches that make up a step
    """

    _package = "farandole.spark.torch"

    train_minibatch_fn, setTrainMinibatchFn, getTrainMinibatchFn = parameter(
        "train_minibatch_fn", "function that trains a batch"
    )

    def __init__(
        self,
        num_proc: Any = None,
        data_module: Any = None,
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
        continuous_cols: Any = None,
        categorical_cols: Any = None,
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
        train_reader_num_workers: Any = None,
        val_reader_num_workers: Any = None,
        reader_pool_type: Any = "thread",
        label_shapes: Any = None,
        inmemory_cache_all: Any = False,
        use_gpu: Any = True,
        mp_start_method: Any = None,
        backward_passes_per_step: Any = 1,
    ) -> None:
        given = dict(locals())
        super().__init__()
        warn_of_shuffle_buffer_size(shuffle_buffer_size)
        self._set_given(given)

    def get_model_class(self) -> Any:
        """The class of the trained models."""
        return TorchModel

    def _check_framework(self) -> None:
        check_losses(self)
        if self.getOptimizer() is None:
            raise ValueError("the estimator has no optimizer: set the parameter optimizer")
        if getattr(self.getDataModule(), "short_name", None) == "nvtabular" and self.getTrainStepsPerEpoch() is None:
            raise ValueError(
                f"data_module={self.getDataModule().__name__} begins again after the last row, so an epoch has no end: "
                "set train_steps_per_epoch"
            )
        check_input_shapes(self)

    def _prepare(self, run_id: str) -> Any:
        from farandole.spark.torch.training import prepare

        return prepare(self.getModel(), self.getOptimizer(), self.getStore(), run_id)

    def _returned(self, training: Any, result: Any) -> Dict[str, Any]:
        from farandole.spark.torch.training import returned

        model, optimizer, history = returned(training, result)
        return {
            "history": history,
            "model": model,
            "optimizer": optimizer,
            "input_shapes": self.getInputShapes(),
            "loss": self.getLoss(),
            "loss_constructors": self.getLossConstructors(),
        }


def check_losses(estimator: Any) -> None:
    """``ValueError`` unless there is either a loss or a constructor of losses, one for all labels or one for each."""
    loss, constructors = estimator.getLoss(), estimator.getLossConstructors()
    if loss is not None and constructors is not None:
        raise ValueError("loss and loss_constructors exclude each other: set one of them, and leave the other out")
    if loss is None and constructors is None:
        raise ValueError("the estimator has no loss: set the parameter loss or loss_constructors")
    name, value = ("loss", loss) if loss is not None else ("loss_constructors", constructors)
    for each in estimator_checks.one_per_label(name, value, estimator.getLabelCols()):
        if not callable(each):
            raise ValueError(f"{name}={each!r}: it is a function of output and label, or a list of such functions")


def check_input_shapes(estimator: Any) -> None:
    """``ValueError`` unless there is a shape for each feature column, or none at all."""
    shapes, features = estimator.getInputShapes(), estimator.getFeatureCols()
    if shapes is not None and len(shapes) != len(features):
        raise ValueError(
            f"input_shapes has {len(shapes)} shapes ({shapes}) for {len(features)} feature columns "
            f"({', '.join(features)}): give one for each"
        )


class TorchModel(TorchParams, HorovodModel, TorchEstimatorParamsWritable, TorchEstimatorParamsReadable):
    """A trained model of PyTorch, in evaluation mode, which adds predictions to DataFrames."""

    optimizer, setOptimizer, getOptimizer = parameter(
        "optimizer", "the optimizer after the training, with the learning rate of a single process"
    )
    loss, setLoss, getLoss = parameter("loss", "the loss, or a list with one for each label column")

    def __init__(
        self,
        history: Any = None,
        model: Any = None,
        feature_columns: Any = None,
        input_shapes: Any = None,
        label_columns: Any = None,
        optimizer: Any = None,
        run_id: Any = None,
        _metadata: Any = None,
        loss: Any = None,
        loss_constructors: Any = None,
    ) -> None:
        given = dict(locals())
        super().__init__()
        self._set_given(given)

    def _predictor(self) -> Any:
        from farandole.spark.torch.predicting import TorchPredictor

        return TorchPredictor(
            self.getModel(),
            self.getFeatureColumns(),
            self.getLabelColumns(),
            self.getInputShapes(),
            self._get_integer_columns(),
        )
