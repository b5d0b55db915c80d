"""Estimates how much memory rows take: from the footers of Parquet files before they are read, and from arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from farandole.spark.reading.columns import Columns, is_list, rows_of

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 8}
"""Bytes of a value in memory, by physical type."""
_OBJECT_BYTES = 64
"""Of a string as an object of Python, besides its characters."""


def has_unknown_size(chunk: Any) -> bool:
    """Whether the footer does not have the size of the values of a column chunk, because the file stores each different
    string only once (dictionary encoding)."""
    return chunk.physical_type == "BYTE_ARRAY" and any("DICTIONARY" in encoding for encoding in chunk.encodings)


def chunk_bytes(chunk: Any, value_bytes: float = 0) -> int:
    """About the memory that the values of a column chunk take.

    :param value_bytes: the mean size of a value, if a sample of the column was read
    """
    if chunk.physical_type in _WIDTHS:
        return int(chunk.num_values * _WIDTHS[chunk.physical_type])
    values = max(chunk.total_uncompressed_size, chunk.num_values * value_bytes)
    return int(chunk.num_values * _OBJECT_BYTES + values)


def mean_value_bytes(array: pa.Array) -> float:
    """The mean number of bytes of the strings in a column, which may be lists of strings; 0 for other columns."""
    while is_list(array.type):
        array = array.flatten()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        total = pc.sum(pc.binary_length(array)).as_py()
    except pa.ArrowNotImplementedError:  # it has no strings
        return 0.0
    return float((total or 0) / max(1, len(array)))


def row_bytes(columns: Columns) -> int:
    """The mean size of the rows in memory, with the objects to which they refer."""
    return max(1, sum(map(_array_bytes, columns.values())) // max(1, rows_of(columns)))


def _array_bytes(array: np.ndarray) -> int:
    return array.nbytes + (sum(map(sys.getsizeof, array.flat)) if array.dtype == object else 0)
