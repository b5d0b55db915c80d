"""The parameters of estimators and of the models that they return, as Spark ML Params.

Each parameter has a getter and a setter; every setter returns the object itself, so that calls can be chained. A
parameter is set in the constructor, by its setter, by ``setParams``, or for one fit by a parameter map, as Spark's
``CrossValidator`` does.
"""

from __future__ import annotations

import copy
import multiprocessing
import warnings
from typing import Any, Callable, List, Optional, Tuple, TypeVar

from pyspark.ml.param import Param, Params
from pyspark.ml.param.shared import HasOutputCols

from farandole.spark.common.checking import check_validation

Self = TypeVar("Self", bound="GivenParams")


Setter = Callable[[Any, Any], Any]
Getter = Callable[[Any], Any]


class Parameter(Param[Any]):
    """A Param with the default of the classes that declare it."""

    def __init__(self, name: str, doc: str, default: Any, converter: Optional[Callable[[Any], Any]]) -> None:
        super().__init__(Params._dummy(), name, doc, converter)
        self.default = default


def parameter(
    name: str, doc: str, default: Any = None, converter: Optional[Callable[[Any], Any]] = None
) -> Tuple[Parameter, Setter, Getter]:
    """A parameter of a class derived from ``GivenParams``, with its setter and its getter. The class declares it by

        batch_size, setBatchSize, getBatchSize = parameter("batch_size", "rows in a step", 32)

    :param default: the value of an object for which none is set; each object gets a copy
    :param converter: turns a value that was set into the value that is stored, or raises ``ValueError``
    """

    def set_value(self: Any, value: Any) -> Any:
        return self._set(**{name: value})

    def get_value(self: Any) -> Any:
        return self.getOrDefault(name)

    set_value.__doc__ = f"Sets the parameter ``{name}``, and returns the object itself."
    get_value.__doc__ = f"The value of the parameter ``{name}``, or its default."
    return Parameter(name, doc, default, converter), set_value, get_value


def checked_validation(validation: Any) -> Any:
    """Returns the value; ``ValueError`` unless it is None, a fraction in [0, 1) or the name of a column."""
    check_validation(validation)
    return validation


def check_passes(passes: Any) -> int:
    """Returns the number; ``ValueError`` unless it is an integer above 0."""
    if isinstance(passes, bool) or not isinstance(passes, int) or passes <= 0:
        raise ValueError(f"backward_passes_per_step={passes!r}: it must be an integer > 0")
    return passes


def check_start_method(method: str) -> str:
    """Returns the name; ``ValueError`` unless Python can start processes in this way on this system."""
    known = multiprocessing.get_all_start_methods()
    if method not in known:
        raise ValueError(f"mp_start_method={method!r}: Python knows {', '.join(known)} on this system")
    return method


class GivenParams(Params):
    """Params with the defaults of their declarations. A constructor sets those that the caller has given, that is,
    which are not None."""

    def __init__(self) -> None:
        super().__init__()
        declared = [each for each in self.params if isinstance(each, Parameter)]
        self._setDefault(**{each.name: copy.copy(each.default) for each in declared})

    def _set_given(self: Self, values: Any) -> Self:
        """Sets the parameters among a constructor's variables."""
        given = {name: value for name, value in values.items() if value is not None and self.hasParam(name)}
        return self._set(**given)

    def setParams(self: Self, **kwargs: Any) -> Self:
        """Sets several parameters by name, and returns the object itself; ``AttributeError`` for unknown names."""
        return self._set(**kwargs)


class EstimatorParams(GivenParams):
    """The parameters that all estimators have."""

    num_proc, setNumProc, getNumProc = parameter(
        "num_proc", "number of processes that train; by default Spark's default parallelism"
    )
    model, setModel, getModel = parameter("model", "the model to train; it stays unchanged")
    backend, setBackend, getBackend = parameter("backend", "runs the training processes; excludes num_proc")
    store, setStore, getStore = parameter("store", "the store of intermediate data and runs")
    optimizer, setOptimizer, getOptimizer = parameter(
        "optimizer", "the optimizer, with the learning rate of a single process; it stays unchanged"
    )
    loss, setLoss, getLoss = parameter("loss", "the loss, or a list with one for each label column")
    loss_weights, setLossWeights, getLossWeights = parameter(
        "loss_weights", "a factor for the loss of each label column"
    )
    sample_weight_col, setSampleWeightCol, getSampleWeightCol = parameter(
        "sample_weight_col", "the column with the weight of each row"
    )
    metrics, setMetrics, getMetrics = parameter("metrics", "metrics to compute in each epoch", [])
    callbacks, setCallbacks, getCallbacks = parameter("callbacks", "callbacks of the training loop", [])
    feature_cols, setFeatureCols, getFeatureCols = parameter(
        "feature_cols", "columns that are the inputs of the model, in order"
    )
    label_cols, setLabelCols, getLabelCols = parameter(
        "label_cols", "columns that are the labels, in the order of the model's outputs"
    )
    continuous_cols, setContinuousCols, getContinuousCols = parameter(
        "continuous_cols", "feature columns with continuous values"
    )
    categorical_cols, setCategoricalCols, getCategoricalCols = parameter(
        "categorical_cols", "feature columns with categories, which are passed as integers"
    )
    validation, setValidation, getValidation = parameter(
        "validation", "fraction of rows to validate with, or column that marks them", converter=checked_validation
    )
    gradient_compression, setGradientCompression, getGradientCompression = parameter(
        "gradient_compression", "compression of gradients between processes"
    )
    compress_sparse_cols, setCompressSparseCols, getCompressSparseCols = parameter(
        "compress_sparse_cols", "store sparse columns in compressed form", False
    )
    batch_size, setBatchSize, getBatchSize = parameter("batch_size", "rows of each process in a step", 32)
    val_batch_size, setValBatchSize, _get_val_batch_size = parameter(
        "val_batch_size", "rows of each process in a step of validation; by default batch_size"
    )
    epochs, setEpochs, getEpochs = parameter("epochs", "number of times that the data are passed through", 1)
    verbose, setVerbose, getVerbose = parameter("verbose", "0 prints nothing, 1 prints each epoch, 2 prints more", 1)
    random_seed, setRandomSeed, getRandomSeed = parameter(
        "random_seed", "seed of the order of rows and of the framework's generators"
    )
    shuffle_buffer_size, _set_shuffle_buffer_size, getShufflingBufferSize = parameter(
        "shuffle_buffer_size", "deprecated; shuffle turns shuffling on and off"
    )
    shuffle, setShuffle, getShuffle = parameter("shuffle", "train on the rows in random order", True)
    partitions_per_process, setPartitionsPerProcess, getPartitionsPerProcess = parameter(
        "partitions_per_process", "partitions of the intermediate data for each process", 10
    )
    run_id, setRunId, getRunId = parameter("run_id", "name of the run in the store; a run that exists there is resumed")
    train_steps_per_epoch, setTrainStepsPerEpoch, getTrainStepsPerEpoch = parameter(
        "train_steps_per_epoch", "steps in an epoch; by default as many as give all rows"
    )
    validation_steps_per_epoch, setValidationStepsPerEpoch, getValidationStepsPerEpoch = parameter(
        "validation_steps_per_epoch", "steps of validation in an epoch"
    )
    transformation_fn, setTransformationFn, getTransformationFn = parameter(
        "transformation_fn", "function that is applied to each row group before training"
    )
    transformation_edit_fields, setTransformationEditFields, getTransformationEditFields = parameter(
        "transformation_edit_fields", "fields that transformation_fn changes or adds"
    )
    transformation_removed_fields, setTransformationRemovedFields, getTransformationRemovedFields = parameter(
        "transformation_removed_fields", "fields that transformation_fn removes"
    )
    train_reader_num_workers, setTrainReaderNumWorker, getTrainReaderNumWorker = parameter(
        "train_reader_num_workers", "readers of each process for training", 2
    )
    val_reader_num_workers, setValReaderNumWorker, getValReaderNumWorker = parameter(
        "val_reader_num_workers", "readers of each process for validation", 2
    )
    reader_pool_type, setReaderPoolType, getReaderPoolType = parameter(
        "reader_pool_type", "kind of the readers' pool: thread, process or dummy", "thread"
    )
    label_shapes, setLabelShapes, getLabelShapes = parameter(
        "label_shapes", "shape of each label column, with -1 for the rows"
    )
    inmemory_cache_all, setInMemoryCacheAll, getInMemoryCacheAll = parameter(
        "inmemory_cache_all", "keep all rows of a process in its memory", False
    )
    use_gpu, setUseGpu, getUseGpu = parameter("use_gpu", "train on GPUs where there are some", True)
    mp_start_method, setMpStartMethod, getMpStartMethod = parameter(
        "mp_start_method", "how processes start further processes", converter=check_start_method
    )
    backward_passes_per_step, setBackwardPassesPerStep, getBackwardPassesPerStep = parameter(
        "backward_passes_per_step", "batches that make up a step", 1, check_passes
    )
    (
        tensorflow_dataset_prefetch_buffer_size,
        setTensorflowDatasetPrefetchBufferSize,
        getTensorflowDatasetPrefetchBufferSize,
    ) = parameter("tensorflow_dataset_prefetch_buffer_size", "batches that a TensorFlow data set prepares ahead", 0)

    def getValBatchSize(self) -> int:
        """The value of the parameter ``val_batch_size``; by default that of ``batch_size``."""
        return self._get_val_batch_size() or self.getBatchSize()

    def setShufflingBufferSize(self, value: Any) -> Any:
        """Sets the deprecated parameter ``shuffle_buffer_size``, with a ``DeprecationWarning``."""
        warn_of_shuffle_buffer_size(value)
        return self._set_shuffle_buffer_size(value)


def warn_of_shuffle_buffer_size(value: Any) -> None:
    """Warns of the deprecated parameter unless it is None."""
    if value is not None:
        warnings.warn(
            "shuffle_buffer_size is deprecated: set shuffle to turn shuffling on or off",
            DeprecationWarning,
            stacklevel=3,
        )


class ModelParams(GivenParams, HasOutputCols):
    """The parameters that all models have."""

    history, setHistory, getHistory = parameter("history", "the loss and the metrics of each epoch")
    model, setModel, getModel = parameter("model", "the trained model")
    feature_columns, setFeatureColumns, getFeatureColumns = parameter(
        "feature_columns", "columns that are the inputs of the model, in order"
    )
    label_columns, setLabelColumns, getLabelColumns = parameter(
        "label_columns", "columns that are the labels, in the order of the model's outputs"
    )
    run_id, setRunId, getRunId = parameter("run_id", "name of the run in the store")
    _metadata, _set_metadata, _get_metadata = parameter("_metadata", "type and shape of each column")
    setLabelColoumns = setLabelColumns

    def setOutputCols(self, value: List[str]) -> Any:
        """Sets the names of the columns with the predictions, one for each label, and returns the object itself."""
        return self._set(outputCols=value)

    def getOutputCols(self) -> List[str]:
        """The names of the columns with the predictions; by default each label's name followed by ``__output``."""
        if self.isSet(self.outputCols):
            return list(self.getOrDefault(self.outputCols))
        return [f"{label}__output" for label in self.getLabelColumns() or []]
