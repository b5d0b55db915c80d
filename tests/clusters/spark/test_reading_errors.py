"""Errors of Parquet data that cannot be read or trained on name the file and the column."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from farandole.spark.common import util
from farandole.spark.common.store import LocalStore, StoreError
from farandole.spark.reading import RowReader
from parquet_files import write


def meta_of(path: Path, columns: List[str], **paths: Any) -> Any:
    store = LocalStore(None, train_path=str(path), val_path=str(paths.get("val", path / "none")))
    return util.get_simple_meta_from_parquet(store, ["y"], columns, None)


def test_missing_data_and_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"there is no Parquet data at {tmp_path}/none: the path does not exist"):
        meta_of(tmp_path / "none", ["x"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=f"there is no Parquet file in {tmp_path}/empty"):
        meta_of(tmp_path / "empty", ["x"])
    write(tmp_path / "data", [[0], [0]])
    with pytest.raises(ValueError, match=f"{tmp_path}/data has no rows to train on, in 2 files"):
        meta_of(tmp_path / "data", ["x"])
    with pytest.raises(ValueError, match=f"the Parquet data at {tmp_path}/data has no column z; it has x, y, pair"):
        meta_of(tmp_path / "data", ["x", "z"])


def test_a_corrupt_file_is_named(tmp_path: Path) -> None:
    write(tmp_path, [[5], [5], [5]])
    (tmp_path / "part-001.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=f"the Parquet file {tmp_path}/part-001.parquet cannot be read: .*0 bytes"):
        meta_of(tmp_path, ["x"])
    (tmp_path / "part-000.parquet").write_bytes(b"no Parquet at all")
    with pytest.raises(ValueError, match=f"the Parquet data at {tmp_path} cannot be read: .*part-000.parquet"):
        RowReader(str(tmp_path))


def test_a_corrupt_column_is_named_with_its_file(tmp_path: Path) -> None:
    write(tmp_path, [[5000], [5000]])
    path = tmp_path / "part-001.parquet"
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    first = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[first : first + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=f"the column y of the Parquet file {path} cannot be read: "):
        list(RowReader(str(tmp_path)).batches(100))
    others = list(RowReader(str(tmp_path), ["x", "pair"]).batches(100))
    assert sum(len(batch["x"]) for batch in others) == 10_000


def test_a_file_with_another_schema_is_named(tmp_path: Path) -> None:
    write(tmp_path, [[5], [5]])
    path = tmp_path / "part-002.parquet"
    pq.write_table(pa.table({"x": pa.array(["a"]), "y": pa.array([1.0], pa.float32()), "pair": [[1.0]]}), path)
    message = f"the column x has the type string in the Parquet file {path} and int64 in other files of {tmp_path}"
    with pytest.raises(ValueError, match=message):
        meta_of(tmp_path, ["x"])
    assert len(list(RowReader(str(tmp_path), ["y"]).batches(100))) == 1
    pq.write_table(pa.table({"y": pa.array([1.0], pa.float32())}), path)
    with pytest.raises(
        ValueError, match=f"the Parquet file {path} has no column x, which other files of {tmp_path} have"
    ):
        meta_of(tmp_path, ["x"])


def test_data_to_train_and_to_validate_have_the_same_types(tmp_path: Path) -> None:
    write(tmp_path / "train", [[5]])
    (tmp_path / "val").mkdir()
    pq.write_table(pa.table({"x": [1.5], "y": pa.array([1.0], pa.float32())}), tmp_path / "val/part.parquet")
    message = "the column x has the type int64 in the data to train on at .*/train, and double in the data to validate"
    with pytest.raises(ValueError, match=message):
        meta_of(tmp_path / "train", ["x"], val=tmp_path / "val")


def test_null_labels_are_counted(tmp_path: Path) -> None:
    for folder, labels in {"whole": [1.0, 2.0, 3.0], "holes": [1.0, None, None]}.items():
        (tmp_path / folder).mkdir()
        pq.write_table(pa.table({"x": [1, 2, 3], "y": pa.array(labels)}), tmp_path / folder / "data.parquet")
    for train, val in (("holes", "none"), ("whole", "holes")):
        message = "the label or sample weight column y is null in 2 of 3 rows of the Parquet data at .*/holes: fill"
        with pytest.raises(ValueError, match=message):
            meta_of(tmp_path / train, ["x"], val=tmp_path / val)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1], [2], None]), "the column x of the type list<.*> has 1 null rows: fill or drop them"),
        (pa.array([{"a": 1}] * 3), "the column x has the type struct<a: int64>, which cannot be a feature or a label"),
    ],
)
def test_columns_that_cannot_be_batched(tmp_path: Path, column: Any, message: str) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "data.parquet")
    with pytest.raises(ValueError, match=message):
        list(RowReader(str(tmp_path)).batches(3))


def test_rows_of_different_shapes_are_named(tmp_path: Path) -> None:
    for number, length in enumerate((2, 3)):
        pq.write_table(pa.table({"x": [[1.0] * length] * 3}), tmp_path / f"{number}.parquet")
    message = r"the column x has rows of the shapes \(2,\) and, in dimension 0, a row of length 3: give all"
    with pytest.raises(ValueError, match=message):
        list(RowReader(str(tmp_path)).batches(2))


def test_types_that_metadata_cannot_have(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([{"a": 1}]), "y": [1.0]}), tmp_path / "data.parquet")
    with pytest.raises(ValueError, match="a column of the type struct<a: int64> cannot be .*: the column x of"):
        meta_of(tmp_path, ["x"])


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    write(tmp_path, [[5000], [5000]])
    reader = RowReader(str(tmp_path))
    (tmp_path / "part-001.parquet").unlink()
    with pytest.raises(ValueError, match="of the Parquet file .*part-001.parquet cannot be read"):
        list(reader.batches(100))


def test_a_batch_size_is_checked_before_reading(tmp_path: Path) -> None:
    write(tmp_path, [[5]])
    with pytest.raises(ValueError, match="batch_size is a number of rows above 0, not 0"):
        RowReader(str(tmp_path)).batches(0)
