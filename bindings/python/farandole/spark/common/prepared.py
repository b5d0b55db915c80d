"""The data sets that this process has prepared. Each is written once, and used by every fit of the same frame."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

from farandole.spark.common.constants import DatasetIndex
from farandole.spark.common.metadata import Metadata

Properties = Tuple[int, int, Metadata, float]
"""Rows to train on, rows to validate with, the metadata of the columns, and the mean size of a row in bytes."""


@dataclass
class _Dataset:
    store: Any
    frame: Any
    """The DataFrame of Spark. It is kept so that no other frame gets its identity."""
    idx: int = -1
    properties: Optional[Properties] = None
    users: int = 0
    deleted_when_unused: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class PreparedData:
    """The prepared data sets by frame, store and arguments. All methods may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._datasets: Dict[Tuple[Any, ...], _Dataset] = {}
        self._in_use: List[_Dataset] = []

    def enter(self, key: Tuple[Any, ...], store: Any, frame: Any, write: Callable[[], Tuple[int, Properties]]) -> int:
        """Returns the number of the data set with this key, which is written first if there is none.

        Of several threads that need the same data set, one writes it and the others wait; if it fails, the next one
        tries. ``leave`` must be called with the number.
        """
        key = (id(frame), *key)
        with self._lock:
            dataset = self._datasets.setdefault(key, _Dataset(store, frame))
            dataset.users += 1
        try:
            with dataset.lock:
                path = store.get_train_data_path(dataset.idx) if dataset.properties is not None else None
                if path is None or not store.exists(store.get_data_metadata_path(path)):
                    dataset.idx, dataset.properties = write()
        except BaseException:
            with self._lock:
                dataset.users -= 1
                if dataset.users == 0 and self._datasets.get(key) is dataset:
                    del self._datasets[key]
            raise
        with self._lock:
            self._in_use.append(dataset)
        return dataset.idx

    def leave(self, idx: int) -> None:
        """Ends a use of a data set."""
        with self._lock:
            dataset = next(each for each in reversed(self._in_use) if each.idx == idx)
            self._in_use.reverse()
            self._in_use.remove(dataset)
            self._in_use.reverse()
            dataset.users -= 1
            is_deleted = dataset.users == 0 and dataset.deleted_when_unused
        if is_deleted:
            dataset.store.delete_dataset(dataset.idx)

    def properties(self, idx: DatasetIndex) -> Properties:
        """
        :raises ValueError: this process has not prepared a data set with this number
        """
        with self._lock:
            for dataset in [*self._datasets.values(), *self._in_use]:
                if str(dataset.idx) == str(idx) and dataset.properties is not None:
                    return dataset.properties
        raise ValueError(
            f"this process has prepared no data set with the number {idx}, or clear_training_cache has removed it: "
            "call prepare_data, or get_simple_meta_from_parquet for data that is in the store"
        )

    def newest(self, store: Any) -> Optional[int]:
        """The number of the data set of the store whose use began last, or that was written last."""
        path = store.get_train_data_path()
        with self._lock:
            for dataset in [*reversed(self._in_use), *reversed(list(self._datasets.values()))]:
                if dataset.properties is not None and dataset.store.get_train_data_path() == path:
                    return dataset.idx
        return None

    def clear(self) -> None:
        """Forgets all data sets and deletes their rows from the stores; those in use are deleted afterwards."""
        with self._lock:
            datasets = list(self._datasets.values())
            self._datasets.clear()
            for dataset in datasets:
                dataset.deleted_when_unused = True
            unused = [each for each in datasets if each.users == 0 and each.properties is not None]
        for dataset in unused:
            dataset.store.delete_dataset(dataset.idx)


DATASETS = PreparedData()
"""Those of this process."""


def resolve_dataset(store: Any, dataset_idx: DatasetIndex) -> DatasetIndex:
    """The number of the data set to read when none was given.

    :return: the number that was given. None if there is data at the path of the rows to train on. Otherwise the data
        set that this process uses or has prepared last, or else the newest one in the store; None if there is none
    """
    if dataset_idx is not None or not hasattr(store, "prepared_datasets"):
        return dataset_idx
    if store.is_parquet_dataset(store.get_train_data_path()):
        return None
    newest = DATASETS.newest(store)
    if newest is not None:
        return newest
    found = store.prepared_datasets()
    return found[-1] if found else None
