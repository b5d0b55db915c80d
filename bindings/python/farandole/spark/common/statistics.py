"""Types, sizes and null values of the columns of a DataFrame of Spark, by one pass over its rows."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import DenseVector, SparseVector, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql import types

from farandole.spark.common.constants import ARRAY, CUSTOM_SPARSE
from farandole.spark.common.metadata import Metadata, entry_of

_SCALARS = (
    types.NumericType,
    types.BooleanType,
    types.StringType,
    types.BinaryType,
    types.DateType,
    types.TimestampType,
    types.NullType,
)
_NULL_AS_NAN = (types.NumericType, types.BooleanType, types.DateType, types.TimestampType, types.NullType)


def quoted(name: str) -> str:
    """The name of a column in Spark's SQL; it may have dots."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Any:
    """The column with this name."""
    return F.col(quoted(name))


def check_type(name: str, dtype: Any) -> None:
    """
    :raises ValueError: columns of this type cannot be features or labels
    """
    element = dtype
    while isinstance(element, types.ArrayType):
        element = element.elementType
    is_array = element is not dtype
    allowed = (types.NumericType, types.BooleanType) if is_array else (*_SCALARS, VectorUDT)
    if not isinstance(element, allowed) or (is_array and isinstance(element, types.DecimalType)):
        raise ValueError(
            f"the column {name} has the type {dtype.simpleString()}, which cannot be a feature or a label: convert it "
            "to numbers, strings, vectors, or arrays of integers, floats or booleans"
        )


def plain_form(name: str, dtype: Any) -> Any:
    """The column as Parquet holds it: vectors as arrays, decimals and columns without a type as doubles."""
    if isinstance(dtype, VectorUDT):
        return vector_to_array(column(name))
    if isinstance(dtype, (types.DecimalType, types.NullType)):
        return column(name).cast("double")
    return column(name)


def packed() -> Any:
    """The function of Spark from a vector to the array [n, n indices, n values] of its n elements that are not 0."""

    def pack(vector: Any) -> Optional[List[float]]:
        if vector is None:
            return None
        if hasattr(vector, "indices"):
            pairs = [(float(index), float(value)) for index, value in zip(vector.indices, vector.values) if value != 0]
        else:
            pairs = [(float(index), float(value)) for index, value in enumerate(vector.toArray()) if value != 0]
        return [float(len(pairs)), *[index for index, _ in pairs], *[value for _, value in pairs]]

    pack.__annotations__.clear()  # Spark would look for the type of a pandas function in them
    return F.udf(pack, types.ArrayType(types.DoubleType(), False))


def _is_sparse() -> Any:
    return F.udf(lambda vector: vector is not None and hasattr(vector, "indices"), types.BooleanType())


def collect(frame: Any, preparation: Any, split: str) -> Tuple[int, int, Metadata]:
    """Counts the rows and looks at all columns.

    :param split: the column of booleans that marks the rows for validation
    :return: rows to train on, rows to validate with, and the metadata
    :raises ValueError: a label is null, or rows of vectors have different sizes
    """
    wanted: List[Any] = [F.count(F.lit(1)), F.sum(column(split).cast("long"))]
    for name in preparation.columns:
        wanted += _wanted(name, frame.schema[name].dataType, preparation.compress_sparse)
    found = list(frame.agg(*[each.alias(str(index)) for index, each in enumerate(wanted)]).first())
    total, val_rows = found[0], found[1] or 0
    values = iter(found[2:])
    metadata: Metadata = {}
    required = {*preparation.label_columns, preparation.sample_weight_col}
    for name in preparation.columns:
        dtype = frame.schema[name].dataType
        own = [next(values) for _ in _wanted(name, dtype, preparation.compress_sparse)]
        nulls = own[0] or 0
        if nulls and name in required:
            kind = "label" if name in preparation.label_columns else "sample weight"
            raise ValueError(f"the {kind} column {name} is null in {nulls} of {total} rows: fill or drop these rows")
        if nulls and not isinstance(dtype, _NULL_AS_NAN):
            raise ValueError(
                f"the feature column {name} of the type {dtype.simpleString()} is null in {nulls} of {total} rows: "
                "fill or drop these rows"
            )
        metadata[name] = _entry(name, dtype, nulls, own[1:], preparation.compress_sparse)
    return total - val_rows, val_rows, metadata


def _wanted(name: str, dtype: Any, compress_sparse: bool) -> List[Any]:
    """Aggregates of a column: the number of null values, for arrays and vectors the smallest and largest sizes of each
    dimension, and for vectors that may be compressed, whether all are sparse and their largest number of elements."""
    wanted = [F.sum(column(name).isNull().cast("long"))]
    if isinstance(dtype, VectorUDT):
        size = F.size(vector_to_array(column(name)))
        wanted += [F.min(size), F.max(size)]
        if compress_sparse:
            elements = F.size(packed()(column(name))) / F.lit(2)
            wanted += [F.min(_is_sparse()(column(name)).cast("int")), F.max(elements.cast("int"))]
    elif isinstance(dtype, types.ArrayType):
        values = column(name)
        wanted += [F.min(F.size(values)), F.max(F.size(values))]
        while isinstance(dtype.elementType, types.ArrayType):
            sizes = F.transform(values, F.size)
            wanted += [F.min(F.array_min(sizes)), F.max(F.array_max(sizes))]
            dtype = dtype.elementType
            values = F.flatten(values)
    return wanted


def _entry(name: str, dtype: Any, nulls: int, found: List[Any], compress_sparse: bool) -> Dict[str, Any]:
    if isinstance(dtype, VectorUDT):
        return _vector_entry(name, found, compress_sparse)
    if isinstance(dtype, types.ArrayType):
        element = dtype.elementType
        while isinstance(element, types.ArrayType):
            element = element.elementType
        shape: Optional[int] = 1
        largest = 1
        for low, high in zip(found[::2], found[1::2]):
            low, high = low or 0, high or 0  # there is no size where the dimension before is empty
            largest *= high
            shape = shape * low if low == high and shape is not None else None
        return entry_of(types.ArrayType, shape, largest, element_data_type=type(element))
    return entry_of(type(dtype), null_count=nulls)


def _vector_entry(name: str, found: List[Any], compress_sparse: bool) -> Dict[str, Any]:
    low, high = found[:2]
    if low != high:
        raise ValueError(
            f"the column {name} has vectors of the sizes {low} and {high}: give all rows vectors of the same size"
        )
    if not compress_sparse:
        return entry_of(DenseVector, high, high, ARRAY)
    sparse_only, most = bool(found[2]), found[3]
    return entry_of(
        SparseVector if sparse_only else DenseVector,
        shape=high,
        max_size=most if sparse_only else high,
        intermediate_format=CUSTOM_SPARSE if sparse_only else ARRAY,
        sparse_only=sparse_only,
    )
