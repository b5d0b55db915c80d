"""The layout of a store in folders: the paths of data sets, runs, checkpoints and logs."""

from __future__ import annotations

import re
from typing import Any, Callable, Optional

from farandole.spark.common import store_files
from farandole.spark.common.constants import METADATA_FILE, DatasetIndex
from farandole.spark.common.store_base import Store


class StoreLayout(Store):
    """A store in folders, whose paths have the scheme of its filesystem.

    :param prefix_path: the folder of the store; all paths that are not given lie below it
    :param train_path: the folder of the rows to train on, with data that exists or will be prepared
    :param val_path: the folder of the rows to validate with
    :param test_path: the folder of the rows to test with
    :param runs_path: the folder of the runs
    :param save_runs: whether runs leave checkpoints and logs in the store
    :param storage_options: passed to the fsspec filesystem, for example keys or an endpoint
    :param checkpoint_filename: the name of a checkpoint in the folder of its run
    """

    def __init__(
        self,
        prefix_path: Optional[str],
        train_path: Optional[str] = None,
        val_path: Optional[str] = None,
        test_path: Optional[str] = None,
        runs_path: Optional[str] = None,
        save_runs: bool = True,
        storage_options: Optional[dict] = None,
        checkpoint_filename: Optional[str] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if kwargs:
            raise TypeError(f"{type(self).__name__} has no argument named {', '.join(sorted(kwargs))}")
        if prefix_path is None and (train_path is None or val_path is None):
            raise ValueError(
                f"{type(self).__name__} needs prefix_path, or train_path and val_path: "
                f"prefix_path is None, train_path is {train_path!r}, val_path is {val_path!r}"
            )
        for each in (prefix_path, train_path, val_path, test_path, runs_path):
            store_files.check_no_pattern(self.fs_is_local(), each)
        self.storage_options = storage_options
        self.prefix_path = self.get_full_path(prefix_path) if prefix_path is not None else None
        self._save_runs = save_runs and (prefix_path is not None or runs_path is not None)
        self._train_path = self._path_or(train_path, "intermediate_train_data")
        self._val_path = self._path_or(val_path, "intermediate_val_data")
        self._test_path = self._path_or(test_path, "intermediate_test_data")
        self._runs_path = self._path_or(runs_path, "runs")
        self._checkpoint_filename = checkpoint_filename or "checkpoint"
        store_files.checked_run_id(self._checkpoint_filename)
        self._logs_subdir = "logs"

    def _path_or(self, path: Optional[str], name: str) -> str:
        if path is not None:
            return self.get_full_path(path)
        # Without a prefix, the other paths lie beside the rows to train on.
        prefix = self.prefix_path or self._train_path.rstrip("/").rpartition("/")[0]
        return f"{prefix.rstrip('/')}/{name}"

    def fs_is_local(self) -> bool:
        """Whether the store's paths are paths of this machine, without connecting to the filesystem."""
        return False

    @property
    def name(self) -> str:
        """The folder of the store, for messages."""
        return self.prefix_path or self._train_path

    def get_train_data_path(self, idx: DatasetIndex = None) -> str:
        return self._numbered(self._train_path, idx)

    def get_val_data_path(self, idx: DatasetIndex = None) -> str:
        return self._numbered(self._val_path, idx)

    def get_test_data_path(self, idx: DatasetIndex = None) -> str:
        return self._numbered(self._test_path, idx)

    @staticmethod
    def _numbered(path: str, idx: DatasetIndex) -> str:
        if idx is None:
            return path
        if not re.fullmatch(r"[0-9]+", str(idx)):
            raise ValueError(f"the number of a data set has digits only, not {idx!r}")
        return f"{path.rstrip('/')}.{idx}"

    def get_data_metadata_path(self, path: str) -> str:
        """The file with the columns and numbers of rows of the prepared data at the path."""
        return f"{path.rstrip('/')}/{METADATA_FILE}"

    def saving_runs(self) -> bool:
        return self._save_runs

    def get_runs_path(self) -> str:
        return self._runs_path

    def get_run_path(self, run_id: str) -> str:
        return f"{self._runs_path.rstrip('/')}/{store_files.checked_run_id(run_id)}"

    def get_checkpoint_path(self, run_id: str) -> str:
        return f"{self.get_run_path(run_id)}/{self.get_checkpoint_filename()}"

    def get_logs_path(self, run_id: str) -> str:
        return f"{self.get_run_path(run_id)}/{self.get_logs_subdir()}"

    def get_checkpoint_filename(self) -> str:
        return self._checkpoint_filename

    def get_logs_subdir(self) -> str:
        return self._logs_subdir

    def get_localized_path(self, path: str) -> str:
        """The path as ``fs`` takes it, without its scheme."""
        raise NotImplementedError

    def get_full_path(self, path: str) -> str:
        """The path with its scheme, as Spark takes it."""
        raise NotImplementedError

    def get_full_path_fn(self) -> Callable[[str], str]:
        """``get_full_path`` as a function that can be pickled."""
        raise NotImplementedError
