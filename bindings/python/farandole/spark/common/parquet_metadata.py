"""Metadata of Parquet data in a store, written by ``prepare_data`` or by other programs."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from farandole.spark.common.constants import DatasetIndex
from farandole.spark.common.metadata import FolderMetadata, Metadata, check_rows, entry_of
from farandole.spark.common.prepared import Properties, resolve_dataset

_SAMPLE_ROWS = 100


def get_simple_meta_from_parquet(
    store: Any,
    label_columns: Sequence[str],
    feature_columns: Sequence[str],
    sample_weight_col: Optional[str],
    dataset_idx: DatasetIndex = None,
) -> Properties:
    """The properties of the data at the store's train and validation path, or of a data set that was prepared.

    The shapes of arrays in data that was not prepared are those of the first rows. Files are not read otherwise, but
    their footers are.

    :param dataset_idx: the number of the data set; None for the data at the paths themselves or, if there is none, the
        data set that this process prepared last or the newest one of the store
    :return: rows to train on, rows to validate with, the metadata of the columns, and the mean size of a row in bytes
    :raises StoreError: there is no data
    :raises ValueError: a column is missing or has a type that cannot be trained on, a label is null, files do not fit
        together, or there are no rows to train on
    """
    from farandole.spark.reading.parquet import ParquetFolder

    dataset_idx = resolve_dataset(store, dataset_idx)
    weights = [sample_weight_col] if sample_weight_col else []
    columns = list(dict.fromkeys([*feature_columns, *label_columns, *weights]))
    path = store.get_train_data_path(dataset_idx)
    folder = ParquetFolder(store.get_localized_path(path), columns, filesystem=store.fs)
    if not folder.rows:
        raise ValueError(f"the Parquet data at {path} has no rows to train on, in {len(folder.dataset.files)} files")
    _refuse_nulls(folder, [*label_columns, *weights])
    val_path = store.get_val_data_path(dataset_idx)
    val_rows = 0
    if store.exists(val_path):
        val_folder = ParquetFolder(store.get_localized_path(val_path), columns, filesystem=store.fs)
        val_rows = val_folder.rows
        _refuse_nulls(val_folder, [*label_columns, *weights])
        _check_same_types(folder, val_folder, path, val_path)
    metadata_path = store.get_data_metadata_path(path)
    if store.exists(metadata_path):
        prepared = FolderMetadata.from_json(store.read(metadata_path).decode(), metadata_path)
        check_rows(path, folder.rows, prepared.rows)
        _check_prepared(columns, prepared.columns, path)
        return folder.rows, val_rows, {name: prepared.columns[name] for name in columns}, prepared.avg_row_size
    return folder.rows, val_rows, _metadata_of(folder), folder.bytes / folder.rows


def _check_prepared(columns: Sequence[str], prepared: Metadata, path: str) -> None:
    missing = [name for name in columns if name not in prepared]
    if missing:
        raise ValueError(
            f"the prepared data at {path} has no column {', '.join(missing)}; it has {', '.join(prepared)}: prepare "
            "the data with these columns"
        )


def _check_same_types(folder: Any, val_folder: Any, path: str, val_path: str) -> None:
    for own, other in zip(folder.schema, val_folder.schema):
        if own.type != other.type:
            raise ValueError(
                f"the column {own.name} has the type {own.type} in the data to train on at {path}, and {other.type} in "
                f"the data to validate with at {val_path}"
            )


def _refuse_nulls(folder: Any, columns: List[str]) -> None:
    nulls = folder.null_counts()
    for name in columns:
        if nulls[name]:
            raise ValueError(
                f"the label or sample weight column {name} is null in {nulls[name]} of {folder.rows} rows of the "
                f"Parquet data at {folder.path}: fill or drop these rows"
            )


def _metadata_of(folder: Any) -> Metadata:
    from farandole.spark.common.data_types import pyarrow_to_spark_data_type
    from farandole.spark.reading.columns import ColumnDecoder, is_list

    nulls = folder.null_counts()
    sample = folder.first_rows(_SAMPLE_ROWS).combine_chunks()
    metadata: Dict[str, Dict[str, Any]] = {}
    for field in folder.schema:
        try:
            kind = pyarrow_to_spark_data_type(field.type)
        except ValueError as problem:
            raise ValueError(f"{problem}: the column {field.name} of the Parquet data at {folder.path}") from problem
        if not is_list(field.type):
            metadata[field.name] = entry_of(kind, null_count=nulls[field.name])
            continue
        rows = ColumnDecoder(field.name)(sample.column(field.name).combine_chunks())
        shape = None if rows.dtype == object else int(rows[0].size)
        largest = max(row.size for row in rows)
        metadata[field.name] = entry_of(kind, shape, largest, element_data_type=_element_type(field.type))
    return metadata


def _element_type(dtype: Any) -> type:
    from farandole.spark.common.data_types import pyarrow_to_spark_data_type
    from farandole.spark.reading.columns import is_list

    while is_list(dtype):
        dtype = dtype.value_type
    return pyarrow_to_spark_data_type(dtype)
