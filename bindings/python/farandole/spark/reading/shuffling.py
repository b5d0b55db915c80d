"""Shuffles rows in a pool of bounded size."""

from __future__ import annotations

from typing import Iterable, Iterator, Optional

import numpy as np

from farandole.spark.reading import sizes
from farandole.spark.reading.columns import Columns, rows_of
from farandole.spark.reading.pool import RowPool

POOL_BYTES = 48 << 20
"""The size of the pool if its number of rows is not given."""


def shuffled(
    pieces: Iterable[Columns],
    capacity: Optional[int],
    generator: np.random.Generator,
    total: Optional[int] = None,
    multiple: int = 1,
) -> Iterator[Columns]:
    """The rows of all pieces, each once, in random order.

    The pool holds ``capacity`` rows (by default as many as take ``POOL_BYTES``) and, while it takes rows in, one piece
    more. Each piece pushes as many random rows from the pool as it adds.

    :param total: the number of rows of all pieces, if it is known; the pool gets no more room than that
    :param multiple: a number of rows. All yielded pieces but the last have a multiple of it, so the pool may hold up to
        this number of rows more
    :raises ValueError: the capacity is negative
    """
    if capacity is not None and capacity < 0:
        raise ValueError(f"the shuffle buffer holds a number of rows, not {capacity}")
    pool = None
    for piece in pieces:
        rows = rows_of(piece)
        if rows == 0:
            continue
        if capacity is None:
            capacity = max(1, POOL_BYTES // sizes.row_bytes(piece))
        if pool is None:
            room = capacity + rows + multiple - 1
            pool = RowPool(rows if total is None else min(room, total))
        pool.add(piece, rows)
        count = (pool.rows - capacity) // multiple * multiple
        if count > 0:
            chosen = generator.choice(pool.rows, count, replace=False)
            yield from pool.blocks(chosen, multiple)
            pool.remove(chosen)
    if pool is not None and pool.rows:
        yield from pool.blocks(generator.permutation(pool.rows), multiple)
