"""``prepare_data``: the rows, columns and metadata that it writes, its cache, and its errors."""

from __future__ import annotations

import datetime
import logging
import threading
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import numpy as np
import pyarrow.parquet as pq
import pytest
from farandole.spark.common import predicting, preparing, util
from farandole.spark.common.store import Store, StoreError
from farandole.spark.reading import RowReader
from pyspark.ml.linalg import DenseVector, SparseVector, Vectors
from pyspark.sql import functions as F
from pyspark.sql import types


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    yield Store.create(str(tmp_path / "store"))
    util.clear_training_cache()


@pytest.fixture(scope="module")
def numbers(spark: Any) -> Any:
    """100 rows: x from 0 to 99, y twice that, and every fourth row marked."""
    return spark.range(100).select(
        F.col("id").alias("x"), (F.col("id") * 2.0).alias("y"), (F.col("id") % 4 == 0).alias("marked")
    )


def read_all(path: str, **arguments: Any) -> Dict[str, np.ndarray]:
    batches = list(RowReader(path, **arguments).batches(7))
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def prepared(store: Any, df: Any, features: List[str], labels: Optional[List[str]] = None, **arguments: Any) -> Any:
    arguments.setdefault("partitions_per_process", 2)
    return util.prepare_data(2, store, df, label_columns=labels or ["y"], feature_columns=features, **arguments)


def test_each_row_is_in_one_part(store: Any, numbers: Any) -> None:
    for validation in (None, 0.0, 0.3, "marked"):
        with prepared(store, numbers, ["x"], validation=validation) as idx:
            rows, val_rows, metadata, row_size = util.get_dataset_properties(idx)
            train = read_all(store.get_train_data_path(idx))
            assert len(train["x"]) == rows
            val = read_all(store.get_val_data_path(idx)) if val_rows else {"x": np.array([], int)}
            assert len(val["x"]) == val_rows == 100 - rows
            assert Counter([*train["x"].tolist(), *val["x"].tolist()]) == Counter(range(100))
            assert (train["y"] == 2 * train["x"]).all()
            if validation == "marked":
                assert sorted(val["x"].tolist()) == list(range(0, 100, 4))
            elif validation:
                assert 15 <= val_rows <= 45
            else:
                assert val_rows == 0 and not store.exists(store.get_val_data_path(idx))
            assert set(metadata) == {"x", "y"} and row_size > 0
            assert util.get_simple_meta_from_parquet(store, ["y"], ["x"], None, idx) == (
                rows,
                val_rows,
                metadata,
                row_size,
            )


@pytest.mark.slow
def test_a_random_frame_is_written_as_it_was_counted(store: Any, spark: Any) -> None:
    frame = spark.range(200).select(F.rand().alias("x"), F.lit(1.0).alias("y"))
    with prepared(store, frame, ["x"], validation=0.5) as idx:
        rows, val_rows, _, _ = util.get_dataset_properties(idx)
        assert rows + val_rows == 200
        assert val_rows == len(read_all(store.get_val_data_path(idx))["x"])


def test_integers_mark_rows_and_null_does_not(store: Any, spark: Any) -> None:
    frame = spark.createDataFrame(
        [(i, float(i), v) for i, v in enumerate([1, 0, -1, None, 1 << 32, 0])], "x int, y double, v bigint"
    )
    with prepared(store, frame, ["x"], validation="v") as idx:
        assert sorted(read_all(store.get_val_data_path(idx))["x"].tolist()) == [0, 4]
        assert sorted(read_all(store.get_train_data_path(idx))["x"].tolist()) == [1, 2, 3, 5]


def all_types(spark: Any) -> Any:
    schema = types.StructType(
        [
            types.StructField("y", types.FloatType()),
            types.StructField("byte", types.ByteType()),
            types.StructField("flag", types.BooleanType()),
            types.StructField("price", types.DecimalType(10, 2)),
            types.StructField("day", types.DateType()),
            types.StructField("time", types.TimestampType()),
            types.StructField("text", types.StringType()),
            types.StructField("nothing", types.NullType()),
            types.StructField("some", types.IntegerType()),
            types.StructField("array", types.ArrayType(types.FloatType())),
            types.StructField("nested", types.ArrayType(types.ArrayType(types.IntegerType()))),
            types.StructField("ragged", types.ArrayType(types.LongType())),
            types.StructField("with.dot", types.LongType()),
        ]
    )
    rows = [
        (
            float(i),
            i,
            i % 2 == 0,
            Decimal(i) / 4,
            datetime.date(1970, 1, 1 + i),
            datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=i),
            f"row {i}",
            None,
            None if i == 3 else i,
            [float(i), float(-i)],
            [[i, 1, 2], [3, 4, i]],
            list(range(i)),
            i,
        )
        for i in range(8)
    ]
    return spark.createDataFrame(rows, schema)


def test_the_metadata_and_values_of_each_type(store: Any, spark: Any) -> None:
    frame = all_types(spark)
    features = [name for name in frame.columns if name != "y"]
    with prepared(store, frame, features) as idx:
        rows, _, metadata, _ = util.get_dataset_properties(idx)
        assert rows == 8
        shapes = {name: entry["shape"] for name, entry in metadata.items()}
        assert shapes == {**dict.fromkeys(frame.columns, 1), "array": 2, "nested": 6, "ragged": None}
        kinds = {name: util.data_type_to_str(entry["spark_data_type"]) for name, entry in metadata.items()}
        assert kinds == {
            **{"y": "Float", "byte": "Byte", "flag": "Boolean", "price": "Double", "day": "Date", "time": "Timestamp"},
            **{"text": "String", "nothing": "Null", "some": "Int", "array": "Array", "nested": "Array"},
            **{"ragged": "Array", "with.dot": "Long"},
        }
        assert metadata["nested"]["element_data_type"] is types.IntegerType
        assert {name: entry["null_count"] for name, entry in metadata.items() if entry["null_count"]} == {
            "nothing": 8,
            "some": 1,
        }
        values = read_all(store.get_train_data_path(idx))
    order = np.argsort(values["y"])
    values = {name: array[order] for name, array in values.items()}
    dtypes = {name: str(array.dtype) for name, array in values.items()}
    assert dtypes == {
        **{"y": "float32", "byte": "int8", "flag": "bool", "price": "float64", "day": "int32", "time": "int64"},
        **{"text": "object", "nothing": "float64", "some": "float64", "array": "float32", "nested": "int32"},
        **{"ragged": "object", "with.dot": "int64"},
    }
    i = np.arange(8)
    assert (values["flag"] == (i % 2 == 0)).all()
    assert (values["price"] == i / 4).all()
    assert (values["day"] == i).all()
    assert (values["time"] - values["time"][0] == i * 1_000_000).all()
    assert values["time"][0] == 1_577_836_800_000_000
    assert values["text"].tolist() == [f"row {row}" for row in range(8)]
    assert np.isnan(values["nothing"]).all() and np.isnan(values["some"][3])
    assert values["some"][4] == 4
    assert (values["array"] == np.stack([i, -i], axis=1)).all()
    assert values["nested"].shape == (8, 2, 3) and values["nested"][5].tolist() == [[5, 1, 2], [3, 4, 5]]
    assert [each.tolist() for each in values["ragged"]] == [list(range(row)) for row in range(8)]
    # A model gets the same numbers when it predicts.
    numbers = [predicting.as_numbers(frame, name).alias(name) for name in ("day", "time", "price", "nothing")]
    found = frame.orderBy("y").select(*numbers).collect()
    for name in ("day", "time", "price"):
        assert [row[name] for row in found] == values[name].tolist()
    assert found[0]["nothing"] is None and frame.select(*numbers).dtypes[3] == ("nothing", "double")


def test_times_without_a_zone_are_numbers_as_in_files_of_other_programs(spark: Any) -> None:
    times = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2024, 3, 31, 2, 30)]
    name = "time `of.day`"
    frame = spark.createDataFrame(
        [(each,) for each in times], types.StructType([types.StructField(name, types.TimestampNTZType())])
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")  # in which there is no such time on this day
    try:
        found = frame.select(predicting.as_numbers(frame, name)).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [number for (number,) in found] == np.array(times, "datetime64[us]").astype("int64").tolist()
    seconds = frame.select(frame[f"`{name.replace('`', '``')}`"].cast("timestamp").alias(name))
    assert seconds.select(predicting.as_numbers(seconds, name)).dtypes[0][1] == "bigint"
    assert predicting.row_shape(frame.selectExpr("array(1, 2) as `a``b`"), "a`b") == (2,)


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True])
def test_vectors_are_read_as_they_were(store: Any, spark: Any, compress: bool) -> None:
    rows = [
        (
            float(i),
            Vectors.dense([i, 0, 2.5]),
            Vectors.sparse(5, {i % 5: i + 1.0, (i + 1) % 5: 0.0}),
            Vectors.sparse(4, {}),
        )
        for i in range(20)
    ]
    rows[1] = (1.0, Vectors.sparse(3, {2: 2.5}), rows[1][2], rows[1][3])
    frame = spark.createDataFrame(rows, ["y", "mixed", "sparse", "zero"])
    with prepared(store, frame, ["mixed", "sparse", "zero"], compress_sparse=compress) as idx:
        _, _, metadata, _ = util.get_dataset_properties(idx)
        values = read_all(store.get_train_data_path(idx))
        table = pq.read_table(store.get_localized_path(store.get_train_data_path(idx)))
    assert [metadata[name]["shape"] for name in ("mixed", "sparse", "zero")] == [3, 5, 4]
    assert metadata["mixed"]["spark_data_type"] is DenseVector
    assert metadata["sparse"]["spark_data_type"] is (SparseVector if compress else DenseVector)
    assert metadata["sparse"]["is_sparse_vector_only"] is compress
    assert metadata["sparse"]["intermediate_format"] == ("custom_sparse_format" if compress else "array")
    assert metadata["sparse"]["max_size"] == (1 if compress else 5)
    assert {len(each) for each in table.column("zero").to_pylist()} == ({1} if compress else {4})
    for row, y in enumerate(values["y"].astype(int)):
        for name, vector in zip(("mixed", "sparse", "zero"), rows[y][1:]):
            assert values[name][row].tolist() == vector.toArray().tolist()


@pytest.mark.slow
def test_each_row_of_a_frame_reaches_one_rank(store: Any, spark: Any) -> None:
    torch_module = pytest.importorskip("farandole.spark.torch.datamodule")
    rows = [(i, float(i), Vectors.sparse(6, {i % 6: i + 1.0})) for i in range(101)]
    frame = spark.createDataFrame(rows, ["x", "y", "v"])
    with prepared(store, frame, ["x", "v"], compress_sparse=True, validation=0.3) as idx:
        remote = store.to_remote("run", idx)
        for ranks in (1, 2, 3, 4):
            found: Counter = Counter()
            for rank in range(ranks):
                with torch_module.PetastormDataModule(
                    train_dir=remote.train_data_path,
                    val_dir=remote.val_data_path,
                    cur_shard=rank,
                    shard_count=ranks,
                    train_batch_size=4,
                    verbose=False,
                ) as module:
                    for batch in [*module.train_data(), *module.val_data()]:
                        assert batch["v"].shape[1:] == (6,) and batch["v"].sum(1).tolist() == (batch["x"] + 1).tolist()
                        found.update(batch["x"].tolist())
            assert found == Counter(range(101))


def test_a_row_as_prepared_data_has_it(spark: Any) -> None:
    metadata = {
        "a": {"intermediate_format": "array"},
        "b": {"intermediate_format": "custom_sparse_format"},
        "c": {"intermediate_format": "nochange"},
    }
    row = types.Row(a=Vectors.dense([1, 0]), b=Vectors.sparse(4, {1: 5.0, 3: 0.0}), c="text")
    assert util.to_petastorm_fn(["a", "b", "c"], metadata)(row) == types.Row(a=[1.0, 0.0], b=[1.0, 1.0, 5.0], c="text")


@pytest.mark.slow
def test_the_number_of_files_follows_the_ranks(store: Any, numbers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with prepared(store, numbers, ["x"], partitions_per_process=3) as idx:
        assert len(store.get_parquet_dataset(store.get_train_data_path(idx)).files) == 6


@pytest.mark.slow
def test_row_groups_are_sized_for_the_readers(store: Any, spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "ROW_GROUP_BYTES", 64 << 10)
    frame = spark.range(40_000).select(F.rand(1).alias("x"), F.lit(1.0).alias("y"))
    with prepared(store, frame, ["x"], partitions_per_process=1) as idx:
        groups = [
            group.total_byte_size
            for fragment in store.get_parquet_dataset(store.get_train_data_path(idx)).get_fragments()
            for group in fragment.row_groups
        ]
    assert len(groups) > 2 and max(groups) < 128 << 10


def count_writes(monkeypatch: pytest.MonkeyPatch) -> List[str]:
    paths: List[str] = []
    write = preparing._write

    def counted(*arguments: Any) -> float:
        paths.append(arguments[3])
        return write(*arguments)

    monkeypatch.setattr(preparing, "_write", counted)
    return paths


@pytest.mark.slow
def test_the_same_frame_is_written_once(store: Any, numbers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written = count_writes(monkeypatch)
    found = []
    for _ in range(2):
        with prepared(store, numbers, ["x"]) as idx:
            found.append(idx)
    assert len(set(found)) == len(written) == 1
    other = Store.create(f"{store.prefix_path}2")
    for features, arguments, at in (
        (["x", "marked"], {}, store),
        (["x"], {"validation": "marked"}, store),
        (["x"], {"sample_weight_col": "x"}, store),
        (["x"], {}, other),
    ):
        with prepared(at, numbers, features, **arguments) as idx:
            found.append(idx)
    with prepared(store, numbers.select("x", "y"), ["x"]) as idx:
        found.append(idx)
    assert len(set(found)) == 6
    util.clear_training_cache()
    with prepared(store, numbers, ["x"]) as idx:
        assert idx not in found


@pytest.mark.slow
def test_a_data_set_that_has_disappeared_is_written_again(store: Any, numbers: Any) -> None:
    with prepared(store, numbers, ["x"]) as first:
        pass
    store.delete_dataset(first)
    with prepared(store, numbers, ["x"]) as second:
        assert second != first
        assert len(read_all(store.get_train_data_path(second))["x"]) == 100


@pytest.mark.slow
def test_threads_with_the_same_frame_write_it_once(store: Any, numbers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written = count_writes(monkeypatch)
    found: List[int] = []

    def fit() -> None:
        with prepared(store, numbers, ["x"]) as idx:
            found.append(idx)

    threads = [threading.Thread(target=fit) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert len(found) == 3 and len(set(found)) == len(written) == 1


def test_clearing_deletes_data_sets_when_they_are_not_in_use(store: Any, numbers: Any) -> None:
    with prepared(store, numbers, ["x"], validation=0.5) as unused:
        pass
    with prepared(store, numbers, ["x"]) as used:
        util.clear_training_cache()
        assert not store.exists(store.get_train_data_path(unused))
        assert not store.exists(store.get_val_data_path(unused))
        assert len(read_all(store.get_train_data_path(used))["x"]) == 100
        assert util.get_dataset_properties(used)[0] == 100
    assert not store.exists(store.get_train_data_path(used))
    with pytest.raises(ValueError, match=f"this process has prepared no data set with the number {used}"):
        util.get_dataset_properties(used)


@pytest.mark.slow
def test_concurrent_runs_in_one_store_do_not_meet(store: Any, numbers: Any) -> None:
    same = Store.create(store.prefix_path)
    other = numbers.select("x", "y")
    with prepared(store, numbers, ["x"]) as first, prepared(same, other, ["x"]) as second:
        assert first != second
        assert store.prepared_datasets() == [first, second]
    assert len({preparing.new_dataset_index() for _ in range(100)}) > 90


@pytest.mark.slow
def test_without_a_number_the_prepared_data_is_read(store: Any, numbers: Any, spark: Any) -> None:
    with prepared(store, numbers, ["x"], validation="marked") as first:
        assert util.get_simple_meta_from_parquet(store, ["y"], ["x"], None)[:2] == (75, 25)
        assert store.to_remote("run", None).train_data_path == store.get_train_data_path(first)
        with prepared(store, numbers, ["x"]) as second:
            assert util.get_simple_meta_from_parquet(store, ["y"], ["x"], None)[:2] == (100, 0)
        util.DATASETS._datasets.clear()  # another process would begin like this
    assert store.to_remote("run", None).train_data_path == store.get_train_data_path(second)
    numbers.select("x", "y").limit(7).write.parquet(store.get_train_data_path())
    assert util.get_simple_meta_from_parquet(store, ["y"], ["x"], None)[:2] == (7, 0)
    assert store.to_remote("run", None).train_data_path == store.get_train_data_path()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"feature_columns": ["x", "z"]}, "the feature column z does not exist; the DataFrame has x, y, marked"),
        ({"label_columns": ["z"]}, "the label column z does not exist; the DataFrame has x, y, marked"),
        ({"sample_weight_col": "w"}, "the sample weight column w does not exist; the DataFrame has x, y, marked"),
        ({"validation": "z"}, "the validation column z does not exist; the DataFrame has x, y, marked"),
        ({"validation": "y"}, "the validation column y has the type double: it must have booleans, or integers"),
        ({"validation": 1.0}, "validation is a fraction of at least 0 and below 1, not 1.0"),
        ({"validation": -0.1}, "validation is a fraction of at least 0 and below 1, not -0.1"),
        ({"validation": True}, "validation is a fraction or the name of a column, not True of the type bool"),
        ({"num_processes": 0}, "num_processes is a number above 0, not 0"),
        ({"partitions_per_process": 0}, "partitions_per_process is a number above 0, not 0"),
        ({"num_processes": 101}, "there are 100 rows to train on for 101 processes: the DataFrame has 100 rows, and"),
        ({"validation": 1e-9}, "there are no rows to validate with: validation=1e-09 takes 0 of 100 rows"),
    ],
)
def test_wrong_arguments(store: Any, numbers: Any, arguments: Dict[str, Any], message: str) -> None:
    usual = {"num_processes": 2, "store": store, "df": numbers, "label_columns": ["y"], "feature_columns": ["x"]}
    with pytest.raises(ValueError, match=message), util.prepare_data(**{**usual, **arguments}):
        pass
    assert store.prepared_datasets() == []


def test_a_validation_column_that_takes_all_rows(store: Any, numbers: Any) -> None:
    frame = numbers.withColumn("marked", F.lit(True))
    message = (
        "there are 0 rows to train on for 2 processes: the DataFrame has 100 rows, and validation='marked' takes 100"
    )
    with pytest.raises(ValueError, match=message), prepared(store, frame, ["x"], validation="marked"):
        pass


@pytest.mark.slow
def test_null_values_that_cannot_be_trained_on(store: Any, spark: Any) -> None:
    schema = "x int, y double, text string, array array<double>"
    rows = [(1, 1.0, "a", [1.0]), (2, None, None, None), (3, 3.0, "c", [3.0])]
    frame = spark.createDataFrame(rows, schema)
    for features, labels, message in (
        (["x"], ["y"], "the label column y is null in 1 of 3 rows: fill or drop these rows"),
        (["text"], ["x"], "the feature column text of the type string is null in 1 of 3 rows: fill or drop these rows"),
        (["array"], ["x"], "the feature column array of the type array<double> is null in 1 of 3 rows"),
    ):
        with pytest.raises(ValueError, match=message), prepared(store, frame, features, labels):
            pass
    with (
        pytest.raises(ValueError, match="the sample weight column y is null in 1 of 3 rows"),
        prepared(store, frame, ["x"], ["x"], sample_weight_col="y"),
    ):
        pass


@pytest.mark.slow
def test_columns_that_cannot_be_trained_on(store: Any, spark: Any, numbers: Any) -> None:
    frame = numbers.withColumn("map", F.create_map(F.lit("a"), F.lit(1)))
    message = "the column map has the type map<string,int>, which cannot be a feature or a label: convert it"
    with pytest.raises(ValueError, match=message), prepared(store, frame, ["map"]):
        pass
    vectors = spark.createDataFrame([(0.0, Vectors.dense([1, 2])), (1.0, Vectors.dense([1, 2, 3]))], ["y", "v"])
    message = "the column v has vectors of the sizes 2 and 3: give all rows vectors of the same size"
    with pytest.raises(ValueError, match=message), prepared(store, vectors, ["v"]):
        pass


def test_a_store_that_cannot_be_written_fails_first(tmp_path: Path, numbers: Any) -> None:
    (tmp_path / "file").write_text("")
    store = Store.create(f"{tmp_path}/file/store")
    with (
        pytest.raises(StoreError, match=f"cannot write file://{tmp_path}/file/store/intermediate_train_data"),
        prepared(store, numbers, ["x"]),
    ):
        pass


@pytest.mark.slow
def test_a_failed_write_names_the_path_and_leaves_nothing(
    store: Any, numbers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "new_dataset_index", lambda: 5)
    numbers.write.parquet(store.get_train_data_path(5))
    with (
        pytest.raises(StoreError, match=rf"Spark cannot write {store.get_train_data_path(5)}: .*PATH_ALREADY_EXISTS"),
        prepared(store, numbers, ["x"]),
    ):
        pass
    assert not store.exists(store.get_train_data_path(5))


@pytest.mark.slow
def test_files_that_are_missing_or_were_added_are_noticed(store: Any, numbers: Any) -> None:
    with prepared(store, numbers, ["x"]) as idx:
        path = store.get_localized_path(store.get_train_data_path(idx))
        file = sorted(Path(path).glob("*.parquet"))[0]
        left = 100 - pq.ParquetFile(file).metadata.num_rows
        file.unlink()
        message = f"intermediate_train_data.{idx} has {left} rows, and 100 were prepared: files are missing"
        with pytest.raises(ValueError, match=message):
            RowReader(path)
        with pytest.raises(ValueError, match=message):
            util.get_simple_meta_from_parquet(store, ["y"], ["x"], None, idx)
        with pytest.raises(ValueError, match="has no column marked; it has x, y"):
            util.get_simple_meta_from_parquet(store, ["y"], ["marked"], None, idx)


def test_spark_gets_the_scheme_that_hadoop_knows() -> None:
    settings = {"fs.s3.impl": "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"}
    assert preparing.path_for_spark("s3://bucket/x", settings.get) == "s3://bucket/x"
    assert preparing.path_for_spark("s3://bucket/x", {}.get) == "s3a://bucket/x"
    assert preparing.path_for_spark("gcs://bucket/x", {}.get) == "gs://bucket/x"
    assert preparing.path_for_spark("file:///x", {}.get) == "file:///x"


@pytest.mark.slow
def test_metadata_of_another_version_is_refused(store: Any, numbers: Any) -> None:
    with prepared(store, numbers, ["x"]) as idx:
        path = store.get_data_metadata_path(store.get_train_data_path(idx))
        text = store.read(path).decode()
        for wrong, cause in (
            (text.replace('"version": 1', '"version": 9'), "its version is 9, and this one reads 1"),
            (text.replace("LongType", "NoSuchType"), "'NoSuchType' is not a data type of Spark"),
            ("{", "Expecting property name"),
        ):
            store.write_text(path, wrong)
            with pytest.raises(
                ValueError, match=f"is not metadata of prepared data .*{cause}.*: prepare the data again"
            ):
                util.get_simple_meta_from_parquet(store, ["y"], ["x"], None, idx)


@pytest.mark.slow
def test_the_numbers_of_rows_are_logged_when_asked(store: Any, numbers: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), prepared(store, numbers, ["x"], validation="marked", verbose=1):
        pass
    assert "prepare_data writes 75 rows to train on and 25 to validate with" in caplog.text
