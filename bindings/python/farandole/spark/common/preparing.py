"""Writes a DataFrame of Spark to a store as Parquet data for training."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from farandole.spark.common import statistics
from farandole.spark.common.checking import Validation, check_validation
from farandole.spark.common.constants import CUSTOM_SPARSE, ROW_GROUP_BYTES
from farandole.spark.common.metadata import FolderMetadata, Metadata
from farandole.spark.common.prepared import Properties
from farandole.spark.common.statistics import column
from farandole.spark.common.store_files import StoreError

_SPLIT = "__farandole_validation"
"""The column that marks the rows for validation while they are written."""
_SPLIT_SEED = 20240229
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Preparation:
    """The arguments of ``prepare_data`` that determine the data that is written."""

    num_processes: int
    label_columns: Tuple[str, ...]
    feature_columns: Tuple[str, ...]
    validation: Validation
    sample_weight_col: Optional[str]
    compress_sparse: bool
    partitions_per_process: int

    @property
    def columns(self) -> List[str]:
        """The columns that are written, each once."""
        weights = [self.sample_weight_col] if self.sample_weight_col else []
        return list(dict.fromkeys([*self.feature_columns, *self.label_columns, *weights]))

    def check(self, df: Any) -> None:
        """
        :raises ValueError: a column is missing or has a type that cannot be trained on, or a number is wrong
        """
        for name, number in (
            ("num_processes", self.num_processes),
            ("partitions_per_process", self.partitions_per_process),
        ):
            if number < 1:
                raise ValueError(f"{name} is a number above 0, not {number}")
        for kind, names in (
            ("feature", self.feature_columns),
            ("label", self.label_columns),
            ("sample weight", [self.sample_weight_col] if self.sample_weight_col else []),
        ):
            missing = [name for name in names if name not in df.columns]
            if missing:
                raise ValueError(
                    f"the {kind} column {', '.join(missing)} does not exist; the DataFrame has {', '.join(df.columns)}"
                )
        check_validation(self.validation, df)
        for name in self.columns:
            statistics.check_type(name, df.schema[name].dataType)


def new_dataset_index() -> int:
    """A number that no other process gets, greater than those given before: microseconds and three random digits."""
    return time.time_ns() // 1000 * 1000 + secrets.randbelow(1000)


def write_dataset(store: Any, df: Any, preparation: Preparation, verbose: int = 0) -> Tuple[int, Properties]:
    """Writes the rows to train on and to validate with, and then their metadata, which marks them as complete.

    :return: the number of the data set and its properties
    :raises ValueError: a label is null, rows of a column do not fit together, or there are no rows to train on
    :raises StoreError: the store cannot be written
    """
    store.check_writable()
    idx = new_dataset_index()
    try:
        with _kept(_marked(df, preparation)) as frame:
            rows, val_rows, metadata = statistics.collect(frame, preparation, _SPLIT)
            _check_rows(rows, val_rows, preparation)
            if verbose:
                _LOG.info("prepare_data writes %d rows to train on and %d to validate with", rows, val_rows)
            if val_rows:
                path = store.get_val_data_path(idx)
                size = _write(store, frame, True, path, val_rows, preparation, metadata)
                store.write_text(store.get_data_metadata_path(path), _text(val_rows, 0, size, metadata))
            path = store.get_train_data_path(idx)
            size = _write(store, frame, False, path, rows, preparation, metadata)
            store.write_text(store.get_data_metadata_path(path), _text(rows, val_rows, size, metadata))
    except BaseException:
        try:
            store.delete_dataset(idx)
        except Exception as problem:  # the first error says more
            _LOG.warning("the incomplete data set %d of the store could not be deleted: %s", idx, problem)
        raise
    return idx, (rows, val_rows, metadata, size)


def _text(rows: int, val_rows: int, avg_row_size: float, metadata: Metadata) -> str:
    return FolderMetadata(rows, avg_row_size, val_rows, metadata).to_json()


def _marked(df: Any, preparation: Preparation) -> Any:
    """The columns that are written, and the one that marks the rows for validation."""
    validation = preparation.validation
    if isinstance(validation, str):
        mark = F.coalesce(column(validation).cast("long") > 0, F.lit(False))
    elif validation:
        mark = F.rand(_SPLIT_SEED) < validation
    else:
        mark = F.lit(False)
    return df.select(*[column(name) for name in preparation.columns], mark.alias(_SPLIT))


@contextmanager
def _kept(frame: Any) -> Iterator[Any]:
    """Keeps the rows, so that a frame that is computed twice, or is random, is written as it was counted."""
    frame = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


def _check_rows(rows: int, val_rows: int, preparation: Preparation) -> None:
    total = rows + val_rows
    if rows < preparation.num_processes:
        raise ValueError(
            f"there are {rows} rows to train on for {preparation.num_processes} processes: the DataFrame has {total} "
            f"rows, and validation={preparation.validation!r} takes {val_rows} of them. Train on fewer processes or "
            "more rows"
        )
    if preparation.validation and not val_rows:
        raise ValueError(
            f"there are no rows to validate with: validation={preparation.validation!r} takes 0 of {total} rows. "
            "Give a greater fraction, a column that marks some rows, or no validation"
        )


def _write(
    store: Any, frame: Any, is_validation: bool, path: str, rows: int, preparation: Preparation, metadata: Metadata
) -> float:
    """Writes the rows of one kind and reads the footers of the files. Returns the mean size of a row in bytes."""
    from farandole.spark.reading.parquet import ParquetFolder

    partitions = max(1, min(rows, preparation.num_processes * preparation.partitions_per_process))
    chosen = frame.filter(column(_SPLIT) if is_validation else ~column(_SPLIT)).select(
        *[_written_form(frame, name, metadata).alias(name) for name in preparation.columns]
    )
    try:
        writer = chosen.repartition(partitions).write.option("parquet.block.size", ROW_GROUP_BYTES)
        writer.parquet(path_for_spark(path, _hadoop_setting))
    except Exception as problem:
        cause = str(problem).strip().partition("\n")[0]
        raise StoreError(
            f"Spark cannot write {path}: {cause}. Check that the executors can write there, and that there is space"
        ) from problem
    folder = ParquetFolder(store.get_localized_path(path), filesystem=store.fs)
    if folder.rows != rows:
        raise StoreError(
            f"Spark has written {rows} rows to {path}, and {folder.rows} are there: all executors and the driver must "
            "see the same files at this path"
        )
    return folder.bytes / rows


def _hadoop_setting(name: str) -> Optional[str]:
    """The value of a setting of Hadoop; None if it is not set."""
    value = SparkSession.builder.getOrCreate().sparkContext._jsc.hadoopConfiguration().get(name)
    return None if value is None else str(value)


_OTHER_SCHEMES = {"s3": "s3a", "gcs": "gs"}
"""Schemes of fsspec that Hadoop knows by another name, unless the cluster is configured for them."""


def path_for_spark(path: str, hadoop_setting: Callable[[str], Optional[str]]) -> str:
    """The path with the scheme by which Hadoop knows its filesystem."""
    scheme, separator, rest = path.partition("://")
    other = _OTHER_SCHEMES.get(scheme)
    return path if other is None or hadoop_setting(f"fs.{scheme}.impl") else f"{other}{separator}{rest}"


def _written_form(frame: Any, name: str, metadata: Metadata) -> Any:
    if metadata[name]["intermediate_format"] == CUSTOM_SPARSE:
        return statistics.packed()(column(name))
    return statistics.plain_form(name, frame.schema[name].dataType)


def columns_of(names: Optional[Sequence[str]]) -> Tuple[str, ...]:
    """A list of columns as a tuple; a single name counts as a list of one."""
    if names is None:
        return ()
    return (names,) if isinstance(names, str) else tuple(names)
