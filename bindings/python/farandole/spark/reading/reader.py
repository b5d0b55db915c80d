"""Reads the rows of one rank from Parquet data."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping, Optional, Sequence

import numpy as np

from farandole.data import AsyncDataLoaderMixin, BaseDataLoader
from farandole.spark.common.constants import CUSTOM_SPARSE
from farandole.spark.common.metadata import read_formats
from farandole.spark.reading import shuffling
from farandole.spark.reading.batches import Block, batches_of, blocks
from farandole.spark.reading.columns import ColumnDecoder, Columns, rows_of
from farandole.spark.reading.plan import ReadingPlan
from farandole.spark.reading.pool import RowPool


class RowReader:
    """The rows of one rank. Each pass is an epoch, in which it delivers each of its rows once.

    A thread reads ahead by one piece, so that at most two pieces, which are row groups or parts of large ones, are in
    memory besides the shuffle buffer. If all rows of the rank fit into the shuffle buffer, they are read once and stay
    there. With a ``transform`` they are read in each epoch, because it may return other values each time.

    :param path: Parquet data that ``prepare_data`` or another program has written; a path or URL
    :param columns: the columns to read; None for all
    :param cur_shard: this rank
    :param shard_count: the number of ranks
    :param shuffle: whether to deliver the rows in random order
    :param seed: determines the order; must be the same on all ranks
    :param storage_options: passed to the fsspec filesystem
    :param transform: called with each piece of rows; it must keep their number
    :param read_ahead: whether a thread reads ahead
    :param in_memory: whether to keep all rows in memory after the first pass, and to read nothing later
    """

    def __init__(
        self,
        path: Optional[str],
        columns: Optional[Sequence[str]] = None,
        cur_shard: int = 0,
        shard_count: int = 1,
        shuffle: bool = False,
        seed: Optional[int] = 0,
        storage_options: Optional[Mapping[str, Any]] = None,
        transform: Optional[Callable[[Columns], Columns]] = None,
        read_ahead: bool = True,
        in_memory: bool = False,
    ) -> None:
        from farandole.spark.reading.parquet import ParquetFolder

        self._folder = None if path is None else ParquetFolder(path, columns, storage_options)
        group_rows = [] if self._folder is None else [group.rows for group in self._folder.groups]
        self.plan = ReadingPlan(group_rows, shard_count, shuffle, seed or 0)
        self.cur_shard = cur_shard
        self.rows = self.plan.shard_rows(cur_shard)
        self.epoch = 0
        """The number of the next pass; it changes the order of the rows."""
        self._transform = transform
        self._read_ahead = read_ahead
        self._in_memory = in_memory
        self._last_epoch: Optional[int] = None
        self._kept: Optional[RowPool] = None
        """All rows of this rank, after the first pass of a reader that keeps them."""
        self._decoders = self._make_decoders()

    @classmethod
    def empty(cls) -> RowReader:
        """A reader of no rows."""
        return cls(None)

    def keep(self, in_memory: bool, epochs: Optional[int]) -> None:
        """Sets whether to keep all rows in memory, and the number of epochs after which there are no more batches."""
        self._in_memory = in_memory
        self._last_epoch = epochs

    @property
    def has_ended(self) -> bool:
        """Whether there are no more batches in later epochs."""
        return self.rows == 0 or (self._last_epoch is not None and self.epoch >= self._last_epoch)

    def _make_decoders(self) -> Mapping[str, ColumnDecoder]:
        if self._folder is None:
            return {}
        folder = self._folder
        entries = read_formats(folder.filesystem, folder.location, folder.rows)
        folder.unpacked_row_bytes = sum(
            8 * entry["shape"]
            for name, entry in entries.items()
            if name in folder.columns and entry["intermediate_format"] == CUSTOM_SPARSE
        )
        others = [name for name in folder.columns if name not in entries]
        null_counts = folder.null_counts() if others else {}
        return {name: ColumnDecoder(name, entries.get(name), null_counts.get(name, 0) > 0) for name in folder.columns}

    def pieces(self, epoch: int) -> Iterator[Columns]:
        """The rows of this rank in an epoch, in the order of the plan."""
        for part in self.plan.ranges(self.cur_shard, epoch):
            assert self._folder is not None
            for piece in self._folder.pieces(part):
                columns = {name: self._decoders[name](piece.column(name)) for name in self._folder.columns}
                yield columns if self._transform is None else self._transform(columns)

    def sample(self, rows: int = 1) -> Columns:
        """The first rows of the data set, of any rank, to learn the columns' types and shapes; empty without rows."""
        if self._folder is None or not self._folder.rows:
            return {}
        table = self._folder.first_rows(rows)
        columns = {name: self._decoders[name](table.column(name).combine_chunks()) for name in self._folder.columns}
        return columns if self._transform is None else self._transform(columns)

    def batches(self, batch_size: int, capacity: Optional[int] = None) -> Iterator[Columns]:
        """The batches of the next epoch. Their number is at most ``plan.steps(batch_size)``.

        :param batch_size: rows in each batch but the last ones
        :param capacity: rows in the shuffle buffer; by default as many as take 48 MiB
        :return: from column to array, whose first dimension is the row
        """
        return (batch for block in self.blocks(batch_size, capacity) for batch in batches_of(block))

    def blocks(self, batch_size: int, capacity: Optional[int] = None) -> Iterator[Block]:
        """The batches of the next epoch as blocks of several batches: the rows, and the sizes of the batches in it."""
        if self.has_ended:
            return iter(())
        sizes = self._sizes(batch_size)
        epoch, self.epoch = self.epoch, self.epoch + 1
        if self._in_memory or self._fits(capacity):
            return self._blocks_kept(sizes, epoch, self.plan.shuffle)
        return self._blocks_read(sizes, epoch, capacity)

    def blocks_in_memory(self, batch_size: int, epoch: int, shuffle: bool) -> Iterator[Block]:
        """The batches of an epoch, in blocks, from memory, where the first call puts all rows of this rank."""
        return self._blocks_kept(self._sizes(batch_size), epoch, shuffle) if self.rows else iter(())

    def _blocks_kept(self, sizes: Sequence[int], epoch: int, shuffle: bool) -> Iterator[Block]:
        if self._kept is None:
            kept = RowPool(self.rows)
            for piece in self.pieces(0):
                kept.add(piece, rows_of(piece))
            self._kept = kept
        rows = self._kept.rows
        order = self.plan.generator(self.cur_shard, epoch).permutation(rows) if shuffle else np.arange(rows)
        yield from blocks(self._kept.blocks(order, sizes[0]), sizes)

    def _blocks_read(self, sizes: Sequence[int], epoch: int, capacity: Optional[int]) -> Iterator[Block]:
        pieces: Iterator[Columns] = iter(_Pieces(self, epoch, 1 if self._read_ahead else 0))
        if self.plan.shuffle:
            generator = self.plan.generator(self.cur_shard, epoch)
            pieces = shuffling.shuffled(pieces, capacity, generator, self.rows, sizes[0])
        yield from blocks(pieces, sizes)

    def _sizes(self, batch_size: int) -> Sequence[int]:
        """The rows of this rank's batches."""
        return [size for size in self.plan.batch_sizes(self.cur_shard, batch_size) if size]

    def _fits(self, capacity: Optional[int]) -> bool:
        """Whether the rows of this rank all fit into the shuffle buffer, and are the same in each epoch."""
        if self._transform is not None or (self.plan.shuffle and capacity is not None and capacity < self.rows):
            return False
        assert self._folder is not None
        return self._folder.bytes_of(self.plan.ranges(self.cur_shard)) <= shuffling.POOL_BYTES


class _Pieces(AsyncDataLoaderMixin, BaseDataLoader):
    """The pieces of an epoch, read ahead by a thread."""

    def __init__(self, reader: RowReader, epoch: int, ahead: int) -> None:
        super().__init__(async_loader_queue_size=ahead)
        self._reader = reader
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._reader.plan.ranges(self._reader.cur_shard, self._epoch))

    def _iterate(self) -> Iterator[Columns]:
        return self._reader.pieces(self._epoch)
