"""The interface between a trainer and the data of its rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Callable, Mapping, Optional, Sequence


class DataModule(ABC):
    """The data of one rank, used as a context manager: ``train_data`` and ``val_data`` are called inside its block.

    :param train_dir: the folder of the rows to train on, a path or URL
    :param val_dir: the folder of the rows to validate with
    :param num_train_epochs: the number of epochs that will be trained
    :param has_val: whether there are rows to validate with
    :param train_batch_size: rows in a batch of ``train_data``
    :param val_batch_size: rows in a batch of ``val_data``
    :param shuffle: whether to train in random order
    :param transform_fn: a function from a pandas frame of rows to another one with as many rows
    :param inmemory_cache_all: whether to keep all rows of this rank in memory
    :param cur_shard: this rank
    :param shard_count: the number of ranks
    :param schema_fields: the columns to read; None for all
    :param storage_options: passed to the fsspec filesystem
    :param steps_per_epoch_train: the number of steps of an epoch, if the trainer was given one
    :param steps_per_epoch_val: the number of steps of a validation, if the trainer was given one
    :param verbose: whether to print when epochs begin and end
    :param kwargs: further parameters of the estimator, of which a class takes those that it knows
    """

    short_name: Optional[str] = None
    """A name for messages."""

    def __init__(
        self,
        train_dir: str,
        val_dir: str,
        num_train_epochs: int = 1,
        has_val: bool = True,
        train_batch_size: int = 32,
        val_batch_size: int = 32,
        shuffle: bool = True,
        transform_fn: Optional[Callable[[Any], Any]] = None,
        inmemory_cache_all: bool = False,
        cur_shard: int = 0,
        shard_count: int = 1,
        schema_fields: Optional[Sequence[str]] = None,
        storage_options: Optional[Mapping[str, Any]] = None,
        steps_per_epoch_train: Optional[int] = 1,
        steps_per_epoch_val: Optional[int] = 1,
        verbose: bool = True,
        **kwargs: Any,
    ) -> None:
        self.train_dir = train_dir
        self.val_dir = val_dir
        self.num_train_epochs = num_train_epochs
        self.has_val = has_val
        self.train_batch_size = train_batch_size
        self.val_batch_size = val_batch_size
        self.shuffle = shuffle
        self.transform_fn = transform_fn
        self.inmemory_cache_all = inmemory_cache_all
        self.cur_shard = cur_shard
        self.shard_count = shard_count
        self.schema_fields = schema_fields
        self.storage_options = storage_options
        self.steps_per_epoch_train = steps_per_epoch_train
        self.steps_per_epoch_val = steps_per_epoch_val
        self.verbose = verbose
        self.transformation_edit_fields = kwargs.get("transformation_edit_fields")
        self.transformation_removed_fields = kwargs.get("transformation_removed_fields")

    def __enter__(self) -> DataModule:
        return self

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:  # noqa: B027  (a module may have nothing to do)
        """Closes what ``train_data`` and ``val_data`` have opened."""

    @abstractmethod
    def train_data(self) -> Any:
        """The batches to train on, as an iterable of which each iteration is an epoch."""

    @abstractmethod
    def val_data(self) -> Any:
        """The batches to validate with, as an iterable; None if there are none."""
