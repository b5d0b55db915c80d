"""The parts of estimators and of their models that are the same for all frameworks.

An estimator writes a DataFrame to its store, trains its model on several processes, and returns a model of Spark ML,
which adds predictions to DataFrames.
"""

from __future__ import annotations

import importlib
import math
import time
import uuid
from typing import Any, Dict, List, Optional

from pyspark.ml import Estimator, Model

from farandole.spark.common import estimator_checks
from farandole.spark.common.backend import Backend, SparkBackend
from farandole.spark.common.params import EstimatorParams, ModelParams, parameter
from farandole.spark.common.plan import Plan
from farandole.spark.common.predicting import output_fields, row_shape, with_predictions
from farandole.spark.common.serialization import pickled


class HorovodEstimator(Estimator, EstimatorParams):
    """The base class of estimators. A framework's class provides the training of its models.

    A subclass sets ``_package``, and overrides ``_prepare`` and ``_returned``; it may override ``_check_framework``,
    ``_check_metadata_compatibility`` and ``_environment``.
    """

    _package = ""
    """The package with the framework's modules ``datamodule``, ``remote`` and ``training``. The last part of its name
    begins the names of runs."""

    data_module, setDataModule, _get_data_module = parameter(
        "data_module", "class that reads the data on each rank; by default PetastormDataModule"
    )

    def fit(self, df: Any, params: Any = None) -> Any:
        """Trains on the rows of a DataFrame, and returns the trained model, or a list of models for a list of parameter
        maps. The estimator's model and optimizer stay unchanged.

        ``ValueError`` for parameters that do not fit together or to the DataFrame; ``RuntimeError`` with the rank, the
        host and the traceback when a process fails.

        :param df: a DataFrame of Spark with the feature and label columns
        :param params: parameters that replace those of the estimator for this fit, by ``Param``; or a list of such maps
        """
        return super().fit(df, params)

    def fit_on_parquet(self, params: Optional[Dict[Any, Any]] = None, dataset_idx: Optional[int] = None) -> Any:
        """Trains on Parquet data that is in the store already: at its ``train_path`` and ``val_path``, or prepared
        there by ``prepare_data``. Returns the trained model, and raises the errors of ``fit``.

        :param params: parameters that replace those of the estimator for this fit, by ``Param``
        :param dataset_idx: the number of the prepared data set
        """
        if params:
            return self.copy(params).fit_on_parquet(dataset_idx=dataset_idx)
        from farandole.spark.common import util

        backend = self._checked_backend()
        store = self.getStore()
        rows_and_metadata = util.get_simple_meta_from_parquet(
            store, self.getLabelCols(), self.getFeatureCols(), self.getSampleWeightCol(), dataset_idx
        )
        return self._fit_on_prepared_data(backend, *rows_and_metadata, dataset_idx)

    def _fit(self, dataset: Any) -> Any:
        from farandole.spark.common import util

        backend = self._checked_backend()
        if self.getVerbose():
            print(f"preparing the rows of the DataFrame in {self.getStore().get_train_data_path()}", flush=True)
        with util.prepare_data(
            backend.num_processes(),
            self.getStore(),
            dataset,
            label_columns=self.getLabelCols(),
            feature_columns=self.getFeatureCols(),
            validation=self.getValidation(),
            sample_weight_col=self.getSampleWeightCol(),
            compress_sparse=self.getCompressSparseCols(),
            partitions_per_process=self.getPartitionsPerProcess(),
            verbose=self.getVerbose(),
        ) as dataset_idx:
            return self._fit_on_prepared_data(backend, *util.get_dataset_properties(dataset_idx), dataset_idx)

    def _checked_backend(self) -> Backend:
        """The backend to train with, after the checks for which no data are needed."""
        estimator_checks.check_parameters(self)
        self._check_framework()
        backend = self.getBackend()
        return SparkBackend(self.getNumProc()) if backend is None else backend

    def _fit_on_prepared_data(
        self,
        backend: Backend,
        train_rows: int,
        val_rows: int,
        metadata: Dict[str, Any],
        avg_row_size: float,
        dataset_idx: Optional[int],
    ) -> Any:
        self._check_metadata_compatibility(metadata)
        store = self.getStore()
        framework = self._package.rpartition(".")[2]
        run_id = self.getRunId() or f"{framework}_{time.strftime('%Y%m%d_%H%M%S')}_{uuid.uuid4().hex[:6]}"
        training = self._prepare(run_id)
        estimator_checks.check_run_can_be_written(store, run_id, self)
        plan = Plan(
            run_id=run_id,
            remote_store=store.to_remote(run_id, dataset_idx),
            metadata=metadata,
            rows=(train_rows, val_rows),
            first_epoch=training.first_epoch,
            last_epoch=training.last_epoch(self.getEpochs()),
            params=self._values_for_plan(),
        )
        arguments = (self._package, pickled(plan, "the estimator"), training.content)
        if self.getVerbose():
            print(
                f"run {run_id}: starting {backend.num_processes()} processes to train on {train_rows} rows", flush=True
            )
        results = backend.run(_train, args=arguments, env=self._environment())
        result = next((each for each in results if each is not None), None)
        if result is None:
            raise RuntimeError(f"{type(backend).__name__}.run returned no result of rank 0, but {results!r}")
        return self.get_model_class()(
            feature_columns=self.getFeatureCols(),
            label_columns=self.getLabelCols(),
            run_id=run_id,
            _metadata=metadata,
            **self._returned(training, result),
        )._set_integer_columns(self.getCategoricalCols())

    def _values_for_plan(self) -> Dict[str, Any]:
        """The parameters that the training processes read. Those that are sent in another form are left out."""
        left_out = {"model", "optimizer", "backend", "store", "run_id", "epochs", "num_proc"}
        values = {each.name: self.getOrDefault(each) for each in self.params if each.name not in left_out}
        return {**values, "val_batch_size": self.getValBatchSize(), "data_module": self.getDataModule()}

    def getDataModule(self) -> Any:
        """The class that reads the data on each rank; by default ``PetastormDataModule``."""
        chosen = self._get_data_module()
        if chosen is None:
            return importlib.import_module(f"{self._package}.datamodule").PetastormDataModule
        return chosen

    def _environment(self) -> Dict[str, str]:
        """Variables for the environment of the training processes."""
        return {}

    def _check_framework(self) -> None:
        """Checks the parameters of the framework, without data; ``ValueError`` where they do not fit together."""

    def _check_metadata_compatibility(self, metadata: Dict[str, Any]) -> None:
        """``ValueError`` where the columns do not fit the model."""
        from farandole.spark.common import util

        util.check_shape_compatibility(
            metadata,
            self.getFeatureCols(),
            self.getLabelCols(),
            input_shapes=self.getOrDefault("input_shapes") if self.hasParam("input_shapes") else None,
            label_shapes=self.getLabelShapes(),
        )

    def _prepare(self, run_id: str) -> Any:
        """The model and the optimizer to train, copied from those of the estimator, or from the run if it exists."""
        raise NotImplementedError(f"{type(self).__name__} trains no models")

    def _returned(self, training: Any, result: Any) -> Dict[str, Any]:
        """The trained model, its history and the framework's other parameters of the model of Spark ML, by name.

        :param result: of rank 0
        """
        raise NotImplementedError(f"{type(self).__name__} trains no models")

    def get_model_class(self) -> Any:
        """The class of the trained models."""
        raise NotImplementedError(f"{type(self).__name__} trains no models")


def _train(package: str, plan_content: bytes, content: bytes) -> Optional[bytes]:
    """Trains on a rank. The trainer is imported there, because the driver needs no native library."""
    from farandole.spark.common.trainer import train

    return train(package, plan_content, content)


class HorovodModel(Model, ModelParams):
    """The base class of trained models. A framework's class provides the predictor."""

    integer_columns, _set_integer_columns, _get_integer_columns = parameter(
        "integer_columns", "feature columns that the model gets as integers"
    )

    def transform(self, df: Any, params: Optional[Dict[Any, Any]] = None) -> Any:
        """The DataFrame with the predictions, row for row, in a new column for each label: ``<label>__output``, or the
        names of ``setOutputCols``.

        A column has vectors if the label has vectors or the model returns several numbers for a row, and otherwise the
        label's type; a prediction for a label of an integer type is rounded. ``ValueError`` where a feature column is
        missing or the model does not return an output for each label.

        :param df: a DataFrame of Spark with the feature columns
        :param params: parameters that replace those of the model for this call, by ``Param``
        """
        return super().transform(df, params)

    def _transform(self, dataset: Any) -> Any:
        features, labels, names = self.getFeatureColumns(), self.getLabelColumns(), self.getOutputCols()
        estimator_checks.check_output_columns(labels, names)
        missing = [name for name in features if name not in dataset.columns]
        if missing:
            raise ValueError(
                f"feature columns are missing in the DataFrame: {', '.join(missing)}; it has the columns "
                f"{', '.join(dataset.columns)}"
            )
        predictor = self._predictor()
        widths = self._widths(predictor, dataset)
        fields = output_fields(dataset.schema, labels, names, widths, self._get_metadata() or {})
        return with_predictions(dataset, pickled(predictor, "the model"), features, fields)

    def _predictor(self) -> Any:
        """The ``Predictor`` of the model."""
        raise NotImplementedError(f"{type(self).__name__} makes no predictions")

    def _widths(self, predictor: Any, dataset: Any) -> List[int]:
        """How many numbers the model returns for a row, for each label, found by a prediction for a row of zeros, or
        for the first row if the shape of a column is unknown."""
        import numpy

        shapes = [row_shape(dataset, name) for name in predictor.feature_columns]
        if any(shape is None for shape in shapes):
            return [1] * len(self.getLabelColumns())
        outputs = predictor.predict([numpy.zeros([1, *shape]) for shape in shapes])  # type: ignore[misc]
        return [math.prod(each.shape[1:]) for each in outputs]
