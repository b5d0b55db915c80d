"""Stores on a filesystem: local or network folders, and object stores through fsspec."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Optional

from farandole.spark.common import store_files
from farandole.spark.common.constants import INCOMPLETE
from farandole.spark.common.store_files import errors_of
from farandole.spark.common.store_layout import StoreLayout


class AbstractFilesystemStore(StoreLayout):
    """A store on a filesystem that ``fs`` gives. The arguments are those of ``StoreLayout``."""

    def exists(self, path: str) -> bool:
        with errors_of("look for", path, self.name):
            self.fs.invalidate_cache()
            return bool(self.fs.exists(self.get_localized_path(path)))

    def read(self, path: str) -> bytes:
        """
        :raises StoreError: the file does not exist or cannot be read
        """
        with errors_of("read", path, self.name):
            return bytes(self.fs.cat_file(self.get_localized_path(path)))

    def read_serialized_keras_model(self, ckpt_path: str, model: Any, custom_objects: Optional[dict]) -> str:
        """The checkpoint's file, encoded by ``codec.dumps_base64``."""
        from farandole.runner.common.util import codec

        return str(codec.dumps_base64(self.read(ckpt_path)))

    def write_text(self, path: str, text: str) -> None:
        """
        :raises StoreError: the store cannot be written
        """
        with errors_of("write", path, self.name):
            store_files.write_bytes(self.fs, self.get_localized_path(path), text.encode())

    def check_writable(self) -> None:
        """Writes and deletes a small file in the folder of the rows to train on, to fail before any work is done.

        :raises StoreError: the store cannot be written
        """
        folder = self.get_localized_path(self._train_path).rstrip("/").rpartition("/")[0]
        probe = store_files.temporary_name(f"{folder}/probe")
        with errors_of("write", self._train_path, self.name):
            self.fs.makedirs(folder, exist_ok=True)
            self.fs.pipe_file(probe, b"")
            self.fs.rm_file(probe)

    def is_parquet_dataset(self, path: str) -> bool:
        try:
            return len(self.get_parquet_dataset(path).files) > 0
        except (OSError, ValueError):
            return False

    def get_parquet_dataset(self, path: str) -> Any:
        """
        :raises StoreError: there is no Parquet data at the path, or it cannot be read
        """
        from farandole.spark.requirements import require_pyarrow

        require_pyarrow()
        import pyarrow.dataset

        with errors_of("read", path, self.name):
            return pyarrow.dataset.dataset(
                self.get_localized_path(path), filesystem=self.fs, format="parquet", partitioning="hive"
            )

    def prepared_datasets(self) -> List[int]:
        """The numbers of the prepared data sets that are complete, the newest last."""
        pattern = f"{self.get_localized_path(self._train_path).rstrip('/')}."
        with errors_of("list", self._train_path, self.name):
            self.fs.invalidate_cache()
            folder = pattern.rpartition("/")[0]
            names = [entry["name"] for entry in self.fs.ls(folder, detail=True)] if self.fs.exists(folder) else []
        numbers = [name.rstrip("/").rpartition(".")[2] for name in names if name.rstrip("/").startswith(pattern)]
        found = sorted(int(number) for number in numbers if number.isdigit())
        return [idx for idx in found if self.exists(self.get_data_metadata_path(self.get_train_data_path(idx)))]

    def delete_dataset(self, idx: int) -> None:
        """Deletes the rows of a prepared data set."""
        for path in (self.get_train_data_path(idx), self.get_val_data_path(idx)):
            self.delete(path)

    def delete(self, path: str) -> None:
        """Deletes a file or folder of the store, if it exists.

        :raises ValueError: the path is not below the store's prefix and is no prepared data set or run of the store
        """
        location = self._location(path)
        roots = [self.prefix_path, self._runs_path]
        below = any(location.startswith(self._location(root) + "/") for root in roots if root is not None)
        data = [self._location(each) for each in (self._train_path, self._val_path, self._test_path)]
        prepared = any(re.fullmatch(re.escape(each) + r"\.[0-9]+(/.*)?", location) for each in data)
        if not below and not prepared:
            raise ValueError(f"{path} is not deleted: it does not lie below the store {self.name}")
        with errors_of("delete", path, self.name):
            self.fs.invalidate_cache()
            if self.fs.exists(location):
                self.fs.rm(location, recursive=True)

    def _location(self, path: str) -> str:
        """The path on the filesystem, without '..' and, for local folders, without links above its last part."""
        path = self.get_localized_path(path).rstrip("/")
        if store_files.is_local(self.fs):
            folder, _, name = path.rpartition("/")
            path = os.path.normpath(os.path.join(os.path.realpath(folder or "/"), name))
        if ".." in path.split("/"):
            raise ValueError(f"{path} contains '..': give the path itself")
        return path

    def has_complete_checkpoint(self, run_id: str) -> bool:
        """Whether the run has a checkpoint that was copied to the store in full."""
        path = self.get_checkpoint_path(run_id)
        with errors_of("read", path, self.name):
            return store_files.is_complete(self.fs, self.get_localized_path(path))

    def get_checkpoints(self, run_id: str, suffix: str = ".ckpt") -> List[str]:
        path = self.get_run_path(run_id)
        with errors_of("list", path, self.name):
            self.fs.invalidate_cache()
            location = self.get_localized_path(path)
            if not self.fs.isdir(location):
                return []
            found: Dict[str, Any] = self.fs.find(location, withdirs=True, detail=True)
            names = [
                name.rstrip("/")
                for name in found
                if name.rstrip("/").endswith(suffix) and INCOMPLETE not in name and name.rstrip("/") != location
            ]
            complete = [name for name in names if store_files.is_complete(self.fs, name)]
            complete.sort(key=lambda name: (self._age(name), name))
            return [path + name[len(location) :] for name in complete]

    def _age(self, location: str) -> float:
        """The time of the last change, where the filesystem has it."""
        try:
            return float(self.fs.modified(location).timestamp())
        except (NotImplementedError, FileNotFoundError, KeyError, AttributeError):
            return 0.0

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], ContextManager[str]]:
        store_files.checked_run_id(run_id)

        @contextlib.contextmanager
        def local_run_path() -> Iterator[str]:
            with tempfile.TemporaryDirectory(prefix="farandole-run-") as folder:
                yield folder

        return local_run_path

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        """A function that copies the changed files of a local folder to the folder of the run, file by file.

        Every file, and a checkpoint that is a folder, is copied under a temporary name and then moved.
        """
        run_path = self.get_localized_path(self.get_run_path(run_id))
        return store_files.RunUploader(self.fs, run_path, self.get_checkpoint_filename(), self.name)

    @property
    def fs(self) -> Any:
        """The fsspec filesystem."""
        raise NotImplementedError
