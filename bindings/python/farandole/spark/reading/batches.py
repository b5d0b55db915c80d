"""Cuts pieces of rows into batches of given sizes."""

from __future__ import annotations

from typing import Iterable, Iterator, List, Sequence, Tuple

import numpy as np

from farandole.spark.reading.columns import Columns, rows_of

Block = Tuple[Columns, List[int]]
"""The rows of consecutive batches, and the number of rows of each batch."""


def blocks(pieces: Iterable[Columns], sizes: Sequence[int]) -> Iterator[Block]:
    """The rows of all pieces, for batches of these sizes, in order.

    The batches that lie in one piece are a block, which shares the piece's memory. A batch that begins in one piece and
    ends in another is a block of its own.

    :raises ValueError: there are fewer or more rows than the sizes need
    """
    source = iter(pieces)
    next_size = delivered = 0
    begun: List[Columns] = []
    for piece in source:
        total = rows_of(piece)
        used = 0
        if begun:
            size = sizes[next_size]
            used = min(size - sum(map(rows_of, begun)), total)
            begun.append(_cut(piece, 0, used))
            if sum(map(rows_of, begun)) < size:
                continue
            yield concatenated(begun), [size]
            begun = []
            next_size += 1
            delivered += size
        first, start = next_size, used
        while next_size < len(sizes) and used + sizes[next_size] <= total:
            used += sizes[next_size]
            next_size += 1
        if next_size > first:
            yield _cut(piece, start, used), list(sizes[first:next_size])
            delivered += used - start
        if used == total:
            continue
        if next_size == len(sizes):
            left = total - used + sum(map(rows_of, source))
            raise ValueError(f"{delivered} rows were expected, and there are {left} more")
        begun = [_cut(piece, used, total)]
    if next_size < len(sizes):
        delivered += sum(map(rows_of, begun))
        missing = sum(sizes) - delivered
        raise ValueError(f"the rows ended after {delivered}, and {missing} more were expected")


def batches_of(block: Block) -> Iterator[Columns]:
    """The batches of a block, which share its memory."""
    columns, sizes = block
    start = 0
    for size in sizes:
        yield _cut(columns, start, start + size)
        start += size


def _cut(columns: Columns, start: int, end: int) -> Columns:
    return {name: array[start:end] for name, array in columns.items()}


def concatenated(pieces: List[Columns]) -> Columns:
    """The rows of several pieces in one."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
