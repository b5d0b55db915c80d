"""Parquet files with known rows."""

from __future__ import annotations

from pathlib import Path
from typing import List

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

UNEVEN: List[List[int]] = [[5, 1], [40], [3, 3, 3, 11], [1]]
"""Row groups of four files, 67 rows in all."""


def write(path: Path, files: List[List[int]], start: int = 0) -> int:
    """Writes files with row groups of these sizes; x counts the rows."""
    path.mkdir(parents=True, exist_ok=True)
    for number, groups in enumerate(files):
        schema = pa.schema([("x", pa.int64()), ("y", pa.float32()), ("pair", pa.list_(pa.float64()))])
        with pq.ParquetWriter(path / f"part-{number:03}.parquet", schema) as writer:
            for rows in groups:
                x = np.arange(start, start + rows)
                pair = pa.array([[float(i), float(-i)] for i in x], pa.list_(pa.float64()))
                writer.write_table(pa.table([x, pa.array(x / 2, pa.float32()), pair], schema), row_group_size=rows or 1)
                start += rows
    return start
