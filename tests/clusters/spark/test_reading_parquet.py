"""Reading Parquet data: every row is delivered once per epoch to one rank."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from farandole.spark.common import util
from farandole.spark.common.store import LocalStore
from farandole.spark.reading import RowReader, parquet, shuffling
from farandole.spark.reading.transform import Transformation
from parquet_files import UNEVEN, write


def rows_of(batches: Any) -> List[int]:
    found: List[int] = []
    for batch in batches:
        assert (batch["y"] == (batch["x"] / 2).astype(np.float32)).all()
        assert (batch["pair"] == np.stack([batch["x"], -batch["x"]], axis=1)).all()
        found += batch["x"].tolist()
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("in_memory", "pool_bytes"), [(False, 0), (False, shuffling.POOL_BYTES), (True, 0)])
def test_each_row_is_delivered_once_per_epoch_to_one_rank(
    tmp_path: Path, ranks: int, shuffle: bool, in_memory: bool, pool_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffling, "POOL_BYTES", pool_bytes)
    total = write(tmp_path, UNEVEN)
    for batch_size, capacity, read_ahead in ((1, 0, False), (4, 10, True), (32, None, True), (100, 1000, False)):
        readers = [
            RowReader(str(tmp_path), None, rank, ranks, shuffle, 7, read_ahead=read_ahead, in_memory=in_memory)
            for rank in range(ranks)
        ]
        parts = []
        for _ in range(3):
            epoch = []
            for reader in readers:
                batches = list(reader.batches(batch_size, capacity))
                # All ranks take as many steps, unless no batch can be divided.
                assert len(batches) == (reader.plan.steps(batch_size) if batch_size > 1 else reader.rows)
                assert all(0 < len(batch["x"]) <= batch_size for batch in batches)
                epoch.append(rows_of(batches))
            assert Counter(row for part in epoch for row in part) == Counter(range(total))
            parts.append(epoch)
        if shuffle and capacity != 0:
            assert parts[0] != parts[1] != parts[2]
            assert parts[0][0] != sorted(parts[0][0])
        elif not shuffle:
            assert parts[0] == parts[1] and parts[0][0] == sorted(parts[0][0])


def test_the_same_seed_gives_the_same_order_again(tmp_path: Path) -> None:
    write(tmp_path, UNEVEN)

    def order(seed: int, read_ahead: bool) -> List[List[int]]:
        reader = RowReader(str(tmp_path), shuffle=True, seed=seed, read_ahead=read_ahead)
        return [rows_of(reader.batches(5, 20)) for _ in range(2)]

    assert order(1, True) == order(1, False)
    assert order(1, True) != order(2, True)


@pytest.mark.parametrize("files", [[[2]], [[1], [0], [1]]], ids=str)
def test_more_ranks_than_rows(tmp_path: Path, files: List[List[int]]) -> None:
    total = write(tmp_path, files)
    readers = [RowReader(str(tmp_path), None, rank, 4, True) for rank in range(4)]
    assert [reader.plan.steps(32) for reader in readers] == [1] * 4
    found = [rows_of(reader.batches(32)) for reader in readers]
    assert sorted(sum(found, [])) == list(range(total))
    assert sorted(map(len, found)) == [0, 0, 1, 1]


def test_large_row_groups_are_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "PIECE_BYTES", 50_000)
    total = write(tmp_path, [[9000], [5000]])
    readers = [RowReader(str(tmp_path), None, rank, 3) for rank in range(3)]
    pieces = [len(piece["x"]) for reader in readers for piece in reader.pieces(0)]
    assert len(pieces) > 6 and max(pieces) < 5000
    assert sum((rows_of(reader.batches(100)) for reader in readers), []) == list(range(total))


def write_text(path: Path, rows: int, length: int, repeated: bool = True) -> None:
    """A file with strings of this length, and lists of two of them. Each different string is stored once, so that the
    file is small if they are repeated."""
    texts = [f"{row % 5 if repeated else row:0{length}}" for row in range(rows)]
    pq.write_table(pa.table({"text": texts, "texts": [[text, text] for text in texts]}), path / "text.parquet")


@pytest.mark.parametrize(("column", "row_bytes"), [("text", 1000), ("texts", 2000)])
def test_strings_that_a_file_stores_once_are_read_in_small_pieces(
    tmp_path: Path, column: str, row_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "PIECE_BYTES", 4_000_000)
    write_text(tmp_path, 20_000, 1000)
    assert (tmp_path / "text.parquet").stat().st_size < 200_000
    folder = parquet.ParquetFolder(str(tmp_path), [column])
    assert 20_000 * row_bytes <= folder.bytes <= 20_000 * row_bytes * 1.2
    pieces = [len(piece[column]) for piece in RowReader(str(tmp_path), [column]).pieces(0)]
    assert sum(pieces) == 20_000 and max(pieces) * row_bytes <= 4_000_000


def test_the_largest_of_several_samples_of_strings_counts(tmp_path: Path) -> None:
    for number, length in enumerate((1, 500, 1)):
        folder = tmp_path / f"k={number}"
        folder.mkdir()
        write_text(folder, 3000, length)
    assert parquet.ParquetFolder(str(tmp_path), ["text"]).bytes >= 9000 * 500


@pytest.mark.parametrize("repeated", [True, False])
def test_the_shuffle_buffer_counts_the_characters_of_strings(
    tmp_path: Path, repeated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "PIECE_BYTES", 2_000_000)
    monkeypatch.setattr(shuffling, "POOL_BYTES", 4_000_000)
    write_text(tmp_path, 20_000, 1000, repeated)
    reader = RowReader(str(tmp_path), ["text"], shuffle=True)
    read = 0
    pieces = reader.pieces

    def counted(epoch: int) -> Any:
        nonlocal read
        for piece in pieces(epoch):
            read += len(piece["text"])
            yield piece

    monkeypatch.setattr(reader, "pieces", counted)
    batches = reader.batches(10)
    next(batches)
    assert read <= 12_000  # those in the buffer, and a few pieces that are read ahead
    batches.close()


def test_a_reader_holds_two_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shuffling, "POOL_BYTES", 0)
    write(tmp_path, [[10]] * 20)
    reader = RowReader(str(tmp_path))
    read = 0
    two_read = threading.Event()
    pieces = reader.pieces

    def counted(epoch: int) -> Any:
        nonlocal read
        for piece in pieces(epoch):
            read += 1
            if read == 3:
                two_read.set()
            yield piece

    monkeypatch.setattr(reader, "pieces", counted)
    batches = reader.batches(10)
    next(batches)
    assert two_read.wait(240)  # one is being consumed, one is ready, and the thread holds one more
    assert read == 3
    batches.close()
    assert not [each for each in threading.enumerate() if each.name == "data loader"]


@pytest.mark.parametrize("shuffle", [False, True])
def test_rows_that_fit_into_the_shuffle_buffer_are_read_once(
    tmp_path: Path, shuffle: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = write(tmp_path, UNEVEN)
    passes = 0

    def reader_of(rank: int = 0, **arguments: Any) -> RowReader:
        reader = RowReader(str(tmp_path), None, rank, 2, shuffle, **arguments)
        pieces = reader.pieces

        def counted(epoch: int) -> Any:
            nonlocal passes
            passes += 1
            return pieces(epoch)

        monkeypatch.setattr(reader, "pieces", counted)
        return reader

    def delivered(reader: RowReader, epochs: int = 3, capacity: Any = None) -> List[List[int]]:
        nonlocal passes
        passes = 0
        return [rows_of(reader.batches(5, capacity)) for _ in range(epochs)]

    both = [delivered(reader_of(rank)) for rank in range(2)]
    assert passes == 1
    assert all(sorted(both[0][epoch] + both[1][epoch]) == list(range(total)) for epoch in range(3))
    assert (both[0][0] != both[0][1]) == shuffle and delivered(reader_of()) == both[0]
    for batch in (reader := reader_of()).batches(5):
        batch["x"][:] = -1  # a trainer may change its batches
    assert delivered(reader, 2) == both[0][1:]
    delivered(reader_of(), capacity=total)
    assert passes == 1
    delivered(reader_of(), capacity=10)
    assert passes == (3 if shuffle else 1)
    delivered(reader_of(transform=Transformation(lambda frame: frame)))  # it may differ in each epoch
    assert passes == 3
    row_bytes = 8 + 4 + 2 * 8
    monkeypatch.setattr(shuffling, "POOL_BYTES", row_bytes * (total // 2))
    delivered(reader_of())
    assert passes == 1
    monkeypatch.setattr(shuffling, "POOL_BYTES", row_bytes * (total // 2) - 1)
    delivered(reader_of())
    assert passes == 3


def test_an_epoch_may_be_left_early(tmp_path: Path) -> None:
    total = write(tmp_path, UNEVEN)
    reader = RowReader(str(tmp_path), shuffle=True)
    batches = reader.batches(4, 10)
    next(batches)
    batches.close()
    assert sorted(rows_of(reader.batches(4, 10))) == list(range(total))


def test_a_url_of_fsspec_is_read(tmp_path: Path) -> None:
    total = write(tmp_path, UNEVEN)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path), "/reading", recursive=True)
    try:
        assert rows_of(RowReader("memory://reading").batches(10)) == list(range(total))
        assert rows_of(RowReader(f"file://{tmp_path}").batches(10)) == list(range(total))
    finally:
        memory.rm("/reading", recursive=True)


def test_files_below_a_hidden_folder_are_read(tmp_path: Path) -> None:
    total = write(tmp_path / ".cache/_data", UNEVEN)
    (tmp_path / ".cache/_data/_SUCCESS").write_text("")
    (tmp_path / ".cache/_data/.part-000.parquet.crc").write_bytes(b"checksum")
    assert rows_of(RowReader(str(tmp_path / ".cache/_data")).batches(10)) == list(range(total))


def test_hive_partitions_are_columns(tmp_path: Path) -> None:
    start = 0
    for name in ("year=2020/part=a", "year=2020/part=b", "year=2021/part=a"):
        start = write(tmp_path / "train" / name, [[3], [2]], start)
    write(tmp_path / "val/year=2022/part=a", [[4]])
    (tmp_path / "train/_SUCCESS").write_text("")
    store = LocalStore(str(tmp_path), train_path=str(tmp_path / "train"), val_path=str(tmp_path / "val"))
    rows, val_rows, metadata, _ = util.get_simple_meta_from_parquet(store, ["y"], ["x", "year", "pair"], "y")
    assert (rows, val_rows) == (15, 4)
    assert {name: entry["shape"] for name, entry in metadata.items()} == {"x": 1, "year": 1, "pair": 2, "y": 1}
    batch = next(RowReader(str(tmp_path / "train"), ["x", "year", "part"]).batches(100))
    assert batch["x"].tolist() == list(range(15))
    assert batch["year"].tolist() == [2020] * 10 + [2021] * 5
    assert batch["part"].tolist() == ["a"] * 5 + ["b"] * 5 + ["a"] * 5
    only = next(RowReader(str(tmp_path / "train"), ["part"]).batches(100))
    assert only["part"].tolist() == batch["part"].tolist()


def test_metadata_of_other_programs_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "flag": pa.array([True, None, False]),
            "day": pa.array([0, 1, None], pa.date32()),
            "price": pa.array([1, 2, 3], pa.decimal128(8, 2)),
            "code": pa.array(["a", "b", "a"]).dictionary_encode(),
            "fixed": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
            "ragged": pa.array([[1], [2, 3], []], pa.list_(pa.float32())),
            "small": pa.array([1, 2, 3], pa.uint8()),
            "time": pa.array([0, 1000, 2000], pa.timestamp("ns")),
            "y": pa.array([1.0, 2.0, 3.0]),
        }
    )
    pq.write_table(table, tmp_path / "data.parquet")
    store = LocalStore(None, train_path=str(tmp_path), val_path=str(tmp_path / "none"))
    features = [name for name in table.column_names if name != "y"]
    rows, val_rows, metadata, size = util.get_simple_meta_from_parquet(store, ["y"], features, None)
    assert (rows, val_rows) == (3, 0) and size > 0
    kinds = {name: util.data_type_to_str(entry["spark_data_type"]) for name, entry in metadata.items()}
    assert kinds == {
        **{"flag": "Boolean", "day": "Date", "price": "Double", "code": "String", "fixed": "Array"},
        **{"ragged": "Array", "small": "Short", "time": "Timestamp", "y": "Double"},
    }
    assert (metadata["fixed"]["shape"], metadata["ragged"]["shape"], metadata["ragged"]["max_size"]) == (2, None, 2)
    batch = next(RowReader(str(tmp_path)).batches(10))
    assert batch["flag"].dtype == np.float64 and np.isnan(batch["flag"][1]) and batch["flag"][0] == 1
    assert batch["day"].dtype == np.float64 and np.isnan(batch["day"][2])
    assert batch["price"].tolist() == [1, 2, 3]
    assert batch["code"].tolist() == ["a", "b", "a"]
    assert batch["fixed"].tolist() == [[1, 2], [3, 4], [5, 6]] and batch["fixed"].dtype == np.int16
    assert [each.tolist() for each in batch["ragged"]] == [[1], [2, 3], []]
    assert batch["small"].dtype == np.uint8 and batch["time"].tolist() == [0, 1, 2]


def test_times_that_spark_has_written_may_lie_in_any_year(tmp_path: Path) -> None:
    micros = [-12_500_000_000_000_000, 0, 253_402_214_400_000_000]  # in 1573, and on 9999-12-31
    table = pa.table({"time": pa.array(micros, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "data.parquet", use_deprecated_int96_timestamps=True)
    assert next(RowReader(str(tmp_path)).batches(10))["time"].tolist() == micros


def test_reading_loads_no_framework() -> None:
    code = (
        "import sys, farandole.spark.reading, farandole.spark.common.store, farandole.spark.common.util;"
        "print([name for name in ('torch', 'tensorflow', 'keras', 'farandole._native') if name in sys.modules])"
    )
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "[]"


def test_pyarrow_is_asked_for_when_it_is_missing_or_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    from farandole.spark.requirements import require_pyarrow

    monkeypatch.setattr(pa, "__version__", "9.0.0")
    with pytest.raises(ImportError, match="needs PyArrow 11 or later, and PyArrow 9.0.0 is installed: pip inst"):
        require_pyarrow()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match="needs PyArrow, which cannot be imported .*: pip install 'pyarrow>=11'"):
        require_pyarrow()
    with pytest.raises(ImportError, match="pip install 'pyarrow>=11'"):
        LocalStore("store").get_parquet_dataset("data")


def test_shapes_of_columns_and_models() -> None:
    metadata: Dict[str, Dict[str, Any]] = {
        "x": {"shape": 784},
        "s": {"shape": 1},
        "ragged": {"shape": None},
        "y": {"shape": 10},
    }
    check = util.check_shape_compatibility
    check(metadata, ["x", "s"], ["y"])
    check(metadata, ["x", "s"], ["y"], [[-1, 1, 28, 28], [-1, 1]], [[-1, 10]])
    check(metadata, ["x", "ragged"], ["y"], [(None, 784), (None, None, 5)], [(None, 10)], [[10]])
    check(metadata, ["x"], ["y"], [[-1, -1, 28]], None, [None])
    for arguments, message in (
        (
            (["x"], ["y"], [[-1, 28, 29]]),
            r"the feature column x has 784 elements in a row, and .* \(-1, 28, 29\) with 812",
        ),
        (
            (["x"], ["y"], None, [[-1, 9]]),
            r"the label column y has 10 elements in a row, .* output_shapes is \(-1, 9\)",
        ),
        ((["x"], ["y"], None, [[-1, 10]], [[9]]), r"the label column y has 10 .* shape in label_shapes is \(9,\)"),
        ((["x"], ["y"], [[-1, 784], [-1, 1]]), "input_shapes has 2 shapes, .* and there are 1 feature columns"),
        ((["x", "z"], ["y"]), "the data has no feature column z; it has x, s, ragged, y"),
        ((["x"], ["z"]), "the data has no label column z; it has x, s, ragged, y"),
    ):
        with pytest.raises(ValueError, match=message):
            check(metadata, *arguments)


def test_lists_and_types() -> None:
    assert util.to_list(None, 3) is None
    assert util.to_list(1, 3) == util.to_list([1], 3) == [1, 1, 1]
    assert util.to_list([1, 2], 2) == [1, 2]
    with pytest.raises(ValueError, match=r"a list of 2 values was given, and 3 are needed: \[1, 2\]"):
        util.to_list([1, 2], 3)


def test_pieces_of_an_empty_reader() -> None:
    reader = RowReader.empty()
    assert list(reader.batches(4)) == [] and reader.plan.steps(4) == 0 and reader.rows == 0
