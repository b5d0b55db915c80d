"""Adds the predictions of a model to a DataFrame, row for row.

The predictor, that is, the model with the description of its inputs, is broadcast once. Each Python process of
Spark loads it once and keeps it for all partitions that it gets. Only the feature columns travel to Python; the other
columns stay where they are.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from farandole.spark.common.serialization import Encoded, unpickled

_MOST_KEPT = 4
_loaded: OrderedDict[str, Predictor] = OrderedDict()
"""The predictors that this process used last."""


class Predictor:
    """A model with its feature columns. A framework derives a class for its models; instances can be pickled.

    :param encoded: the model as bytes
    :param integer_columns: feature columns that the model gets as integers
    """

    def __init__(
        self, encoded: Encoded, feature_columns: Sequence[str], label_columns: Sequence[str], integer_columns: Any
    ) -> None:
        self.feature_columns = list(feature_columns)
        self._label_columns = list(label_columns)
        self._integer_columns = list(integer_columns or ())
        self._encoded = encoded
        self._model: Any = None

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_model": None}

    def predict(self, columns: List[Any]) -> List[Any]:
        """Predicts a batch.

        :param columns: an array of NumPy ``[rows, ...]`` for each feature column
        :return: an array of NumPy ``[rows, ...]`` for each label column
        """
        raise NotImplementedError


def with_predictions(frame: Any, content: bytes, features: Sequence[str], fields: Sequence[Any]) -> Any:
    """The DataFrame with a column for each label.

    :param frame: a DataFrame of Spark with the feature columns
    :param content: the pickled predictor
    :param features: the feature columns
    :param fields: for each label, a ``StructField`` with the name and the type of its column: a vector or a scalar
    """
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions

    from farandole.spark.common import statistics

    predict = _function(frame.sparkSession.sparkContext.broadcast(content), features, fields)
    arguments = [as_numbers(frame, name) for name in features]
    temporary = f"predictions_{uuid.uuid4().hex}"
    added = frame.withColumn(temporary, predict(*arguments))
    columns = [statistics.column(name) for name in frame.columns if name not in {each.name for each in fields}]
    for index, each in enumerate(fields):
        column = functions.col(f"{temporary}.c{index}" if len(fields) > 1 else temporary)
        columns.append((array_to_vector(column) if is_vector(each.dataType) else column).alias(each.name))
    return added.select(*columns)


def is_vector(data_type: Any) -> bool:
    """Whether a column of this type holds vectors of Spark ML."""
    return type(data_type).__name__ == "VectorUDT"


def row_shape(frame: Any, name: str) -> Optional[Sequence[int]]:
    """The shape of a value of a column; None if it is not known, because the DataFrame has no rows."""
    import numpy
    from pyspark.sql.types import ArrayType

    from farandole.spark.common import statistics

    data_type = frame.schema[name].dataType
    if not isinstance(data_type, ArrayType) and not is_vector(data_type):
        return ()
    column = statistics.column(name)
    row = frame.select(column).filter(column.isNotNull()).first()
    if row is None:
        return None
    return numpy.shape(row[0].toArray() if is_vector(data_type) else row[0])


def output_fields(
    schema: Any, labels: Sequence[str], names: Sequence[str], widths: Sequence[int], metadata: Dict[str, Any]
) -> List[Any]:
    """The fields of the columns with predictions: vectors where the label or the prediction has several numbers,
    otherwise the label's type, which is that of the DataFrame unless the metadata of the training have it.

    :param schema: of the DataFrame
    :param names: the names of the columns, one for each label
    :param widths: how many numbers a prediction has, for each label
    """
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql.types import ArrayType, DoubleType, StructField, StructType

    from farandole.spark.common import util

    if all(label in metadata for label in labels):
        typed = util.get_spark_df_output_schema(StructType([]), labels, names, metadata).fields
    else:
        types = [schema[label].dataType if label in schema.names else DoubleType() for label in labels]
        typed = [StructField(name, each, True) for name, each in zip(names, types)]
    return [
        StructField(each.name, VectorUDT()) if width != 1 or isinstance(each.dataType, ArrayType) else each
        for each, width in zip(typed, widths)
    ]


def as_numbers(frame: Any, name: str) -> Any:
    """The feature column as the model got it in the training."""
    from pyspark.sql import functions
    from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

    from farandole.spark.common import statistics

    data_type = frame.schema[name].dataType
    if isinstance(data_type, DateType):
        return functions.datediff(statistics.column(name), functions.lit("1970-01-01").cast("date"))
    if isinstance(data_type, TimestampType):
        return functions.expr(f"unix_micros({statistics.quoted(name)})")
    if isinstance(data_type, TimestampNTZType):  # in Parquet files of other programs; counted as if it were in UTC
        return functions.expr(f"unix_micros(timestamp(concat(string({statistics.quoted(name)}), 'Z')))")
    return statistics.plain_form(name, data_type)


def _function(broadcast: Any, features: Sequence[str], fields: Sequence[Any]) -> Any:
    import pandas
    from pyspark.sql import types
    from pyspark.sql.functions import pandas_udf

    key = uuid.uuid4().hex
    plain = [types.ArrayType(types.DoubleType()) if is_vector(each.dataType) else each.dataType for each in fields]
    struct = types.StructType([types.StructField(f"c{index}", each) for index, each in enumerate(plain)])
    several = len(fields) > 1
    scalars = [None if isinstance(each, types.ArrayType) else each.typeName() for each in plain]

    def predict(batches):  # type: ignore[no-untyped-def]
        predictor = loaded(key, broadcast)
        for batch in batches:
            series = batch if isinstance(batch, tuple) else (batch,)
            arrays = [array_of(name, column) for name, column in zip(features, series)]
            found = frame_of(predictor.predict(arrays), scalars)
            yield found if several else found["c0"]  # a struct of a single column takes longer to convert

    # Spark reads the kind of the function from its annotations, and looks strings up in this module.
    inputs = Iterator[Tuple[pandas.Series, ...]] if len(features) > 1 else Iterator[pandas.Series]
    outputs = Iterator[pandas.DataFrame] if several else Iterator[pandas.Series]
    predict.__annotations__ = {"batches": inputs, "return": outputs}
    return pandas_udf(predict, returnType=struct if several else plain[0])


def loaded(key: str, broadcast: Any) -> Predictor:
    """The predictor of a broadcast value, which this process unpickles once."""
    predictor = _loaded.get(key)
    if predictor is None:
        predictor = unpickled(broadcast.value)
        _loaded[key] = predictor
        while len(_loaded) > _MOST_KEPT:
            _loaded.popitem(last=False)
    return predictor


def array_of(name: str, column: Any) -> Any:
    """The values of a column as an array ``[rows, ...]``; ``ValueError`` where rows differ in shape or are null."""
    import numpy

    values = column.to_numpy()
    if values.dtype != object:
        return values
    try:
        if len(values) > 0 and isinstance(values[0], numpy.ndarray) and values[0].dtype != object:
            return numpy.stack(values)  # refuses rows that are null, too
        return numpy.array([_nested(value) for value in values])
    except (TypeError, ValueError) as problem:
        raise ValueError(
            f"the rows of the feature column {name!r} cannot be put into one array ({problem}): each row must have the "
            "same number of elements, and none may be null"
        ) from None


def _nested(value: Any) -> Any:
    import numpy

    if value is None:
        raise ValueError("a row is null")
    if isinstance(value, (list, numpy.ndarray)):
        return (
            numpy.stack([_nested(item) for item in value]) if getattr(value, "dtype", None) in (None, object) else value
        )
    return value if isinstance(value, (bool, int)) else float(value)


def frame_of(predictions: Sequence[Any], scalars: Sequence[Optional[str]]) -> Any:
    """The predictions as a DataFrame of pandas.

    :param predictions: for each label an array ``[rows, ...]``
    :param scalars: for each label the name of the type of Spark of its column; None for a vector
    """
    import numpy
    import pandas

    columns: Dict[str, Any] = {}
    for index, (values, scalar) in enumerate(zip(predictions, scalars)):
        rows = values.reshape(len(values), -1)
        if scalar is None:
            columns[f"c{index}"] = list(rows.astype(numpy.float64))
        else:
            columns[f"c{index}"] = _scalars(rows.reshape(-1), scalar)
    return pandas.DataFrame(columns)


_INTEGERS = {"byte": "int8", "short": "int16", "integer": "int32", "long": "int64"}


def _scalars(values: Any, scalar: str) -> Any:
    """A prediction for a label that is an integer or a boolean is rounded."""
    import numpy

    if scalar in _INTEGERS:
        return numpy.rint(values).astype(_INTEGERS[scalar])
    if scalar == "boolean":
        return numpy.rint(values) != 0
    return values.astype("float32" if scalar == "float" else "float64")
