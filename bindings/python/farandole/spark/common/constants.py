"""Names that the writer and the readers of prepared data share."""

from __future__ import annotations

from typing import Optional, Union

ARRAY = "array"
"""A vector column is written as an array of doubles of one length, its shape."""
CUSTOM_SPARSE = "custom_sparse_format"
"""A vector column is written as an array of doubles: the number n of nonzero elements, n indices, n values."""
NOCHANGE = "nochange"
"""A column is written as it is."""

METADATA_FILE = "_farandole_metadata.json"
"""In the folder of prepared data: its columns and numbers of rows. The file is written last, so it marks the data as
complete. Spark and PyArrow skip names that begin with an underscore."""

MANIFEST_FILE = "_farandole_files.json"
"""In a checkpoint that is a folder: its files with their sizes. The checkpoint is complete if all of them are there."""

INCOMPLETE = ".incomplete-"
"""The names of files and folders that are being written contain this."""

ROW_GROUP_BYTES = 32 << 20
"""The size of the row groups of prepared data. A reader holds two of them."""

DatasetIndex = Optional[Union[int, str]]
