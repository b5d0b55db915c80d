"""Brings a DataFrame of Spark to the ranks that train on it: ``prepare_data`` writes it to a store once.

with prepare_data(4, store, df, label_columns=["y"], feature_columns=["x"], validation=0.1) as dataset_idx:
    train_rows, val_rows, metadata, avg_row_size = get_dataset_properties(dataset_idx)
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

from farandole.runner.common.util.host_hash import host_hash
from farandole.spark.common.checking import Validation, check_shape_compatibility, check_validation, to_list
from farandole.spark.common.constants import CUSTOM_SPARSE, DatasetIndex
from farandole.spark.common.data_types import (
    VECTORS,
    data_type_to_numpy,
    data_type_to_str,
    numpy_type_to_str,
    pyarrow_to_spark_data_type,
    spark_scalar_to_python_type,
)
from farandole.spark.common.environment import is_databricks
from farandole.spark.common.metadata import Metadata
from farandole.spark.common.parquet_metadata import get_simple_meta_from_parquet
from farandole.spark.common.prepared import DATASETS, Properties
from farandole.spark.common.preparing import Preparation, columns_of, write_dataset

__all__ = [
    "check_shape_compatibility",
    "check_validation",
    "clear_training_cache",
    "data_type_to_numpy",
    "data_type_to_str",
    "get_dataset_properties",
    "get_output_cols",
    "get_simple_meta_from_parquet",
    "get_spark_df_output_schema",
    "host_hash",
    "is_databricks",
    "numpy_type_to_str",
    "prepare_data",
    "pyarrow_to_spark_data_type",
    "spark_scalar_to_python_type",
    "to_list",
    "to_petastorm_fn",
]


@contextmanager
def prepare_data(
    num_processes: int,
    store: Any,
    df: Any,
    label_columns: Sequence[str],
    feature_columns: Sequence[str],
    validation: Validation = None,
    sample_weight_col: Optional[str] = None,
    compress_sparse: bool = False,
    partitions_per_process: int = 10,
    verbose: int = 0,
) -> Iterator[int]:
    """Writes a DataFrame to the store for training, unless this process has done so before with these arguments.

    The data stays in the store when the block has ended. ``clear_training_cache`` deletes it.

    :param num_processes: the number of ranks; it determines the number of files
    :param store: a ``Store``
    :param df: the DataFrame. Only the same object counts as the same frame
    :param label_columns: these may not be null
    :param feature_columns: null numbers, booleans and dates become NaN in float64; other features may not be null
    :param validation: the fraction of the rows that are for validation, chosen at random, or a column: true, or above
        0, in these rows. Rows where it is null are trained on
    :param sample_weight_col: a column with the weight of each row
    :param compress_sparse: whether to write columns that only have sparse vectors as indices and values
    :param partitions_per_process: the number of files per rank
    :param verbose: 1 to log the numbers of rows
    :return: the number of the data set
    :raises ValueError: columns are missing, have a type that cannot be trained on or are null; vectors have different
        sizes; ``validation`` is wrong; there are fewer rows to train on than ranks, or none to validate with
    :raises StoreError: the store cannot be written
    """
    preparation = Preparation(
        num_processes,
        columns_of(label_columns),
        columns_of(feature_columns),
        validation,
        sample_weight_col,
        compress_sparse,
        partitions_per_process,
    )
    preparation.check(df)
    key = (store.get_train_data_path(), store.get_val_data_path(), preparation)
    dataset_idx = DATASETS.enter(key, store, df, lambda: write_dataset(store, df, preparation, verbose))
    try:
        yield dataset_idx
    finally:
        DATASETS.leave(dataset_idx)


def get_dataset_properties(dataset_idx: DatasetIndex) -> Properties:
    """The properties of a data set that this process has prepared.

    :return: rows to train on, rows to validate with, the metadata of the columns, and the mean size of a row in bytes
    :raises ValueError: this process has not prepared a data set with this number
    """
    return DATASETS.properties(dataset_idx)


def clear_training_cache() -> None:
    """Forgets the data sets that this process has prepared, and deletes them from their stores.

    A data set in use, in a block of ``prepare_data`` or a fit, is deleted when its use has ended.
    """
    DATASETS.clear()


def to_petastorm_fn(schema_cols: Sequence[str], metadata: Metadata) -> Callable[[Any], Any]:
    """A function from a row of Spark to a row as prepared data has it.

    Vectors become lists, and those whose format in the metadata is ``custom_sparse_format`` become the list
    [n, n indices, n values]. Other values stay as they are.
    """
    packed = {name for name in schema_cols if metadata[name]["intermediate_format"] == CUSTOM_SPARSE}

    def to_petastorm(row: Any) -> Any:
        from pyspark.ml.linalg import DenseVector, SparseVector
        from pyspark.sql import Row

        fields: Dict[str, Any] = {}
        for name in schema_cols:
            value = row[name]
            if isinstance(value, (DenseVector, SparseVector)):
                dense = value.toArray()
                indices = dense.nonzero()[0]
                value = (
                    [float(len(indices)), *indices.astype(float).tolist(), *dense[indices].tolist()]
                    if name in packed
                    else dense.tolist()
                )
            fields[name] = value
        return Row(**fields)

    return to_petastorm


def get_output_cols(input_df_schema: Any, output_cols: Sequence[str]) -> List[str]:
    """The names of the columns of a frame after ``transform``: those of its input, then the output columns.

    An output column replaces a column of the input with its name.
    """
    return [name for name in input_df_schema.names if name not in output_cols] + list(output_cols)


def get_spark_df_output_schema(
    input_df_schema: Any, label_cols: Sequence[str], output_cols: Sequence[str], metadata: Metadata
) -> Any:
    """The schema of a frame after ``transform``: the columns of its input, and each output with its label's type.

    Vectors stay vectors, arrays are arrays of their label's elements.

    :raises ValueError: the numbers of labels and outputs differ
    """
    from pyspark.sql.types import StructField, StructType

    if len(label_cols) != len(output_cols):
        raise ValueError(f"there are {len(label_cols)} labels, {list(label_cols)}, and outputs {list(output_cols)}")
    fields = [field for field in input_df_schema.fields if field.name not in output_cols]
    for label, output in zip(label_cols, output_cols):
        fields.append(StructField(output, _output_type(metadata[label]), True))
    return StructType(fields)


def _output_type(entry: Dict[str, Any]) -> Any:
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import types

    kind: Union[type, Any] = entry["spark_data_type"]
    if kind in VECTORS:
        return VectorUDT()
    if kind is types.ArrayType:
        return types.ArrayType(entry.get("element_data_type", types.DoubleType)())
    if kind is types.DecimalType:
        return types.DoubleType()
    return kind()
