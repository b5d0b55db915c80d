"""Loaders of batches of PyTorch tensors from a ``RowReader``.

A batch is a dict from column to tensor, whose first dimension is the row. Each iteration is an epoch. ``len`` is the
number of steps that all ranks take in an epoch; a rank with fewer rows than steps yields fewer batches.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from typing import Any, Dict, Iterable, Iterator, Optional

import numpy as np
import torch

from farandole.data.data_loader_base import AsyncDataLoaderMixin, BaseDataLoader
from farandole.spark.reading.batches import Block
from farandole.spark.reading.columns import Columns

Batch = Dict[str, torch.Tensor]


def tensors_of(columns: Columns) -> Batch:
    """The columns of a batch as tensors of the same types.

    :raises ValueError: a column has strings, bytes or arrays of several lengths
    """
    return {name: _tensor(name, array) for name, array in columns.items()}


def _tensor(name: str, array: np.ndarray) -> torch.Tensor:
    if array.dtype == object:
        first = type(array[0]).__name__ if len(array) else "nothing"
        raise ValueError(
            f"the column {name} has values of the type {first}, which cannot be a tensor: convert it to numbers or to "
            "arrays of one length in Spark, or by transformation_fn"
        )
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _batches_of(blocks: Iterable[Block]) -> Iterator[Batch]:
    """The batches of blocks, which share the blocks' memory: to cut a tensor costs less than to make one."""
    for columns, sizes in blocks:
        tensors = tensors_of(columns)
        for batch in zip(*(torch.split_with_sizes(tensor, sizes) for tensor in tensors.values())):
            yield dict(zip(tensors, batch))


class _RankLoader(BaseDataLoader):
    """The batches of one rank, an epoch in each iteration. Derived classes have a method ``_epoch`` for all of them."""

    def __init__(self, reader: Any, batch_size: int, name: str, limit_step_per_epoch: int, verbose: bool) -> None:
        super().__init__()
        self.reader = reader
        self.batch_size = batch_size
        self.name = name
        self.limit_step_per_epoch = _checked(limit_step_per_epoch, name)
        self.verbose = verbose

    def __len__(self) -> int:
        """Steps that all ranks take in an epoch."""
        steps = int(self.reader.plan.steps(self.batch_size))
        return steps if self.limit_step_per_epoch < 0 else min(steps, self.limit_step_per_epoch)

    def _iterate(self) -> Iterator[Batch]:
        count = 0
        limit = None if self.limit_step_per_epoch < 0 else self.limit_step_per_epoch
        for batch in itertools.islice(self._epoch(), limit):
            count += 1
            yield batch
        self._say(f"an epoch has ended after {count} batches")

    @abstractmethod
    def _epoch(self) -> Iterator[Batch]:
        """The batches of an epoch, without a limit."""

    def _say(self, text: str) -> None:
        if self.verbose:
            print(f"{type(self).__name__} {self.name}, rank {self.reader.cur_shard}: {text}", flush=True)


def _checked(limit: Optional[int], name: str) -> int:
    if limit is None:
        return -1
    if limit == 0 or limit < -1:
        raise ValueError(f"limit_step_per_epoch of the loader {name!r} is a number above 0, or -1, not {limit}")
    return limit


class PytorchDataLoader(_RankLoader):
    """The batches of one rank, an epoch in each iteration.

    :param reader: a ``RowReader``
    :param batch_size: rows in each batch but the last ones
    :param shuffling_queue_capacity: rows in the shuffle buffer, if the reader shuffles; None for as many as take 48 MiB
    :param name: for messages
    :param limit_step_per_epoch: the largest number of batches in an epoch; -1 for all
    :param verbose: print when an epoch begins and ends
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int,
        shuffling_queue_capacity: Optional[int],
        name: str = "",
        limit_step_per_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        super().__init__(reader, batch_size, name, limit_step_per_epoch, verbose)
        self.shuffling_queue_capacity = shuffling_queue_capacity

    def _epoch(self) -> Iterator[Batch]:
        self._say(f"epoch {self.reader.epoch} of {self.reader.rows} rows begins")
        return _batches_of(self.reader.blocks(self.batch_size, self.shuffling_queue_capacity))


class PytorchAsyncDataLoader(AsyncDataLoaderMixin, PytorchDataLoader):
    """A ``PytorchDataLoader`` whose batches a thread prepares ahead (``async_loader_queue_size``)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class PytorchInfiniteDataLoader(PytorchDataLoader):
    """Goes through the rows again and again. An iteration continues after the last batch of the one before, and has
    ``limit_step_per_epoch`` batches, or is endless if that is -1."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._batches: Optional[Iterator[Batch]] = None

    def __len__(self) -> int:
        """Batches in an iteration; without a limit, the steps of one pass through the rows."""
        return self.limit_step_per_epoch if self.limit_step_per_epoch > 0 else super().__len__()

    def _epoch(self) -> Iterator[Batch]:
        if self._batches is None:
            self._batches = self._endless()
        return self._batches

    def _endless(self) -> Iterator[Batch]:
        while not self.reader.has_ended:
            yield from super()._epoch()


class PytorchInfiniteAsyncDataLoader(AsyncDataLoaderMixin, PytorchInfiniteDataLoader):
    """A ``PytorchInfiniteDataLoader`` whose batches a thread prepares ahead. If an iteration is left early, the batches
    that were prepared are skipped."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class PytorchInmemDataLoader(_RankLoader):
    """Keeps the rows of this rank in memory and reads nothing after the first epoch.

    :param reader: a ``RowReader``; its order of row groups does not matter
    :param batch_size: rows in each batch but the last ones
    :param num_epochs: the number of iterations that it allows; None for any number
    :param name: for messages
    :param shuffle: whether each epoch has another order, by the seed of the reader
    :param limit_step_per_epoch: the largest number of batches in an epoch; -1 for all
    :param verbose: print when an epoch begins and ends
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int,
        num_epochs: Optional[int],
        name: str = "",
        shuffle: bool = False,
        limit_step_per_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        super().__init__(reader, batch_size, name, limit_step_per_epoch, verbose)
        self.num_epochs = num_epochs
        self.shuffle = shuffle
        self._epochs = 0

    def _epoch(self) -> Iterator[Batch]:
        if self.num_epochs is not None and self._epochs >= self.num_epochs:
            raise ValueError(f"the loader {self.name!r} is for {self.num_epochs} epochs, and this is one more")
        epoch, self._epochs = self._epochs, self._epochs + 1
        self._say(f"epoch {epoch} of {self.reader.rows} rows begins")
        return _batches_of(self.reader.blocks_in_memory(self.batch_size, epoch, self.shuffle))


class PytorchInmemAsyncDataLoader(AsyncDataLoaderMixin, PytorchInmemDataLoader):
    """A ``PytorchInmemDataLoader`` whose batches a thread prepares ahead (``async_loader_queue_size``)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


class BatchedDataLoader(PytorchDataLoader):
    """A loader with the arguments of petastorm's class of this name.

    :param transform_fn: called with each batch
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        transform_fn: Any = None,
        shuffling_queue_capacity: Optional[int] = 0,
        name: str = "",
        limit_step_per_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        super().__init__(reader, batch_size, shuffling_queue_capacity, name, limit_step_per_epoch, verbose)
        self._transform_fn = transform_fn

    def _process_batch(self, batch: Any) -> Any:
        return batch if self._transform_fn is None else self._transform_fn(batch)


class PetastormBatchedDataLoader(BatchedDataLoader):
    """A ``BatchedDataLoader`` with a limit of batches per epoch."""

    def __init__(
        self, name: str = "", limit_step_per_epoch: int = -1, verbose: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        kwargs.update(name=name, limit_step_per_epoch=limit_step_per_epoch, verbose=verbose)
        super().__init__(*args, **kwargs)
