"""The metadata of prepared data: for each column its type, its shape and how it was written.

A column's entry has these keys:

    spark_data_type         the class of Spark's type; ``DenseVector`` or ``SparseVector`` for vectors
    is_sparse_vector_only   whether all values are sparse vectors
    intermediate_format     ``array`` or ``custom_sparse_format`` for vectors, otherwise ``nochange``
    max_size                the largest number of elements that a row has in the file
    shape                   elements in a row of a batch: 1 for scalars; None if the rows differ
    element_data_type       the class of the elements' type, for arrays
    null_count              rows that are null; a column of numbers that has some becomes float64 with NaN
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, Optional

from farandole.spark.common.constants import METADATA_FILE

Metadata = Dict[str, Dict[str, Any]]
_CLASSES = ("spark_data_type", "element_data_type")
_VERSION = 1


@dataclass
class FolderMetadata:
    """The content of the metadata file in a folder of prepared data."""

    rows: int
    avg_row_size: float
    val_rows: int = 0
    columns: Metadata = field(default_factory=dict)

    def to_json(self) -> str:
        columns = {
            name: {key: value.__name__ if key in _CLASSES else value for key, value in entry.items()}
            for name, entry in self.columns.items()
        }
        content = {"rows": self.rows, "val_rows": self.val_rows, "avg_row_size": self.avg_row_size, "columns": columns}
        return json.dumps({"version": _VERSION, **content}, indent=1)

    @classmethod
    def from_json(cls, text: str, path: str) -> FolderMetadata:
        """
        :raises ValueError: the text is not metadata of this version
        """
        from farandole.spark.common.data_types import class_named

        try:
            content = json.loads(text)
            if content["version"] != _VERSION:
                raise ValueError(f"its version is {content['version']}, and this one reads {_VERSION}")
            columns = {
                name: {key: class_named(value) if key in _CLASSES else value for key, value in entry.items()}
                for name, entry in content["columns"].items()
            }
            return cls(content["rows"], content["avg_row_size"], content["val_rows"], columns)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise ValueError(
                f"{path} is not metadata of prepared data ({problem}): prepare the data again"
            ) from problem


def read_formats(filesystem: Any, folder: str, rows: int) -> Metadata:
    """The columns of the metadata file in a folder; empty if there is no file. Types stay names: no Spark is needed.

    :param rows: the number of rows that the files of the folder have
    :raises ValueError: another number of rows was prepared
    """
    path = f"{folder.rstrip('/')}/{METADATA_FILE}"
    if not filesystem.exists(path):
        return {}
    content = json.loads(filesystem.cat_file(path))
    check_rows(folder, rows, content["rows"])
    return dict(content["columns"])


def check_rows(path: str, found: int, prepared: int) -> None:
    """
    :raises ValueError: the numbers of rows that were found and that were prepared differ
    """
    if found != prepared:
        raise ValueError(
            f"the Parquet data at {path} has {found} rows, and {prepared} were prepared: files are missing or have "
            "been added. Prepare the data again"
        )


def entry_of(
    spark_data_type: type,
    shape: Optional[int] = 1,
    max_size: int = 1,
    intermediate_format: str = "nochange",
    sparse_only: bool = False,
    element_data_type: Optional[type] = None,
    null_count: int = 0,
) -> Dict[str, Any]:
    """The metadata of a column."""
    entry = {
        "spark_data_type": spark_data_type,
        "is_sparse_vector_only": sparse_only,
        "intermediate_format": intermediate_format,
        "max_size": max_size,
        "shape": shape,
        "null_count": null_count,
    }
    if element_data_type is not None:
        entry["element_data_type"] = element_data_type
    return entry
