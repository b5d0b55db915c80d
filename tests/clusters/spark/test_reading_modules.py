"""Data modules and loaders of PyTorch and Lightning: batches of tensors, each row once."""

from __future__ import annotations

import sys
import threading
import types
from collections import Counter
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from farandole.spark.common.datamodule import DataModule
from farandole.spark.data_loaders import pytorch_data_loaders as loaders
from farandole.spark.lightning.datamodule import PetastormDataModule as LightningDataModule
from farandole.spark.reading import RowReader
from farandole.spark.torch.datamodule import MapIterable, NVTabularDataModule, PetastormDataModule

ROWS, VAL_ROWS = 67, 10


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows to train on in uneven row groups, and rows to validate with."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "train").mkdir()
    (folder / "val").mkdir()
    start = 0
    for number, rows in enumerate((5, 1, 40, 21)):
        write(folder / f"train/{number}.parquet", start, rows)
        start += rows
    write(folder / "val/0.parquet", 100, VAL_ROWS)
    return folder


def write(path: Path, start: int, rows: int) -> None:
    x = np.arange(start, start + rows)
    table = {"x": x, "y": (x / 2).astype(np.float32), "pair": pa.array([[i, -i] for i in x.tolist()])}
    pq.write_table(pa.table({**table, "text": [str(i) for i in x]}), path)


def module_of(data: Path, rank: int = 0, ranks: int = 1, **arguments: Any) -> PetastormDataModule:
    usual: Dict[str, Any] = {
        "train_dir": str(data / "train"),
        "val_dir": str(data / "val"),
        "train_batch_size": 4,
        "val_batch_size": 3,
        "cur_shard": rank,
        "shard_count": ranks,
        "schema_fields": ["x", "y", "pair"],
        "verbose": False,
    }
    return PetastormDataModule(**{**usual, **arguments})


def rows_of(batches: Any) -> List[int]:
    found: List[int] = []
    for batch in batches:
        assert all(isinstance(each, torch.Tensor) for each in batch.values())
        assert torch.equal(batch["pair"], torch.stack([batch["x"], -batch["x"]], dim=1))
        assert (batch["x"].dtype, batch["y"].dtype) == (torch.int64, torch.float32)
        found += batch["x"].tolist()
    return found


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "arguments", [{}, {"inmemory_cache_all": True}, {"shuffle": False}, {"reader_pool_type": "dummy"}]
)
def test_each_row_reaches_one_rank_in_each_epoch(data: Path, ranks: int, arguments: Dict[str, Any]) -> None:
    modules = [module_of(data, rank, ranks, **arguments) for rank in range(ranks)]
    epochs: List[List[int]] = []
    for module in modules:
        with module as entered:
            assert entered is module
            train, val = module.train_data(), module.val_data()
            assert len({len(each.train_data()) for each in modules}) == 1
            own = [rows_of(train) for _ in range(3)]
            assert len(list(train)) == len(train)
            assert len(rows_of(val)) == len(set(rows_of(val)))
            epochs.append(sum(own, []))
            if arguments.get("shuffle", True):
                assert own[0] != own[1] and sorted(own[0]) == sorted(own[1])
            else:
                assert own[0] == own[1] == sorted(own[0])
    assert Counter(sum(epochs, [])) == Counter(dict.fromkeys(range(ROWS), 3))
    val_rows = []
    for module in modules:
        with module:
            val_rows += rows_of(module.val_data())
    assert sorted(val_rows) == list(range(100, 100 + VAL_ROWS))


def test_a_module_without_rows_to_validate_with(data: Path) -> None:
    for arguments in ({"has_val": False}, {"val_dir": None}):
        with module_of(data, **arguments) as module:
            assert list(module.val_data()) == [] and len(module.val_data()) == 0
            assert list(module.empty_batch_reader().batches(4)) == []


def test_the_random_seed_determines_the_order(data: Path) -> None:
    def order(**arguments: Any) -> List[int]:
        with module_of(data, **arguments) as module:
            return rows_of(module.train_data())

    assert order(random_seed=5) == order(random_seed=5, train_reader_worker_count=0)
    assert order(random_seed=5) != order(random_seed=6)
    assert order(random_seed=None) == order()


def test_a_transformation_with_edited_and_removed_fields(data: Path) -> None:
    def scaled(frame: Any) -> Any:
        return frame.assign(image=[np.full((2, 2), x) for x in frame["x"]])

    with module_of(
        data,
        transform_fn=scaled,
        transformation_edit_fields=[("image", np.float32, (1, 2, 2), False)],
        transformation_removed_fields=["y", "pair"],
        shuffle=False,
    ) as module:
        batch = next(iter(module.train_data()))
    assert set(batch) == {"x", "image"}
    assert batch["image"].shape == (4, 1, 2, 2) and batch["image"].dtype == torch.float32
    assert batch["image"][:, 0, 1, 1].tolist() == batch["x"].tolist()


def test_strings_cannot_be_tensors(data: Path) -> None:
    message = "the column text has values of the type str, which cannot be a tensor"
    with module_of(data, schema_fields=["x", "text"]) as module, pytest.raises(ValueError, match=message):
        next(iter(module.train_data()))


def test_missing_columns_and_pools_are_named(data: Path) -> None:
    with pytest.raises(ValueError, match="/train has no column z; it has x, y, pair, text"):
        module_of(data, schema_fields=["x", "z"]).__enter__()
    for kind in (module_of, lightning_of):
        with pytest.raises(ValueError, match="reader_pool_type is one of thread, process, dummy, petastorm, not 'x'"):
            kind(data, reader_pool_type="x")


def test_a_module_without_a_class_of_the_framework() -> None:
    class Own(DataModule):
        def train_data(self) -> Any:
            return [1, 2]

        def val_data(self) -> Any:
            return None

    with Own("train", "val", unknown=3) as module:
        assert module.train_data() == [1, 2] and (module.train_batch_size, module.shard_count) == (32, 1)
    with pytest.raises(TypeError, match="abstract"):
        DataModule("train", "val")  # type: ignore[abstract]


# Loaders


def reader_of(data: Path, **arguments: Any) -> RowReader:
    return RowReader(str(data / "train"), ["x", "y", "pair"], **arguments)


@pytest.mark.parametrize("kind", [loaders.PytorchDataLoader, loaders.PytorchAsyncDataLoader])
def test_a_loader_yields_all_rows_or_up_to_a_limit(data: Path, kind: Any) -> None:
    loader = kind(reader=reader_of(data, shuffle=True), batch_size=4, shuffling_queue_capacity=10)
    assert len(loader) == 17
    assert [sorted(rows_of(loader)) for _ in range(2)] == [list(range(ROWS))] * 2
    limited = kind(reader=reader_of(data), batch_size=4, shuffling_queue_capacity=0, limit_step_per_epoch=3)
    assert len(limited) == 3
    assert [rows_of(limited) for _ in range(2)] == [list(range(12))] * 2
    with pytest.raises(ValueError, match="limit_step_per_epoch of the loader 'a' is a number above 0, or -1, not 0"):
        kind(reader=reader_of(data), batch_size=4, shuffling_queue_capacity=0, name="a", limit_step_per_epoch=0)


@pytest.mark.parametrize("kind", [loaders.PytorchInfiniteDataLoader, loaders.PytorchInfiniteAsyncDataLoader])
def test_an_infinite_loader_goes_on_where_it_was(data: Path, kind: Any) -> None:
    loader = kind(reader=reader_of(data), batch_size=4, shuffling_queue_capacity=0, limit_step_per_epoch=10)
    assert len(loader) == 10
    found = [rows_of(loader) for _ in range(3)]
    assert [len(each) for each in found] == [40, 27 + 3 * 4, 40]  # the first pass ends with a batch of 3 rows
    assert sum(found, []) == [*range(ROWS), *range(13 * 4)]
    empty = kind(reader=RowReader.empty(), batch_size=4, shuffling_queue_capacity=0, limit_step_per_epoch=10)
    assert list(empty) == []


@pytest.mark.parametrize("kind", [loaders.PytorchInmemDataLoader, loaders.PytorchInmemAsyncDataLoader])
def test_a_loader_in_memory_reads_once(data: Path, kind: Any) -> None:
    reader = reader_of(data)
    loader = kind(reader=reader, batch_size=4, num_epochs=3, shuffle=True)
    first = rows_of(loader)
    reader._folder = None  # it would fail to read again
    second = rows_of(loader)
    assert sorted(first) == sorted(second) == list(range(ROWS)) and first != second
    assert rows_of(loader) != second
    with pytest.raises(ValueError, match="is for 3 epochs, and this is one more"):
        list(loader)
    plain = kind(reader=reader_of(data), batch_size=4, num_epochs=None, limit_step_per_epoch=2)
    assert len(plain) == 2 and [rows_of(plain) for _ in range(2)] == [list(range(8))] * 2


def test_a_loader_with_the_arguments_of_petastorm(data: Path) -> None:
    loader = loaders.PetastormBatchedDataLoader(
        "name", 2, False, reader_of(data), batch_size=5, transform_fn=lambda batch: {**batch, "new": batch["x"] + 1}
    )
    batches = list(loader)
    assert len(batches) == len(loader) == 2
    assert torch.equal(batches[1]["new"], batches[1]["x"] + 1)


def test_epochs_are_printed_when_asked(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    list(loaders.PytorchDataLoader(reader_of(data), 40, 0, name="train", verbose=True))
    list(loaders.PytorchInmemDataLoader(reader_of(data), 40, None, name="train", verbose=True))
    assert capsys.readouterr().out.splitlines() == [
        "PytorchDataLoader train, rank 0: epoch 0 of 67 rows begins",
        "PytorchDataLoader train, rank 0: an epoch has ended after 2 batches",
        "PytorchInmemDataLoader train, rank 0: epoch 0 of 67 rows begins",
        "PytorchInmemDataLoader train, rank 0: an epoch has ended after 2 batches",
    ]


def test_items_are_mapped_for_a_number_of_epochs() -> None:
    assert list(MapIterable([1, 2], 2, lambda item: item * 10)) == [10, 20, 10, 20]
    endless = iter(MapIterable([1, 2]))
    assert [next(endless) for _ in range(5)] == [1, 2, 1, 2, 1]
    assert list(MapIterable([])) == []


# Lightning


def lightning_of(data: Path, **arguments: Any) -> LightningDataModule:
    usual: Dict[str, Any] = {
        "train_dir": str(data / "train"),
        "val_dir": str(data / "val"),
        "train_batch_size": 4,
        "val_batch_size": 3,
        "schema_fields": ["x", "y", "pair"],
        "steps_per_epoch_train": None,
        "steps_per_epoch_val": None,
        "verbose": False,
    }
    return LightningDataModule(**{**usual, **arguments})


@pytest.mark.parametrize("queue_size", [None, 3])
@pytest.mark.parametrize("in_memory", [False, True])
def test_lightning_gets_each_row_once(data: Path, queue_size: Any, in_memory: bool) -> None:
    found = []
    for rank in range(3):
        module = lightning_of(
            data,
            cur_shard=rank,
            shard_count=3,
            inmemory_cache_all=in_memory,
            train_async_data_loader_queue_size=queue_size,
            val_async_data_loader_queue_size=queue_size,
        )
        module.setup("fit")
        loader = module.train_dataloader()
        found += rows_of(loader) + rows_of(loader)
        assert len(loader) == 6
        assert rows_of(module.val_dataloader()) == sorted(rows_of(module.val_dataloader()))
        module.teardown("fit")
    assert Counter(found) == Counter(dict.fromkeys(range(ROWS), 2))
    assert not [each for each in threading.enumerate() if each.name == "data loader"]


def test_lightning_with_a_number_of_steps(data: Path) -> None:
    module = lightning_of(data, steps_per_epoch_train=20, num_reader_epochs=2, inmemory_cache_all=True)
    loader = module.train_dataloader()
    assert len(loader) == 20
    first, second, third = (rows_of(loader) for _ in range(3))
    assert Counter(first + second) == Counter(dict.fromkeys(range(ROWS), 2)) and third == []
    assert lightning_of(data, has_val=False).val_dataloader() is None


# Optional packages


def test_nvtabular_is_asked_for_when_it_is_missing(data: Path) -> None:
    message = (
        r"NVTabularDataModule needs the package nvtabular for torch \(.*\): pip install nvtabular, or use Petastorm"
    )
    with pytest.raises(ImportError, match=message):
        NVTabularDataModule(["y"], train_dir="a", val_dir="b")


@pytest.fixture
def nvtabular(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dict[str, Any]]:
    """A module in place of NVTabular that records its arguments and has two batches."""
    calls: Dict[str, Any] = {}
    root, folder, module = (
        types.ModuleType(name) for name in ("nvtabular", "nvtabular.loader", "nvtabular.loader.torch")
    )

    class DLDataLoader:
        def __init__(self, batches: Any, **arguments: Any) -> None:
            calls["loader"] = arguments

        def __iter__(self) -> Any:
            return iter([({"a": 1, "b": 2}, 3), ({"a": 4, "b": 5}, 6)])

    def dataset(*arguments: Any, **named: Any) -> str:
        calls["dataset"] = (*arguments, named)
        return "data set"

    def batches(*arguments: Any, **named: Any) -> None:
        calls["batches"] = (*arguments, named)

    root.Dataset, module.TorchAsyncItr, module.DLDataLoader = dataset, batches, DLDataLoader  # type: ignore[attr-defined]
    for each in (root, folder, module):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    yield calls


def test_nvtabular_reads_the_part_of_a_rank(nvtabular: Dict[str, Any]) -> None:
    module = NVTabularDataModule(["y"], ["a"], ["b"], train_dir="train", val_dir="val", cur_shard=1, shard_count=2)
    train = iter(module.train_data())
    assert [next(train) for _ in range(3)] == [
        {"a": 1, "b": 2, "y": 3},
        {"a": 4, "b": 5, "y": 6},
        {"a": 1, "b": 2, "y": 3},
    ]
    assert nvtabular["dataset"] == ("train", {"engine": "parquet", "storage_options": {}})
    assert nvtabular["batches"] == (
        "data set",
        {
            **{"cats": ["a"], "conts": ["b"], "labels": ["y"], "batch_size": 32, "shuffle": True},
            **{"seed_fn": NVTabularDataModule.seed_fn, "global_size": 2, "global_rank": 1},
        },
    )
    assert len(list(module.val_data())) == 2
    assert nvtabular["batches"][1]["shuffle"] is False
    assert NVTabularDataModule(has_val=False, train_dir="train", val_dir="val").val_data() is None


def test_petastorm_is_asked_for_when_it_is_missing(data: Path) -> None:
    message = "reader_pool_type='petastorm' needs the package petastorm .*0.12.1"
    with module_of(data, reader_pool_type="petastorm") as module, pytest.raises(ImportError, match=message):
        module.train_data()


def test_petastorm_reads_when_it_is_asked_for(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: List[Any] = []
    root, torch_part, transform = (
        types.ModuleType(name) for name in ("petastorm", "petastorm.pytorch", "petastorm.transform")
    )

    class Reader:
        def __enter__(self) -> str:
            return "reader"

        def __exit__(self, *arguments: Any) -> None:
            calls.append("closed")

    def make_batch_reader(url: str, **arguments: Any) -> Reader:
        calls.append((url, arguments))
        return Reader()

    def batched_loader(reader: str, **arguments: Any) -> Any:
        calls.append((reader, arguments))
        return iter(["batch"])

    root.make_batch_reader, root.pytorch = make_batch_reader, torch_part  # type: ignore[attr-defined]
    torch_part.BatchedDataLoader, transform.TransformSpec = batched_loader, dict  # type: ignore[attr-defined]
    for each in (root, torch_part, transform):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    with module_of(data, 1, 2, reader_pool_type="petastorm", random_seed=3) as module:
        loader = module.train_data()
        assert list(loader) == list(loader) == ["batch"]
    url, arguments = calls[0]
    assert url == str(data / "train") and calls[2] == "closed"
    assert [calls[0][1]["seed"], calls[3][1]["seed"]] == [3, 4]
    assert (arguments["cur_shard"], arguments["shard_count"], arguments["num_epochs"]) == (1, 2, 1)
    assert calls[1] == ("reader", {"batch_size": 4, "shuffling_queue_capacity": 40})
    lightning = lightning_of(data, reader_pool_type="petastorm", steps_per_epoch_train=3)
    lightning.setup("fit")
    train = lightning.train_dataloader()
    assert list(train) == list(train) == ["batch"] * 3 and len(train) == 3
    assert list(lightning.val_dataloader()) == ["batch"]
    assert calls[-3][0] == str(data / "val") and calls[-3][1]["shuffle_row_groups"] is False
