"""A store on S3, by s3fs against a server of moto on this machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, Dict, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("s3fs")
moto = pytest.importorskip("moto.server")

from farandole.spark.common.store import Store, StoreError  # noqa: E402
from farandole.spark.reading import RowReader  # noqa: E402


@pytest.fixture(scope="module")
def options() -> Iterator[Dict[str, Any]]:
    """The options of a filesystem on the server, which has the bucket ``bucket``."""
    import s3fs

    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    found = {"key": "key", "secret": "secret", "endpoint_url": f"http://127.0.0.1:{port}", "skip_instance_cache": True}
    s3fs.S3FileSystem(**found).mkdir("bucket")
    yield found
    server.stop()


@pytest.fixture
def store(options: Dict[str, Any], request: pytest.FixtureRequest) -> Store:
    return Store.create(f"s3://bucket/{request.node.name.replace('[', '-')}", storage_options=options)


@pytest.mark.slow
def test_paths_and_files(store: Any) -> None:
    prefix = store.prefix_path
    assert prefix.startswith("s3://bucket/")
    assert store.get_train_data_path(1) == f"{prefix}/intermediate_train_data.1"
    store.check_writable()
    path = f"{store.get_run_path('a')}/notes.txt"
    assert not store.exists(path)
    for text in ("first", "second"):
        store.write_text(path, text)
        assert store.exists(path) and store.read(path) == text.encode()
    assert store.fs.ls(store.get_localized_path(store.get_run_path("a")), detail=False) == [
        store.get_localized_path(path)
    ]
    with pytest.raises(StoreError, match=f"cannot read {prefix}/none: it does not exist in the store {prefix}"):
        store.read(f"{prefix}/none")


@pytest.mark.slow
def test_a_run_is_copied(store: Any) -> None:
    sync = store.to_remote("a", 1).sync
    with store.get_local_output_dir_fn("a")() as folder:
        os.mkdir(f"{folder}/logs")
        for text in ("first", "the second"):
            Path(f"{folder}/last.ckpt").write_text(text)
            Path(f"{folder}/logs/events").write_text(text)
            sync(folder)
            assert store.read(f"{store.get_run_path('a')}/last.ckpt") == text.encode()
    assert store.get_checkpoints("a") == [f"{store.get_run_path('a')}/last.ckpt"]
    assert store.exists(store.get_logs_path("a"))
    store.delete(store.get_run_path("a"))
    assert store.get_checkpoints("a") == []
    with pytest.raises(ValueError, match="is not deleted: it does not lie below the store"):
        store.delete("s3://bucket/other")


@pytest.mark.slow
def test_a_checkpoint_that_is_a_folder(store: Any) -> None:
    sync = store.sync_fn("a")
    with store.get_local_output_dir_fn("a")() as folder:
        os.mkdir(f"{folder}/checkpoint")
        for content in (b"12345", b"123456"):
            Path(f"{folder}/checkpoint/variables").write_bytes(content)
            sync(folder)
            assert store.has_complete_checkpoint("a")
    store.fs.pipe_file(f"{store.get_localized_path(store.get_checkpoint_path('a'))}/variables", b"1")
    assert not store.has_complete_checkpoint("a")


@pytest.mark.parametrize("ranks", [1, 3])
def test_rows_are_read(store: Any, options: Dict[str, Any], tmp_path: Path, ranks: int) -> None:
    path = store.get_train_data_path(2)
    for number in range(3):
        x = np.arange(100 * number, 100 * number + 100)
        pq.write_table(pa.table({"x": x, "y": x / 2}), tmp_path / f"{number}.parquet", row_group_size=30)
    store.copy(str(tmp_path), path, recursive=True)
    assert store.is_parquet_dataset(path) and not store.is_parquet_dataset(store.get_train_data_path(3))
    found = []
    for rank in range(ranks):
        reader = RowReader(path, None, rank, ranks, shuffle=True, storage_options=options)
        found += [x for batch in reader.batches(32) for x in batch["x"].tolist()]
    assert sorted(found) == list(range(300))


@pytest.mark.slow
def test_a_server_that_is_away_is_named(options: Dict[str, Any]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        once = {"config_kwargs": {"retries": {"total_max_attempts": 1}}, "endpoint_url": url}
        store = Store.create("s3://bucket/away", storage_options={**options, **once})
        store.fs.retries = 1
        message = "cannot write s3://bucket/away/x of the store s3://bucket/away: EndpointConnectionError"
        with pytest.raises(StoreError, match=message):
            store.write_text("s3://bucket/away/x", "text")
