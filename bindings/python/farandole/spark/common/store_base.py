"""The interface of stores: folders that hold the prepared data of estimators, and their runs with checkpoints and logs.

PREFIX/intermediate_train_data[.N]    rows to train on; N is the number of a prepared data set
PREFIX/intermediate_val_data[.N]      rows to validate with
PREFIX/intermediate_test_data[.N]
PREFIX/runs/RUN_ID/checkpoint
PREFIX/runs/RUN_ID/logs
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, Callable, ClassVar, ContextManager, List, Optional

from farandole.spark.common.constants import DatasetIndex


class RemoteStore(SimpleNamespace):
    """The part of a store that a worker needs for one run. It is a plain value, which can be pickled.

    ``train_data_path``, ``val_data_path``, ``test_data_path``, ``runs_path``, ``run_path``, ``checkpoint_path`` and
    ``logs_path`` are paths with their scheme. ``get_local_output_dir()`` is a context manager that gives a new local
    folder; ``sync(folder)`` copies the folder to ``run_path``. ``storage_options`` are those of the store.
    """

    train_data_path: str
    val_data_path: str
    test_data_path: str
    saving_runs: bool
    runs_path: str
    run_path: str
    checkpoint_path: str
    logs_path: str
    checkpoint_filename: str
    logs_subdir: str
    get_local_output_dir: Callable[[], ContextManager[str]]
    sync: Callable[[str], None]
    storage_options: Optional[dict]


class Store:
    """A folder for prepared data and runs, on any filesystem. ``Store.create`` makes the store of a path."""

    storage_options: Optional[dict] = None

    def __init__(self) -> None:
        """A store needs no state of its own; classes of stores keep their paths."""

    def is_parquet_dataset(self, path: str) -> bool:
        """Whether the path is a folder or a file with Parquet data."""
        raise NotImplementedError

    def get_parquet_dataset(self, path: str) -> Any:
        """The Parquet data at the path, as a ``pyarrow.dataset.Dataset``."""
        raise NotImplementedError

    def get_train_data_path(self, idx: DatasetIndex = None) -> str:
        """The folder of the rows to train on, of the prepared data set with this number."""
        raise NotImplementedError

    def get_val_data_path(self, idx: DatasetIndex = None) -> str:
        """The folder of the rows to validate with, of the prepared data set with this number."""
        raise NotImplementedError

    def get_test_data_path(self, idx: DatasetIndex = None) -> str:
        """The folder of the rows to test with, of the prepared data set with this number."""
        raise NotImplementedError

    def saving_runs(self) -> bool:
        """Whether runs leave checkpoints and logs in the store."""
        raise NotImplementedError

    def get_runs_path(self) -> str:
        """The folder of all runs."""
        raise NotImplementedError

    def get_run_path(self, run_id: str) -> str:
        """The folder of a run.

        :raises ValueError: ``run_id`` is not the name of a folder
        """
        raise NotImplementedError

    def get_checkpoint_path(self, run_id: str) -> str:
        """The checkpoint of a run, a file or a folder."""
        raise NotImplementedError

    def get_checkpoints(self, run_id: str, suffix: str = ".ckpt") -> List[str]:
        """The complete checkpoints of a run that end with ``suffix``, the newest last."""
        raise NotImplementedError

    def get_logs_path(self, run_id: str) -> str:
        """The folder of a run's logs."""
        raise NotImplementedError

    def get_checkpoint_filename(self) -> str:
        """The name of a checkpoint in the folder of its run."""
        raise NotImplementedError

    def get_logs_subdir(self) -> str:
        """The name of the folder of logs in the folder of a run."""
        raise NotImplementedError

    def exists(self, path: str) -> bool:
        """Whether there is a file or a folder at the path."""
        raise NotImplementedError

    def read(self, path: str) -> bytes:
        """The content of a file."""
        raise NotImplementedError

    def write_text(self, path: str, text: str) -> None:
        """Writes a file; a reader sees the old content or the new."""
        raise NotImplementedError

    def get_local_output_dir_fn(self, run_id: str) -> Callable[[], ContextManager[str]]:
        """A function that gives, as a context manager, a new local folder for the run's output."""
        raise NotImplementedError

    def sync_fn(self, run_id: str) -> Callable[[str], None]:
        """A function that copies a local folder to the folder of the run."""
        raise NotImplementedError

    def to_remote(self, run_id: str, dataset_idx: DatasetIndex) -> RemoteStore:
        """The values that a worker needs of this store for a run on a data set.

        ``dataset_idx`` None means the data at the train and validation path, or, if there is none, the prepared data
        set in use or the newest one.
        """
        from farandole.spark.common.prepared import resolve_dataset

        dataset_idx = resolve_dataset(self, dataset_idx)
        return RemoteStore(
            train_data_path=self.get_train_data_path(dataset_idx),
            val_data_path=self.get_val_data_path(dataset_idx),
            test_data_path=self.get_test_data_path(dataset_idx),
            saving_runs=self.saving_runs(),
            runs_path=self.get_runs_path(),
            run_path=self.get_run_path(run_id),
            checkpoint_path=self.get_checkpoint_path(run_id),
            logs_path=self.get_logs_path(run_id),
            checkpoint_filename=self.get_checkpoint_filename(),
            logs_subdir=self.get_logs_subdir(),
            get_local_output_dir=self.get_local_output_dir_fn(run_id),
            sync=self.sync_fn(run_id),
            storage_options=self.storage_options,
        )

    _class_for: ClassVar[Callable[[str], type]]
    """The class for a path; set by the module that knows all classes, ``store``."""

    @staticmethod
    def create(prefix_path: str, *args: Any, **kwargs: Any) -> Store:
        """The store at a path: HDFS for ``hdfs://``, DBFS for its paths on Databricks, otherwise by fsspec.

        The other arguments are those of the store's class.
        """
        prefix_path = os.fspath(prefix_path)
        return Store._class_for(prefix_path)(prefix_path, *args, **kwargs)
