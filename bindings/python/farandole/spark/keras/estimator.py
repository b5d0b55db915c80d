"""The estimator for models of Keras, and the trained model as a transformer of Spark ML."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from pyspark.ml.util import MLReadable, MLWritable

from farandole.spark.common.estimator import HorovodEstimator, HorovodModel
from farandole.spark.common.params import GivenParams, parameter, warn_of_shuffle_buffer_size
from farandole.spark.common.serialization import Codec, HorovodParamsReader, HorovodParamsWriter
from farandole.spark.keras.formats import KerasCodec


class KerasEstimatorParamsWriter(HorovodParamsWriter):
    """Saves an object with parameters of Keras."""

    _codec: Codec = KerasCodec()


class KerasEstimatorParamsReader(HorovodParamsReader):
    """Loads an object that ``KerasEstimatorParamsWriter`` has saved."""

    _codec: Codec = KerasEstimatorParamsWriter._codec


class KerasEstimatorParamsWritable(MLWritable):
    """An estimator or a model that can be saved: ``object.write().overwrite().save(path)``."""

    def write(self) -> KerasEstimatorParamsWriter:
        """The writer of this object."""
        return KerasEstimatorParamsWriter(self)


class KerasEstimatorParamsReadable(MLReadable):
    """A class of estimators or models that can be loaded: ``KerasEstimator.load(path)``."""

    @classmethod
    def read(cls) -> KerasEstimatorParamsReader:
        """The reader of objects of this class."""
        return KerasEstimatorParamsReader(cls)


class KerasParams(GivenParams):
    """The parameter that estimators of models of Keras and their models have in common."""

    custom_objects, setCustomObjects, getCustomObjects = parameter(
        "custom_objects", "classes and functions that the model refers to, by name", {}
    )


class KerasEstimator(KerasParams, HorovodEstimator, KerasEstimatorParamsReadable, KerasEstimatorParamsWritable):
    """Trains a model of Keras on a DataFrame.

    The model is called with a tensor for each feature column, and returns a tensor for each label column. The learning
    rate of the optimizer is that of a single process; training multiplies it by the number of processes.

    :param num_proc: number of processes that train; by default Spark's default parallelism
    :param data_module: class that reads the data on each rank; by default ``PetastormDataModule``
    :param model: a ``tf.keras.Model``; it stays unchanged
    :param backend: runs the processes; excludes ``num_proc``
    :param store: the store of intermediate data and runs
    :param custom_objects: classes and functions that the model refers to, by name
    :param optimizer: an optimizer of Keras, or its name; it stays unchanged. By default that of a compiled model
    :param loss: a loss of Keras, a function or its name, or a list with one for each label. By default that of a
        compiled model
    :param loss_weights: a factor for the loss of each label
    :param sample_weight_col: the column with the weight of each row
    :param gradient_compression: such as ``hvd.Compression.fp16``
    :param metrics: metrics of Keras; one list for all labels, or a list of lists
    :param feature_cols: columns that are the inputs of the model
    :param label_cols: columns that are the labels, in the order of the model's outputs
    :param continuous_cols: feature columns with continuous values
    :param categorical_cols: feature columns that a model of a user's class gets as integers
    :param validation: fraction of the rows in [0, 1), or name of a column that marks the rows to validate with
    :param callbacks: callbacks of Keras; every process calls them
    :param batch_size: rows of each process in a step, 32 by default
    :param val_batch_size: the same for validation
    :param epochs: passes through the data
    :param run_id: name of the run; a run that is in the store is resumed
    :param label_shapes: for each label a shape, with -1 for the rows
    :param checkpoint_callback: a ``BestModelCheckpoint`` or ``ModelCheckpoint``. If it saves the best model only,
        ``fit`` returns that model, otherwise the last one
    :param backend_env: variables for the environment of the processes
    """

    _package = "farandole.spark.keras"

    checkpoint_callback, setCheckpointCallback, getCheckpointCallback = parameter(
        "checkpoint_callback", "callback that writes checkpoints of the model"
    )
    backend_env, setBackendEnv, getBackendEnv = parameter(
        "backend_env", "variables for the environment of the processes", {"LIBHDFS_OPTS": "-Xms2048m -Xmx2048m"}
    )

    def __init__(
        self,
        num_proc: Any = None,
        data_module: Any = None,
        model: Any = None,
        backend: Any = None,
        store: Any = None,
        custom_objects: Any = None,
        optimizer: Any = None,
        loss: Any = None,
        loss_weights: Any = None,
        sample_weight_col: Any = None,
        gradient_compression: Any = None,
        metrics: Any = None,
        feature_cols: Any = None,
        label_cols: Any = None,
        continuous_cols: Any = None,
        categorical_cols: Any = None,
        validation: Any = None,
        callbacks: Any = None,
        batch_size: Any = None,
        val_batch_size: Any = None,
        epochs: Any = None,
        verbose: Any = None,
        random_seed: Any = None,
        shuffle_buffer_size: Any = None,
        shuffle: Any = True,
        partitions_per_process: Any = None,
        run_id: Any = None,
        train_steps_per_epoch: Any = None,
        validation_steps_per_epoch: Any = None,
        transformation_fn: Any = None,
        train_reader_num_workers: Any = None,
        val_reader_num_workers: Any = None,
        reader_pool_type: Any = "thread",
        label_shapes: Any = None,
        checkpoint_callback: Any = None,
        inmemory_cache_all: Any = False,
        backend_env: Any = None,
        use_gpu: Any = True,
        mp_start_method: Any = None,
        tensorflow_dataset_prefetch_buffer_size: Any = 0,
    ) -> None:
        given = dict(locals())
        super().__init__()
        warn_of_shuffle_buffer_size(shuffle_buffer_size)
        self._set_given(given)

    def get_model_shapes(self) -> Tuple[Any, Any]:
        """The shapes of the model's inputs and outputs, with None for the rows; None in place of a list where the
        model declares none, such as a model of a user's class."""
        from farandole.spark.keras.columns import inputs_of, outputs_of

        symbols = (inputs_of(self.getModel()), outputs_of(self.getModel()))
        inputs, outputs = [None if each is None else [tuple(one.shape) for one in each] for each in symbols]
        return inputs, outputs

    def get_model_class(self) -> Any:
        """The class of the trained models."""
        return KerasModel

    def _check_framework(self) -> None:
        from farandole.spark.keras.checks import check_framework

        check_framework(self)

    def _environment(self) -> Dict[str, str]:
        from farandole.spark.keras.checks import variables_for

        return variables_for(self)

    def _check_metadata_compatibility(self, metadata: Dict[str, Any]) -> None:
        from farandole.spark.keras.checks import check_metadata

        check_metadata(self, metadata)

    def _values_for_plan(self) -> Dict[str, Any]:
        # The objects of Keras have variables, which cannot be pickled: they are sent with the model.
        values = super()._values_for_plan()
        return {name: value for name, value in values.items() if name not in ("loss", "metrics")}

    def _prepare(self, run_id: str) -> Any:
        from farandole.spark.keras.checks import given_or_compiled
        from farandole.spark.keras.training import prepare

        return prepare(
            self.getModel(),
            given_or_compiled(self, "optimizer"),
            given_or_compiled(self, "loss"),
            self.getMetrics(),
            self.getCustomObjects(),
            self.getStore(),
            run_id,
        )

    def _returned(self, training: Any, result: Any) -> Dict[str, Any]:
        from farandole.spark.keras.formats import keras_named
        from farandole.spark.keras.training import returned

        model, history = returned(training, result, self.getLabelCols(), self.getLossWeights())
        floatx = keras_named(training.root).backend.floatx()
        return {"history": history, "model": model, "custom_objects": self.getCustomObjects(), "_floatx": floatx}


class KerasModel(KerasParams, HorovodModel, KerasEstimatorParamsReadable, KerasEstimatorParamsWritable):
    """A trained model of Keras, which adds predictions to DataFrames.

    ``getHistory()`` returns a dict with a list of the values of all epochs for the loss and each metric; the names for
    the rows to validate with begin with ``val_``.
    """

    _floatx, _set_floatx, _get_floatx = parameter(
        "_floatx", "the floating-point type of Keras with which the model was trained"
    )

    def __init__(
        self,
        history: Any = None,
        model: Any = None,
        feature_columns: Any = None,
        label_columns: Any = None,
        custom_objects: Any = None,
        run_id: Any = None,
        _metadata: Any = None,
        _floatx: Any = None,
    ) -> None:
        given = dict(locals())
        super().__init__()
        self._set_given(given)

    def _predictor(self) -> Any:
        from farandole.spark.keras.predicting import KerasPredictor

        return KerasPredictor(
            self.getModel(),
            self.getFeatureColumns(),
            self.getLabelColumns(),
            self.getCustomObjects(),
            self._get_integer_columns(),
            self._get_floatx(),
        )
