"""Applies a user's function to pieces of rows as pandas frames."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from farandole.spark.reading.columns import Columns, rows_of

EditedField = Tuple[str, Any, Tuple[int, ...], bool]
"""Name, NumPy type, shape of a row, and whether it may be null, of a field that the function adds or changes."""


class Transformation:
    """A function from a pandas frame to a pandas frame with as many rows, with a row per example.

    Columns of arrays have an array in each cell, in the frame that is given and in the one that is returned.

    :param function: the user's function; None changes no values
    :param edit_fields: the fields that the function adds or changes; they get this type and shape
    :param removed_fields: the fields that are left out of the batches
    """

    def __init__(
        self,
        function: Optional[Callable[[Any], Any]],
        edit_fields: Optional[Sequence[EditedField]] = None,
        removed_fields: Optional[Sequence[str]] = None,
    ) -> None:
        self._function = function
        self._edited: Dict[str, EditedField] = {field[0]: tuple(field) for field in edit_fields or []}
        self._removed = set(removed_fields or [])
        self._types: Dict[str, Tuple[Any, Tuple[int, ...]]] = {}
        """Type and shape of each field in the first piece of rows."""

    def __call__(self, columns: Columns) -> Columns:
        """
        :raises ValueError: the function returned another number of rows, a field without its shape, or a field whose
            type differs from that in earlier rows
        """
        rows = rows_of(columns)
        if self._function is not None:
            columns = self._transformed(columns, rows)
        missing = self._removed - columns.keys() if self._function is None else set()
        if missing:
            raise ValueError(
                f"transformation_removed_fields has {sorted(missing)}, and the rows have {sorted(columns)}"
            )
        columns = {name: array for name, array in columns.items() if name not in self._removed}
        for name, array in columns.items():
            found = (array.dtype, array.shape[1:])
            first = self._types.setdefault(name, found)
            if first != found:
                raise ValueError(
                    f"transformation_fn returned the field {name} with the type {first[0]} and the shape {first[1]} "
                    f"for some rows, and with {found[0]} and {found[1]} for others: list the field in "
                    "transformation_edit_fields"
                )
        return columns

    def _transformed(self, columns: Columns, rows: int) -> Columns:
        import pandas

        assert self._function is not None
        frame = pandas.DataFrame({name: list(each) if each.ndim > 1 else each for name, each in columns.items()})
        result = self._function(frame)
        if not isinstance(result, pandas.DataFrame):
            raise ValueError(f"transformation_fn returned a {type(result).__name__}, not a pandas.DataFrame")
        if len(result) != rows:
            raise ValueError(
                f"transformation_fn was given {rows} rows and returned {len(result)}: ranks would take different "
                "numbers of steps. Filter or multiply rows in Spark, before training"
            )
        unknown = [name for name in self._edited if name not in result.columns and name not in self._removed]
        if unknown:
            raise ValueError(
                f"transformation_edit_fields has {unknown}, and transformation_fn returned {list(result.columns)}"
            )
        return {name: self._array(str(name), result[name]) for name in result.columns if name not in self._removed}

    def _array(self, name: str, series: Any) -> np.ndarray:
        values = series.to_numpy()
        if values.dtype == object and len(values) and isinstance(values[0], (np.ndarray, list, tuple)):
            shapes: List[Tuple[int, ...]] = sorted({np.shape(each) for each in values})
            if len(shapes) > 1:
                raise ValueError(
                    f"transformation_fn returned rows of the shapes {shapes[0]} and {shapes[-1]} in the field {name}: "
                    "give all rows the same shape"
                )
            values = np.stack([np.asarray(each) for each in values])
        if name not in self._edited:
            return values
        _, dtype, shape, _ = self._edited[name]
        expected = (len(values), *shape)
        if values.size != np.prod(expected):
            raise ValueError(
                f"transformation_edit_fields has the shape {tuple(shape)} for the field {name}, "
                f"and transformation_fn returned rows of the shape {values.shape[1:]}"
            )
        return values.reshape(expected).astype(dtype)
