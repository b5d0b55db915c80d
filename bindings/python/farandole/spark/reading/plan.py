"""Which rank reads which rows, in which order, and in batches of which sizes. No input or output happens here.

The row groups are put in one order, shuffled by the seed or as they are, and the rows in this order are cut into one
part per rank. Parts differ by one row at most, so a row group may be divided between two or more ranks. Parts are the
same in every epoch; an epoch changes the order in which a rank reads its own part. So even ranks that are in different
epochs never read a row twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Sequence

import numpy as np


@dataclass(frozen=True)
class RowRange:
    """The rows from ``first`` to before ``last`` of a row group."""

    group: int
    first: int
    last: int

    @property
    def rows(self) -> int:
        return self.last - self.first


class ReadingPlan:
    """The division of the rows of a data set between ranks."""

    def __init__(self, group_rows: Sequence[int], shard_count: int = 1, shuffle: bool = False, seed: int = 0) -> None:
        """
        :param group_rows: the number of rows in each row group; all ranks must give the same numbers
        :param shard_count: the number of ranks
        :param shuffle: whether the seed, the same on all ranks, determines the order of the row groups
        :raises ValueError: a number is negative, or there are no ranks
        """
        if shard_count < 1:
            raise ValueError(f"shard_count is the number of ranks, not {shard_count}")
        if any(rows < 0 for rows in group_rows):
            raise ValueError(f"a row group cannot have {min(group_rows)} rows")
        self.group_rows = tuple(int(rows) for rows in group_rows)
        self.shard_count = shard_count
        self.shuffle = shuffle
        self.seed = seed
        self.rows = sum(self.group_rows)

    def shard_rows(self, shard: int) -> int:
        """The number of rows of a rank."""
        first, last = self._bounds(shard)
        return last - first

    def _bounds(self, shard: int) -> tuple:
        if not 0 <= shard < self.shard_count:
            raise ValueError(f"cur_shard is a number from 0 to {self.shard_count - 1}, not {shard}")
        return shard * self.rows // self.shard_count, (shard + 1) * self.rows // self.shard_count

    def ranges(self, shard: int, epoch: int = 0) -> List[RowRange]:
        """The rows that a rank reads in an epoch, in this order."""
        first, last = self._bounds(shard)
        order = range(len(self.group_rows))
        if self.shuffle:
            order = np.random.default_rng([self.seed, 0]).permutation(len(self.group_rows)).tolist()
        ranges = []
        start = 0
        for group in order:
            end = start + self.group_rows[group]
            low, high = max(first, start), min(last, end)
            if low < high:
                ranges.append(RowRange(group, low - start, high - start))
            start = end
        if self.shuffle:
            self.generator(shard, epoch).shuffle(ranges)
        return ranges

    def generator(self, shard: int, epoch: int) -> np.random.Generator:
        """The random numbers of a rank in an epoch."""
        return np.random.default_rng([self.seed, 1 + shard, epoch])

    def steps(self, batch_size: int) -> int:
        """The number of steps that every rank takes in an epoch."""
        _checked(batch_size)
        return max(-(-self.shard_rows(shard) // batch_size) for shard in range(self.shard_count))

    def batch_sizes(self, shard: int, batch_size: int) -> List[int]:
        """The rows of a rank in each step of an epoch. The list is as long on all ranks.

        A rank that would have one batch less than others divides its last batch in two. Only a rank that has fewer
        rows than there are steps has steps without rows, the last ones; it takes part in them with zero weight.
        """
        rows = self.shard_rows(shard)
        steps = self.steps(batch_size)
        sizes = [batch_size] * (rows // batch_size) + ([rows % batch_size] if rows % batch_size else [])
        if len(sizes) < steps and sizes and sizes[-1] > 1:
            last = sizes.pop()
            sizes += [last - last // 2, last // 2]
        return sizes + [0] * (steps - len(sizes))


def _checked(batch_size: int) -> int:
    if isinstance(batch_size, bool) or int(batch_size) != batch_size or batch_size < 1:
        raise ValueError(f"batch_size is a number of rows above 0, not {batch_size}")
    return int(batch_size)
