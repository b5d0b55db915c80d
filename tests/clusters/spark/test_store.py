"""Stores: paths, methods, safe writes and deletion, on local folders, in memory, on HDFS and DBFS."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Iterator

import fsspec
import pyarrow.fs
import pytest
from farandole.runner.common.util import codec
from farandole.spark.common import store_files
from farandole.spark.common.constants import INCOMPLETE, MANIFEST_FILE
from farandole.spark.common.store import (
    DBFSLocalStore,
    FilesystemStore,
    HDFSStore,
    LocalStore,
    Store,
    StoreError,
)


@pytest.fixture
def memory() -> Iterator[str]:
    """A folder of fsspec's filesystem in memory."""
    path = f"memory://{uuid.uuid4().hex}"
    yield path
    filesystem = fsspec.filesystem("memory")
    if filesystem.exists(path):
        filesystem.rm(path, recursive=True)


class MemoryHDFSStore(HDFSStore):
    """HDFS whose files are in memory."""

    def _connect(self) -> Any:
        return fsspec.filesystem("memory")


class ArrowHDFSStore(HDFSStore):
    """HDFS whose files are local, by the same wrapper of fsspec around a filesystem of PyArrow."""

    def _connect(self) -> Any:
        from fsspec.implementations.arrow import ArrowFSWrapper
        from pyarrow.fs import LocalFileSystem

        return ArrowFSWrapper(LocalFileSystem())


def test_the_layout_of_a_local_store(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    assert type(store) is FilesystemStore
    assert Store.create(tmp_path).get_runs_path() == store.get_runs_path()
    prefix = f"file://{tmp_path}"
    assert store.get_train_data_path() == f"{prefix}/intermediate_train_data"
    assert store.get_train_data_path(3) == f"{prefix}/intermediate_train_data.3"
    assert store.get_val_data_path("12") == f"{prefix}/intermediate_val_data.12"
    assert store.get_test_data_path() == f"{prefix}/intermediate_test_data"
    assert store.get_runs_path() == f"{prefix}/runs"
    assert store.get_run_path("a") == f"{prefix}/runs/a"
    assert store.get_checkpoint_path("a") == f"{prefix}/runs/a/checkpoint"
    assert store.get_logs_path("a") == f"{prefix}/runs/a/logs"
    assert (store.get_checkpoint_filename(), store.get_logs_subdir()) == ("checkpoint", "logs")
    assert store.saving_runs() is True
    assert store.get_localized_path(f"{prefix}/x") == f"{tmp_path}/x"
    assert store.get_full_path_fn()(f"{tmp_path}/x") == f"{prefix}/x"


def test_paths_can_be_given_one_by_one(tmp_path: Path) -> None:
    store = LocalStore(
        str(tmp_path),
        train_path="/data/train",
        runs_path=f"file://{tmp_path}/r",
        save_runs=False,
        checkpoint_filename="c",
    )
    assert store.get_train_data_path(1) == "file:///data/train.1"
    assert store.get_checkpoint_path("a") == f"file://{tmp_path}/r/a/c"
    assert store.saving_runs() is False


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Store.create("here").get_runs_path() == f"file://{tmp_path}/here/runs"


@pytest.mark.parametrize("run_id", ["../a", "a/b", "..", ".", "", "a\\b", "*", "a[b]", None])
def test_a_run_stays_below_the_runs(tmp_path: Path, run_id: Any) -> None:
    store = Store.create(str(tmp_path))
    for method in (store.get_run_path, store.get_checkpoint_path, store.get_logs_path, store.sync_fn):
        with pytest.raises(ValueError, match="run_id is the name of a folder below the store's runs, not"):
            method(run_id)


def test_the_number_of_a_data_set_has_digits_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"digits only, not '1/\.\./\.\./x'"):
        Store.create(str(tmp_path)).get_train_data_path("1/../../x")


def test_a_path_that_fsspec_would_take_for_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the path memory://a\* of a store contains '\*', '\?' or '\['"):
        Store.create("memory://a*")
    with pytest.raises(ValueError, match="the path hdfs:///a.b. of a store contains"):
        HDFSStore("hdfs:///a[b]")
    store = Store.create(str(tmp_path / "a[b]*"))
    store.write_text(store.get_checkpoint_path("run"), "text")
    store.write_text(store.get_checkpoint_path("run"), "other text")
    assert store.read(store.get_checkpoint_path("run")) == b"other text"
    assert store.get_checkpoints("run", "checkpoint") == [store.get_checkpoint_path("run")]
    (tmp_path / "ab").mkdir()
    store.delete(store.get_run_path("run"))
    assert (tmp_path / "ab").exists() and not store.exists(store.get_run_path("run"))


def test_an_unknown_argument_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="FilesystemStore has no argument named colour"):
        Store.create(str(tmp_path), colour="red")


def test_text_is_written_and_read(tmp_path: Path, memory: str) -> None:
    for prefix in (str(tmp_path), memory):
        store = Store.create(prefix)
        path = f"{store.get_run_path('a')}/notes.txt"
        assert not store.exists(path)
        store.write_text(path, "first")
        store.write_text(path, "second")
        assert store.exists(path)
        assert store.read(path) == b"second"
        assert store.fs.ls(store.get_localized_path(store.get_run_path("a")), detail=False) == [
            store.get_localized_path(path)
        ]


def test_a_missing_file_is_named_with_the_store(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    with pytest.raises(
        StoreError, match=rf"cannot read {tmp_path}/x: it does not exist in the store file://{tmp_path}"
    ):
        store.read(f"{tmp_path}/x")


def test_a_store_that_cannot_be_written_is_named_with_the_cause(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store.create(f"{tmp_path}/file/store")
    for write in (store.check_writable, lambda: store.write_text(f"{tmp_path}/file/store/x", "text")):
        with pytest.raises(
            StoreError, match=rf"cannot write file.*{tmp_path}/file/store.*|cannot write {tmp_path}"
        ) as found:
            write()
        assert "NotADirectoryError" in str(found.value) or "FileExistsError" in str(found.value)
        assert "free space" in str(found.value)


def test_a_full_store_leaves_nothing_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.create(str(tmp_path))
    path = f"{tmp_path}/notes.txt"
    store.write_text(path, "old")
    real = type(store.fs).pipe_file

    def full(self: Any, target: str, content: bytes, **options: Any) -> None:
        real(self, target, content[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(store.fs), "pipe_file", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.write_text(path, "new")
    assert store.read(path) == b"old"
    assert os.listdir(tmp_path) == ["notes.txt"]


def write_run(folder: str, text: str) -> None:
    os.makedirs(f"{folder}/logs", exist_ok=True)
    Path(f"{folder}/checkpoint").write_text(text)
    Path(f"{folder}/logs/events").write_text(f"events of {text}")


def test_a_run_is_copied_and_only_changes_are_copied_again(
    tmp_path: Path, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = []
    for prefix in (str(tmp_path / "store"), memory):
        store = Store.create(prefix)
        real = type(store.fs).put_file
        monkeypatch.setattr(
            type(store.fs),
            "put_file",
            lambda self, local, *args, real=real, **options: (
                copied.append(local),
                real(self, local, *args, **options),
            ),
        )
        sync = pickle.loads(pickle.dumps(store.sync_fn("a")))
        with store.get_local_output_dir_fn("a")() as folder:
            write_run(folder, "first")
            sync(folder)
            assert store.read(store.get_checkpoint_path("a")) == b"first"
            assert store.read(f"{store.get_logs_path('a')}/events") == b"events of first"
            copied.clear()
            Path(f"{folder}/checkpoint").write_text("the second")
            sync(folder)
            assert [Path(each).name for each in copied] == ["checkpoint"]
        assert store.read(store.get_checkpoint_path("a")) == b"the second"
        assert store.has_complete_checkpoint("a") and not store.has_complete_checkpoint("b")
        assert not Path(folder).exists()
        assert not [name for name in store.fs.find(store.get_localized_path(prefix)) if INCOMPLETE in name]


def test_an_interrupted_copy_leaves_the_complete_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.create(str(tmp_path / "store"))
    sync = store.sync_fn("a")
    with store.get_local_output_dir_fn("a")() as folder:
        write_run(folder, "first")
        sync(folder)
        write_run(folder, "the second")

        def torn(self: Any, local: str, target: str, **options: Any) -> None:
            Path(target).write_text("the s")
            raise KeyboardInterrupt

        monkeypatch.setattr(type(store.fs), "put_file", torn)
        with pytest.raises(KeyboardInterrupt):
            sync(folder)
    assert store.read(store.get_checkpoint_path("a")) == b"first"
    assert sorted(os.listdir(tmp_path / "store/runs/a")) == ["checkpoint", "logs"]


def test_a_killed_copy_is_never_taken_for_a_checkpoint(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    program = f"""
import os
from farandole.spark.common.store import Store
store = Store.create({str(tmp_path)!r})
def torn(local, target, **options):
    open(target, "w").write("to")
    os._exit(9)
store.fs.put_file = torn
with open({str(tmp_path / "last.ckpt")!r}, "w") as file: file.write("torn")
os.makedirs({str(tmp_path / "local")!r})
os.rename({str(tmp_path / "last.ckpt")!r}, {str(tmp_path / "local/last.ckpt")!r})
store.sync_fn("a")({str(tmp_path / "local")!r})
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=240, check=False).returncode == 9
    assert [INCOMPLETE in name for name in os.listdir(tmp_path / "runs/a")] == [True]
    assert store.get_checkpoints("a") == []
    assert not store.has_complete_checkpoint("a")


def test_a_checkpoint_that_is_a_folder_is_complete_or_not_there(tmp_path: Path, memory: str) -> None:
    for prefix in (str(tmp_path / "store"), memory):
        store = Store.create(prefix, checkpoint_filename="checkpoint.tf")
        sync = store.sync_fn("a")
        with store.get_local_output_dir_fn("a")() as folder:
            os.makedirs(f"{folder}/checkpoint.tf/variables")
            Path(f"{folder}/checkpoint.tf/saved_model.pb").write_bytes(b"graph")
            Path(f"{folder}/checkpoint.tf/variables/data").write_bytes(b"12345")
            sync(folder)
            Path(f"{folder}/checkpoint.tf/variables/data").write_bytes(b"123456")
            sync(folder)
        location = store.get_localized_path(store.get_checkpoint_path("a"))
        assert store.fs.cat_file(f"{location}/variables/data") == b"123456"
        assert store.has_complete_checkpoint("a")
        assert store.get_checkpoints("a", ".tf") == [store.get_checkpoint_path("a")]
        store.fs.pipe_file(f"{location}/variables/data", b"1234")
        assert not store.has_complete_checkpoint("a")
        assert store.get_checkpoints("a", ".tf") == []
        store.fs.rm_file(f"{location}/{MANIFEST_FILE}")
        assert not store.has_complete_checkpoint("a")


def test_checkpoints_are_listed_the_newest_last(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    for age, name in [(1, "b.ckpt"), (2, "a.ckpt"), (3, "sub/c.ckpt"), (4, "other.txt")]:
        path = f"{store.get_run_path('run')}/{name}"
        store.write_text(path, name)
        os.utime(store.get_localized_path(path), (age, age))
    assert [Path(each).name for each in store.get_checkpoints("run")] == ["b.ckpt", "a.ckpt", "c.ckpt"]
    assert store.get_checkpoints("another") == []


def test_the_remote_store_has_the_paths_of_a_run(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path / "store"), storage_options={"auto_mkdir": True})
    remote = codec.loads_base64(codec.dumps_base64(store.to_remote("a", 7)))
    assert remote.train_data_path == store.get_train_data_path(7)
    assert remote.val_data_path == store.get_val_data_path(7)
    assert remote.test_data_path == store.get_test_data_path(7)
    assert (remote.run_path, remote.runs_path) == (store.get_run_path("a"), store.get_runs_path())
    assert (remote.checkpoint_path, remote.logs_path) == (store.get_checkpoint_path("a"), store.get_logs_path("a"))
    assert (remote.checkpoint_filename, remote.logs_subdir, remote.saving_runs) == ("checkpoint", "logs", True)
    assert remote.storage_options == {"auto_mkdir": True}
    with remote.get_local_output_dir() as folder:
        write_run(folder, "remote")
        remote.sync(folder)
    assert store.read(remote.checkpoint_path) == b"remote"


def test_deletion_stays_below_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "store/runs/a").mkdir(parents=True)
    (tmp_path / "outside/intermediate").mkdir(parents=True)
    (tmp_path / "store/link").symlink_to(tmp_path / "outside")
    store = Store.create(str(tmp_path / "store"), train_path=str(tmp_path / "elsewhere"))
    for path in (
        str(tmp_path / "store"),
        str(tmp_path / "outside"),
        str(tmp_path / "store/../outside"),
        str(tmp_path / "store/link/intermediate"),
        str(tmp_path / "store2"),
        str(tmp_path / "elsewhere"),
        "/",
    ):
        with pytest.raises(ValueError, match="is not deleted: it does not lie below the store"):
            store.delete(path)
    (tmp_path / "elsewhere.12").mkdir()
    store.delete_dataset(12)
    store.delete(store.get_run_path("a"))
    assert sorted(os.listdir(tmp_path)) == ["outside", "store"]
    assert os.listdir(tmp_path / "outside") == ["intermediate"]
    memory = Store.create("memory://delete/store")
    with pytest.raises(ValueError, match="contains '..'"):
        memory.delete("memory://delete/store/../x")


def test_files_and_folders_can_be_copied(tmp_path: Path, memory: str) -> None:
    (tmp_path / "folder/sub").mkdir(parents=True)
    (tmp_path / "folder/sub/x").write_text("x")
    (tmp_path / "y").write_text("y")
    store = FilesystemStore(memory)
    store.copy(str(tmp_path / "y"), f"{memory}/y")
    store.copy(str(tmp_path / "folder"), f"{memory}/folder", recursive=True)
    assert (store.read(f"{memory}/y"), store.read(f"{memory}/folder/sub/x")) == (b"y", b"x")
    assert store.get_filesystem() is store.fs


def test_a_filesystem_without_its_package_says_which(tmp_path: Path) -> None:
    with pytest.raises(ImportError, match=r"the store gs://bucket/run needs another package for fsspec: .*gcsfs"):
        Store.create("gs://bucket/run")


def test_stores_need_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match="stores need the package fsspec: pip install fsspec"):
        Store.create(str(tmp_path))


def test_hdfs_paths() -> None:
    store = Store.create("hdfs://node:9000/user/x")
    assert type(store) is HDFSStore
    assert store.get_train_data_path(1) == "hdfs://node:9000/user/x/intermediate_train_data.1"
    assert store.get_localized_path(store.get_runs_path()) == "/user/x/runs"
    assert store.parse_url("hdfs://node:9000/a") == ("node", 9000, "/a")
    assert store.parse_url("hdfs:///a") == (None, None, "/a")
    assert store.parse_url("/a") == (None, None, "/a")
    assert HDFSStore("/user/x").get_runs_path() == "hdfs:///user/x/runs"
    assert HDFSStore("/user/x", host="node").get_runs_path() == "hdfs://node/user/x/runs"
    with pytest.raises(ValueError, match="s3://bucket is not an HDFS path: write hdfs://host:port/path"):
        store.parse_url("s3://bucket")
    with pytest.raises(ValueError, match="driver is 'libhdfs', not 'libhdfs3'"):
        HDFSStore("/user/x", driver="libhdfs3")


def test_workers_connect_to_hdfs_as_the_driver_does() -> None:
    store = HDFSStore("hdfs://node:9000/x", user="me", kerb_ticket="/tmp/ticket", extra_conf={"a": "b"})
    remote = store.to_remote("run", 1)
    assert remote.storage_options == {"user": "me", "kerb_ticket": "/tmp/ticket", "extra_conf": {"a": "b"}}
    assert HDFSStore("hdfs://node:9000/x").to_remote("run", 1).storage_options is None
    from fsspec.implementations.arrow import HadoopFileSystem

    assert HadoopFileSystem._get_kwargs_from_urls(remote.train_data_path) == {"host": "node", "port": 9000}


@pytest.mark.parametrize(
    ("path", "expected"),
    [("hdfs://nameservice/x", ("nameservice", 0)), ("hdfs://node:9000/x", ("node", 9000)), ("/x", ("default", 0))],
)
def test_hdfs_is_asked_for_no_port_that_is_not_given(path: str, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name service of several name nodes must have none."""
    connected = []

    def connect(host: str, port: int, **_: Any) -> Any:
        connected.append((host, port))
        return pyarrow.fs.LocalFileSystem()

    monkeypatch.setattr(pyarrow.fs, "HadoopFileSystem", connect)
    assert HDFSStore(path).fs is not None and connected == [expected]


def test_hdfs_needs_no_prefix_when_both_data_paths_are_given() -> None:
    store = HDFSStore(train_path="/user/x/train", val_path="/user/x/val")
    assert store.get_train_data_path() == "hdfs:///user/x/train"
    assert store.saving_runs() is False
    with pytest.raises(ValueError, match="train_path is '/user/x/train', val_path is None"):
        HDFSStore(train_path="/user/x/train")


@pytest.mark.parametrize("kind", [MemoryHDFSStore, ArrowHDFSStore])
def test_hdfs_files(memory: str, tmp_path: Path, kind: Any) -> None:
    folder = memory.rpartition("/")[2] if kind is MemoryHDFSStore else str(tmp_path).lstrip("/")
    store = kind(f"hdfs://node:9000/{folder}")
    store.check_writable()
    store.write_text(f"{store.get_run_path('a')}/x", "text")
    store.write_text(f"{store.get_run_path('a')}/x", "other text")
    assert store.fs.cat_file(f"/{folder}/runs/a/x") == b"other text"
    assert store.exists(f"hdfs://node:9000/{folder}/runs/a/x")
    sync = codec.loads_base64(codec.dumps_base64(store.sync_fn("a")))
    with store.get_local_output_dir_fn("a")() as output:
        write_run(output, "hdfs")
        sync(output)
    assert store.read(store.get_checkpoint_path("a")) == b"hdfs"
    assert pickle.loads(pickle.dumps(store)).read(store.get_checkpoint_path("a")) == b"hdfs"
    assert store.get_checkpoints("a", "checkpoint") == [store.get_checkpoint_path("a")]
    store.delete(store.get_run_path("a"))
    assert not store.exists(store.get_run_path("a")) and store.prepared_datasets() == []


@pytest.mark.parametrize("path", ["dbfs:/folder/x", "dbfs:///folder/x", "/dbfs/folder/x", "file:///dbfs/folder/x"])
def test_dbfs_paths(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert DBFSLocalStore.matches_dbfs(path)
    assert DBFSLocalStore.normalize_path(path) == "/dbfs/folder/x"
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    store = Store.create(path)
    assert type(store) is DBFSLocalStore
    assert store.get_train_data_path(0) == "file:///dbfs/folder/x/intermediate_train_data.0"
    assert store.get_localized_path(path) == "/dbfs/folder/x"
    assert store.get_checkpoint_path("a") == "file:///dbfs/folder/x/runs/a/checkpoint.tf"
    assert not store.exists(path)


def test_dbfs_is_used_on_databricks_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    assert type(Store.create("/dbfs/folder")) is FilesystemStore
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "15.4")
    assert type(Store.create(str(tmp_path))) is FilesystemStore
    with pytest.raises(ValueError, match="/other is not a path of DBFS: write dbfs:/folder"):
        DBFSLocalStore.normalize_path("/other")


def test_a_serialized_keras_model_is_the_content_of_its_file(tmp_path: Path) -> None:
    store = Store.create(str(tmp_path))
    store.write_text(store.get_checkpoint_path("a"), "model")
    encoded = store.read_serialized_keras_model(store.get_checkpoint_path("a"), None, {})
    assert codec.loads_base64(encoded) == b"model"


def test_other_output_of_an_incomplete_name_is_no_checkpoint(tmp_path: Path) -> None:
    filesystem, path = store_files.filesystem_of(str(tmp_path / f"{INCOMPLETE}x.ckpt"))
    Path(path).write_text("")
    assert not store_files.is_complete(filesystem, path)
    shutil.rmtree(tmp_path)
