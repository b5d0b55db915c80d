"""Rows in memory, from which blocks of chosen rows are copied."""

from __future__ import annotations

from typing import Iterator, List, Tuple

import numpy as np

from farandole.spark.reading.columns import Columns

BLOCK_BYTES = 1 << 20
"""Rows are taken from a pool in blocks of about this size, which fit into the processor's cache."""
_PACKED_ROWS = 10_000
"""Columns are packed in parts of this size: not a power of two, so that columns do not compete for the same places in
the processor's cache."""


class RowPool:
    """Rows in contiguous memory.

    Columns of single numbers are packed: those of a row lie side by side, so that a random row is one access to memory.
    Columns of arrays and of objects are kept as arrays of their own.

    :param room: the number of rows that fit before the pool must grow
    """

    def __init__(self, room: int) -> None:
        self.rows = 0
        self._room = room
        self._names: List[str] = []
        """Of all columns, in their order."""
        self._fields: List[Tuple[str, List[str]]] = []
        """The fields of a packed row: one for each type, with the names of the columns of this type."""
        self._row_type = np.dtype("V1")
        self._packed = np.empty(0, dtype="V1")
        self._others: Columns = {}

    def add(self, piece: Columns, rows: int) -> None:
        """Appends copies of rows."""
        if not self._names or self.rows + rows > self._room:
            self._grow(piece, max(self._room, self.rows + rows))
        fields = self._packed[self.rows : self.rows + rows].view(self._row_type)
        for field, names in self._fields:
            target = fields[field]
            for start in range(0, rows, _PACKED_ROWS):
                end = start + _PACKED_ROWS
                target[start:end] = np.stack([piece[name][start:end] for name in names]).T
        for name, array in self._others.items():
            array[self.rows : self.rows + rows] = piece[name]
        self.rows += rows

    def _grow(self, piece: Columns, room: int) -> None:
        by_type: dict = {}
        for name, each in piece.items():
            if each.dtype != object and each.ndim == 1:
                by_type.setdefault(each.dtype, []).append(name)
        self._names = list(piece)
        self._fields = [(f"f{index}", names) for index, names in enumerate(by_type.values())]
        types = [(field, piece[names[0]].dtype, (len(names),)) for field, names in self._fields]
        self._row_type = np.dtype(types, align=True) if types else np.dtype("V1")
        # As bytes without fields, because NumPy copies fields one by one.
        self._packed = _grown(self._packed[: self.rows], room, (), np.dtype(f"V{self._row_type.itemsize}"))
        packed = {name for _, names in self._fields for name in names}
        for name, each in piece.items():
            if name not in packed:
                kept = self._others.get(name, each)[: self.rows]
                self._others[name] = _grown(kept, room, each.shape[1:], each.dtype)
        self._room = room

    def block_rows(self, multiple: int) -> int:
        """Rows in a block of about ``BLOCK_BYTES``, as a multiple of a number of rows."""
        row_bytes = sum(array.nbytes for array in (self._packed, *self._others.values())) // max(1, self._room)
        return max(1, BLOCK_BYTES // max(1, row_bytes) // multiple) * multiple

    def blocks(self, chosen: np.ndarray, multiple: int) -> Iterator[Columns]:
        """Copies of the chosen rows, in this order. All blocks but the last have a multiple of this number of rows."""
        rows = self.block_rows(multiple)
        for start in range(0, len(chosen), rows):
            yield self._columns(chosen[start : start + rows])

    def _columns(self, chosen: np.ndarray) -> Columns:
        # With "clip", NumPy does not check the indices one by one.
        fields = self._packed.take(chosen, mode="clip").view(self._row_type)
        columns = {name: array.take(chosen, axis=0, mode="clip") for name, array in self._others.items()}
        for field, names in self._fields:
            columns.update(zip(names, np.ascontiguousarray(fields[field].T)))
        return {name: columns[name] for name in self._names}

    def remove(self, chosen: np.ndarray) -> None:
        """Removes rows, and moves the last rows to their places."""
        left = self.rows - len(chosen)
        holes = chosen[chosen < left]
        is_taken = np.zeros(len(chosen), dtype=bool)
        is_taken[chosen[chosen >= left] - left] = True
        movers = left + np.flatnonzero(~is_taken)
        for array in (self._packed, *self._others.values()):
            array[holes] = array[movers]
        self.rows = left


def _grown(kept: np.ndarray, room: int, shape: Tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    larger = np.empty((room, *shape), dtype=dtype)
    larger[: len(kept)] = kept
    return larger
