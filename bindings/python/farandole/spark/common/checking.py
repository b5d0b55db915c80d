"""Checks of the columns, shapes and validation of a fit, before any rows are written or read."""

from __future__ import annotations

import math
from typing import Any, List, Mapping, Optional, Sequence, Union

Validation = Union[None, float, str]


def to_list(var: Any, length: int) -> Optional[List[Any]]:
    """A list of ``length`` values: a single value is repeated, a list must have this length, None stays None.

    :raises ValueError: the list has another length
    """
    if var is None:
        return None
    values = list(var) if isinstance(var, (list, tuple)) else [var]
    if len(values) == 1:
        return values * length
    if len(values) != length:
        raise ValueError(f"a list of {len(values)} values was given, and {length} are needed: {values}")
    return values


def outputs_per_label(outputs: Any, labels: Sequence[str]) -> List[Any]:
    """The outputs of a model as a list, one for each label.

    :param outputs: a single output, or a list, a tuple or a dict of outputs
    :raises ValueError: there is another number of outputs than of labels
    """
    several = list(outputs.values()) if isinstance(outputs, dict) else outputs
    several = list(several) if isinstance(several, (list, tuple)) else [several]
    if len(several) != len(labels):
        raise ValueError(
            f"the model returns {len(several)} outputs for {len(labels)} label columns ({', '.join(labels)}): it must "
            "return one for each"
        )
    return several


def check_validation(validation: Validation, df: Any = None) -> None:
    """
    :param validation: None, the fraction of the rows that are for validation, or the column that marks them
    :param df: the frame whose column is checked
    :raises ValueError: the fraction lies outside [0, 1), or the frame has no such column of booleans or integers
    """
    if validation is None:
        return
    if isinstance(validation, str):
        if df is not None:
            _check_validation_column(validation, df)
        return
    if isinstance(validation, bool) or not isinstance(validation, (int, float)):
        raise ValueError(
            f"validation is a fraction or the name of a column, not {validation!r} of the type "
            f"{type(validation).__name__}"
        )
    if not 0 <= validation < 1:
        raise ValueError(f"validation is a fraction of at least 0 and below 1, not {validation}")


def _check_validation_column(name: str, df: Any) -> None:
    from pyspark.sql.types import BooleanType, IntegralType

    if name not in df.columns:
        raise ValueError(f"the validation column {name} does not exist; the DataFrame has {', '.join(df.columns)}")
    dtype = df.schema[name].dataType
    if not isinstance(dtype, (BooleanType, IntegralType)):
        raise ValueError(
            f"the validation column {name} has the type {dtype.simpleString()}: it must have booleans, or integers "
            "that are above 0 in the rows for validation"
        )


def check_shape_compatibility(
    metadata: Mapping[str, Mapping[str, Any]],
    feature_columns: Sequence[str],
    label_columns: Sequence[str],
    input_shapes: Optional[Sequence[Sequence[int]]] = None,
    output_shapes: Optional[Sequence[Sequence[int]]] = None,
    label_shapes: Optional[Sequence[Optional[Sequence[int]]]] = None,
) -> None:
    """Compares the shapes of a model with the sizes of the columns.

    In a shape, the dimension of the batch is -1 or None, and other dimensions of -1 or None may have any size. Columns
    whose rows differ in size are not compared.

    :param metadata: that of the prepared data
    :param feature_columns: the columns for the inputs of the model, in their order
    :param label_columns: the columns for its outputs
    :param input_shapes: a shape for each input
    :param output_shapes: a shape for each output
    :param label_shapes: a shape for each label, used in place of the output's; they have no dimension of the batch
        unless it is -1 or None
    :raises ValueError: a number of shapes or a shape does not fit
    """
    _compare(metadata, "feature", feature_columns, "input_shapes", input_shapes)
    if label_shapes is not None:
        _compare(metadata, "label", label_columns, "label_shapes", label_shapes)
    else:
        _compare(metadata, "label", label_columns, "output_shapes", output_shapes)


def _compare(
    metadata: Mapping[str, Mapping[str, Any]],
    kind: str,
    columns: Sequence[str],
    argument: str,
    shapes: Optional[Sequence[Optional[Sequence[int]]]],
) -> None:
    missing = [name for name in columns if name not in metadata]
    if missing:
        raise ValueError(f"the data has no {kind} column {', '.join(missing)}; it has {', '.join(metadata)}")
    if shapes is None:
        return
    if len(shapes) != len(columns):
        raise ValueError(
            f"{argument} has {len(shapes)} shapes, {list(shapes)}, and there are {len(columns)} {kind} columns, "
            f"{list(columns)}"
        )
    for name, shape in zip(columns, shapes):
        size = metadata[name]["shape"]
        if shape is None or size is None:
            continue
        sizes = [shape] if isinstance(shape, int) else list(shape)
        known = math.prod(each for each in sizes if each is not None and each >= 0)
        free = sum(each is None or each < 0 for each in sizes)
        has_batch = free > 0 and (sizes[0] is None or sizes[0] < 0)
        fits = size == known if free == has_batch else known > 0 and size % known == 0
        if not fits:
            raise ValueError(
                f"the {kind} column {name} has {size} elements in a row, and the model's shape in {argument} is "
                f"{tuple(sizes)} with {known}: give the column or the model another shape"
            )
