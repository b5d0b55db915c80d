"""Turns columns of Arrow into NumPy arrays that can be batched.

| column | array |
| --- | --- |
| numbers, booleans | the same type, shape (rows,); with null values in the data set: float64 with NaN |
| decimal | float64 |
| date | int32, days since 1970-01-01 |
| timestamp | int64, microseconds since 1970-01-01 in UTC |
| arrays of one length, nested ones too | (rows, length, ...) of the elements' type |
| arrays of several lengths | an object array of arrays |
| vectors, as prepared data has them | float64, (rows, size) |
| strings, bytes | an object array |
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from farandole.spark.common.constants import CUSTOM_SPARSE

Columns = Dict[str, np.ndarray]


def is_list(dtype: pa.DataType) -> bool:
    """Whether the type is a list of any kind."""
    return bool(types.is_list(dtype) or types.is_large_list(dtype) or types.is_fixed_size_list(dtype))


def rows_of(columns: Mapping[str, Any]) -> int:
    """The number of rows."""
    return len(next(iter(columns.values()))) if columns else 0


class ColumnDecoder:
    """Turns the pieces of one column into arrays that fit together.

    :param entry: the metadata of the column, if the data was prepared
    :param has_nulls: whether some row of the data set is null
    """

    def __init__(self, name: str, entry: Optional[Mapping[str, Any]] = None, has_nulls: bool = False) -> None:
        entry = entry or {}
        self._name = name
        self._size: Optional[int] = entry.get("shape")
        self._sparse = entry.get("intermediate_format") == CUSTOM_SPARSE
        self._has_nulls = has_nulls or entry.get("null_count", 0) > 0
        self._shape: Optional[Tuple[int, ...]] = None
        self._ragged = "shape" in entry and self._size is None

    def __call__(self, array: pa.Array) -> np.ndarray:
        """
        :raises ValueError: the column has values that cannot be batched; the message has the column and the shapes
        """
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if self._sparse:
            return self._unpacked(array)
        if is_list(array.type):
            return self._array(array)
        return self._scalars(array)

    def _array(self, array: pa.Array) -> np.ndarray:
        values: Any = array
        shape: List[int] = []
        while is_list(values.type):
            self._refuse_nulls(values)
            lengths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
            low, high = (int(lengths.min()), int(lengths.max())) if len(lengths) else (0, 0)
            if low != high and self._shape is not None:
                self._refuse_shape(low if low != self._shape[len(shape)] else high, len(shape))
            if low != high or self._ragged:
                self._ragged = True
                return self._objects(array)
            if self._shape is not None and len(lengths) and self._shape[len(shape)] != low:
                self._refuse_shape(low, len(shape))
            shape.append(low)
            values = values.flatten()
        if self._size is not None and int(np.prod(shape)) != self._size and len(array):
            raise ValueError(
                f"the column {self._name} has a row of the shape {tuple(shape)}, and its metadata has "
                f"{self._size} elements: prepare the data again"
            )
        self._shape = tuple(shape)
        return self._scalars(values).reshape(len(array), *shape)

    def _refuse_shape(self, length: int, dimension: int) -> None:
        assert self._shape is not None
        raise ValueError(
            f"the column {self._name} has rows of the shapes {self._shape} and, in dimension {dimension}, a row of "
            f"length {length}: give all rows the same length"
        )

    def _refuse_nulls(self, array: pa.Array) -> None:
        if array.null_count:
            raise ValueError(
                f"the column {self._name} of the type {array.type} has {array.null_count} null rows: "
                "fill or drop them before training"
            )

    def _objects(self, array: pa.Array) -> np.ndarray:
        result = np.empty(len(array), dtype=object)
        for row, value in enumerate(array.to_pylist()):
            result[row] = np.asarray(value)
        return result

    def _unpacked(self, array: pa.Array) -> np.ndarray:
        """Dense rows of the packed sparse vectors [n, n indices, n values]."""
        self._refuse_nulls(array)
        assert self._size is not None
        flat = array.flatten().to_numpy(zero_copy_only=False)
        lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
        starts = np.cumsum(lengths) - lengths
        counts = flat[starts].astype(np.int64)
        rows = np.repeat(np.arange(len(array)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        indices = flat[np.repeat(starts + 1, counts) + within].astype(np.int64)
        dense = np.zeros((len(array), self._size))
        dense[rows, indices] = flat[np.repeat(starts + 1 + counts, counts) + within]
        return dense

    def _scalars(self, array: pa.Array) -> np.ndarray:
        dtype = array.type
        if types.is_floating(dtype):
            return array.to_numpy(zero_copy_only=False)
        if types.is_null(dtype):
            return np.full(len(array), np.nan)
        if types.is_decimal(dtype):
            return array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if types.is_string(dtype) or types.is_large_string(dtype) or _is_bytes(dtype):
            return array.to_numpy(zero_copy_only=False)
        if types.is_date64(dtype):
            array = array.cast(pa.date32())
        if types.is_date(dtype):
            array = array.cast(pa.int32())
        elif types.is_timestamp(dtype):
            array = array.cast(pa.timestamp("us", dtype.tz), safe=False).cast(pa.int64())
        elif not types.is_integer(dtype) and not types.is_boolean(dtype):
            raise ValueError(
                f"the column {self._name} has the type {dtype}, which cannot be a feature or a label: convert it to "
                "numbers or arrays in Spark, vectors by prepare_data"
            )
        if self._has_nulls:
            return array.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if array.null_count:
            self._refuse_nulls(array)
        return array.to_numpy(zero_copy_only=False)


def _is_bytes(dtype: pa.DataType) -> bool:
    return bool(types.is_binary(dtype) or types.is_large_binary(dtype) or types.is_fixed_size_binary(dtype))
