"""Reads Parquet data for training: every row is delivered once per epoch, to one rank.

``plan`` decides which rank reads which rows, ``parquet`` reads them by PyArrow, ``columns`` turns them into NumPy
arrays, ``shuffling``, ``pool`` and ``batches`` make batches of them, and ``reader`` connects these. ``modules`` and
``nvtabular_data`` have the common parts of the data modules.
"""

from __future__ import annotations

from farandole.spark.requirements import require_pyarrow

require_pyarrow()

from farandole.spark.reading.plan import ReadingPlan, RowRange
from farandole.spark.reading.reader import RowReader

__all__ = ["ReadingPlan", "RowRange", "RowReader"]
