"""Names and equivalents of Spark's data types in Python, NumPy and PyArrow.

Types of Spark may be given as classes (``LongType``) or as objects (``LongType()``).
"""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
from pyspark.ml.linalg import DenseVector, SparseVector, VectorUDT
from pyspark.sql import types

VECTORS = (VectorUDT, DenseVector, SparseVector)
_NAMES = {
    VectorUDT: "Vector",
    DenseVector: "Vector",
    SparseVector: "Vector",
    types.ByteType: "Byte",
    types.ShortType: "Short",
    types.IntegerType: "Int",
    types.LongType: "Long",
    types.FloatType: "Float",
    types.DoubleType: "Double",
    types.DecimalType: "Double",
    types.BooleanType: "Boolean",
    types.StringType: "String",
    types.BinaryType: "Binary",
    types.DateType: "Date",
    types.TimestampType: "Timestamp",
    types.NullType: "Null",
    types.ArrayType: "Array",
}
_NUMPY_NAMES = {
    np.dtype(np.int8): "Byte",
    np.dtype(np.int16): "Short",
    np.dtype(np.int32): "Int",
    np.dtype(np.int64): "Long",
    np.dtype(np.float32): "Float",
    np.dtype(np.float64): "Double",
    np.dtype(np.uint8): "Binary",
    np.dtype(np.bool_): "Boolean",
}
_PYTHON: Dict[type, type] = {
    types.ByteType: int,
    types.ShortType: int,
    types.IntegerType: int,
    types.LongType: int,
    types.FloatType: float,
    types.DoubleType: float,
    types.DecimalType: float,
    types.BooleanType: bool,
    types.StringType: str,
    types.BinaryType: bytes,
}
_NUMPY = {
    VectorUDT: np.float64,
    DenseVector: np.float64,
    SparseVector: np.float64,
    types.ArrayType: np.float64,
    types.ByteType: np.int8,
    types.ShortType: np.int16,
    types.IntegerType: np.int32,
    types.LongType: np.int64,
    types.FloatType: np.float32,
    types.DoubleType: np.float64,
    types.DecimalType: np.float64,
    types.BooleanType: np.bool_,
    types.StringType: np.str_,
    types.BinaryType: np.uint8,
    types.DateType: np.int32,
    types.TimestampType: np.int64,
    types.NullType: np.float64,
}


def class_of(dtype: Any) -> type:
    """The class of a type of Spark that may be given as an object."""
    return dtype if isinstance(dtype, type) else type(dtype)


def _look_up(table: Dict[Any, Any], dtype: Any) -> Any:
    for each in class_of(dtype).__mro__:
        if each in table:
            return table[each]
    known = ", ".join(sorted({each.__name__ for each in table}))
    raise ValueError(f"unknown data type {dtype}; the types that columns may have here: {known}")


def data_type_to_str(dtype: Any) -> str:
    """A short name of a type of Spark, such as ``"Long"`` or ``"Vector"``.

    :raises ValueError: the type is unknown
    """
    return str(_look_up(_NAMES, dtype))


def numpy_type_to_str(dtype: Any) -> str:
    """The short name of a type of NumPy, such as ``"Long"``.

    :raises ValueError: the type is unknown
    """
    name = _NUMPY_NAMES.get(np.dtype(dtype))
    if name is None:
        raise ValueError(f"unknown data type {dtype}; known are {', '.join(map(str, _NUMPY_NAMES))}")
    return name


def spark_scalar_to_python_type(dtype: Any) -> type:
    """The class of Python's values of a scalar type of Spark.

    :raises ValueError: the type is unknown or not scalar
    """
    found: type = _look_up(_PYTHON, dtype)
    return found


def data_type_to_numpy(dtype: Any) -> Any:
    """The type of the elements of a column in a batch, before it is widened for null values.

    :raises ValueError: the type is unknown
    """
    return _look_up(_NUMPY, dtype)


def pyarrow_to_spark_data_type(dtype: Any) -> type:
    """The class of Spark's type that holds the values of a PyArrow type.

    :raises ValueError: columns of this type cannot be features or labels
    """
    from pyarrow import types as arrow

    from farandole.spark.reading.columns import is_list

    tests: List[Any] = [
        (arrow.is_boolean, types.BooleanType),
        (arrow.is_int8, types.ByteType),
        (lambda each: arrow.is_int16(each) or arrow.is_uint8(each), types.ShortType),
        (lambda each: arrow.is_int32(each) or arrow.is_uint16(each), types.IntegerType),
        (arrow.is_integer, types.LongType),
        (lambda each: arrow.is_float16(each) or arrow.is_float32(each), types.FloatType),
        (arrow.is_floating, types.DoubleType),
        (arrow.is_decimal, types.DecimalType),
        (lambda each: arrow.is_string(each) or arrow.is_large_string(each), types.StringType),
        (lambda each: arrow.is_binary(each) or arrow.is_large_binary(each), types.BinaryType),
        (arrow.is_fixed_size_binary, types.BinaryType),
        (arrow.is_date, types.DateType),
        (arrow.is_timestamp, types.TimestampType),
        (arrow.is_null, types.NullType),
        (is_list, types.ArrayType),
    ]
    if arrow.is_dictionary(dtype):
        return pyarrow_to_spark_data_type(dtype.value_type)
    for test, found in tests:
        if test(dtype):
            return found
    raise ValueError(f"a column of the type {dtype} cannot be a feature or a label; the guide lists the types that can")


def class_named(name: str) -> type:
    """The class of a type of Spark by its name, as metadata files have it."""
    for each in (DenseVector, SparseVector, VectorUDT):
        if each.__name__ == name:
            return each
    found = getattr(types, name, None)
    if not isinstance(found, type) or not issubclass(found, types.DataType):
        raise ValueError(f"{name!r} is not a data type of Spark")
    return found
