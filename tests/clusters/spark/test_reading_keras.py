"""The data modules of Keras, where TensorFlow is installed."""

from __future__ import annotations

import sys
import types
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

tf = pytest.importorskip("tensorflow")

from farandole.spark.keras.datamodule import NVTabularDataModule, PetastormDataModule  # noqa: E402

ROWS = 67


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows in uneven row groups."""
    folder = tmp_path_factory.mktemp("data")
    start = 0
    for number, rows in enumerate((5, 1, 40, 21)):
        x = np.arange(start, start + rows)
        table = {"x": x, "pair": pa.array([[i, -i] for i in x.tolist()]), "text": [str(i) for i in x]}
        pq.write_table(pa.table({**table, "ragged": [list(range(i % 2 + 1)) for i in x]}), folder / f"{number}.parquet")
        start += rows
    return folder


def module_of(data: Path, rank: int = 0, ranks: int = 1, **arguments: Any) -> PetastormDataModule:
    usual: Dict[str, Any] = {"train_dir": str(data), "val_dir": str(data), "train_batch_size": 4, "val_batch_size": 3}
    usual.update(cur_shard=rank, shard_count=ranks, schema_fields=["x", "pair", "text"], verbose=False)
    return PetastormDataModule(**{**usual, **arguments})


def rows_of(dataset: Any) -> List[int]:
    found: List[int] = []
    for batch in dataset:
        x = batch["x"].numpy()
        assert (batch["pair"].numpy() == np.stack([x, -x], axis=1)).all()
        assert [each.decode() for each in batch["text"].numpy()] == [str(each) for each in x]
        found += x.tolist()
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("in_memory", [False, True])
def test_each_row_reaches_one_rank_in_each_epoch(data: Path, ranks: int, in_memory: bool) -> None:
    found: List[int] = []
    val: List[int] = []
    for rank in range(ranks):
        with module_of(data, rank, ranks, inmemory_cache_all=in_memory) as module:
            dataset = module.train_data()
            first, second = rows_of(dataset), rows_of(dataset)
            assert first != second and sorted(first) == sorted(second)
            found += first + second
            val += rows_of(module.val_data())
    assert Counter(found) == Counter(dict.fromkeys(range(ROWS), 2))
    assert Counter(val) == Counter(range(ROWS))


def test_batches_can_be_changed_and_prefetched(data: Path) -> None:
    with module_of(
        data,
        make_dataset=lambda dataset: dataset.map(lambda batch: (batch["pair"], batch["x"])),
        tensorflow_dataset_prefetch_buffer_size=2,
        has_val=False,
    ) as module:
        inputs, labels = next(iter(module.train_data()))
        assert inputs.shape == (4, 2) and labels.dtype == tf.int64
        assert module.val_data() is None
        assert list(module.empty_batch_reader().batches(4)) == []


def test_arrays_of_several_lengths_are_refused(data: Path) -> None:
    with (
        module_of(data, schema_fields=["ragged"]) as module,
        pytest.raises(ValueError, match="the column ragged has arrays of several lengths, which cannot be a tensor"),
    ):
        module.train_data()


def test_nvtabular_is_asked_for_when_it_is_missing() -> None:
    with pytest.raises(ImportError, match="NVTabularDataModule needs the package nvtabular for tensorflow"):
        NVTabularDataModule(["y"], train_dir="a", val_dir="b")


def test_nvtabular_reads_the_part_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: List[Any] = []
    names = ("nvtabular", "nvtabular.loader", "nvtabular.loader.tensorflow")
    root, folder, module = (types.ModuleType(name) for name in names)

    class KerasSequenceLoader:
        def __init__(self, *arguments: Any, **named: Any) -> None:
            calls.append((arguments, named))

        def map(self, function: Any) -> Any:
            return function({"a": tf.sparse.from_dense([[0, 1]]), "b": ([1, 2, 3], [1, 2]), "c": 5}, "labels")

    root.Dataset = lambda path, **named: path  # type: ignore[attr-defined]
    module.KerasSequenceLoader = KerasSequenceLoader  # type: ignore[attr-defined]
    for each in (root, folder, module):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    data = NVTabularDataModule(["y"], ["a"], ["b"], train_dir="train", val_dir="val", cur_shard=1, shard_count=2)
    features, labels = data.train_data()
    assert features["a"].numpy().tolist() == [[0, 1]]
    assert features["b"].numpy().tolist() == [[1, 0], [2, 3]]
    assert (features["c"], labels) == (5, "labels")
    arguments, named = calls[0]
    assert arguments == ("train",)
    assert (named["global_rank"], named["global_size"], named["shuffle"]) == (1, 2, True)
    assert (named["label_names"], named["cat_names"], named["cont_names"]) == (["y"], ["a"], ["b"])
    assert data.val_data() is not None and calls[1][1]["shuffle"] is False
