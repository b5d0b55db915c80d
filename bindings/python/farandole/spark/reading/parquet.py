"""Parquet data in a folder, written by Farandole, Spark or other programs, as a list of row groups.

Folders of the form ``name=value`` (Hive partitions) are columns.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from farandole.spark.common.store_files import StoreError, filesystem_of
from farandole.spark.reading import sizes
from farandole.spark.reading.plan import RowRange

PIECE_BYTES = 8 << 20
"""Rows are read in pieces of about this size in memory; larger row groups are decoded piece by piece."""
_SMALLEST_PIECE = 1024
_FETCHED_AT_ONCE = 32 << 20
"""Columns of a row group are fetched at once if they take no more in the file, otherwise little by little."""
_BUFFER_BYTES = 1 << 20
_INT96_UNIT = "us"
"""Spark writes times in a format (INT96) that PyArrow reads in nanoseconds by default, which end in the year 2262."""
_partition_keys = getattr(ds, "get_partition_keys", None) or ds._get_partition_keys
"""From the expression of a file to the columns that its path has. PyArrow 11 has the function under the second name."""
_READERS = 8
"""Threads that read footers and samples."""
_SAMPLES = 8
"""Row groups of which the first rows are read to learn the size of a column's strings."""


@dataclass(frozen=True)
class RowGroup:
    """A row group of a file."""

    fragment: Any
    path: str
    index: int
    rows: int
    bytes: int
    """Of the columns that are read, in memory."""
    stored_bytes: int
    """Of the columns that are read, in the file."""


class ParquetFolder:
    """The row groups of all files below a path, in the order of the files' names.

    :param path: a folder or a file, as a path or as a URL that fsspec can use
    :param columns: the columns to read; None for all
    :param filesystem: the fsspec filesystem of the path; by default that of the URL with ``storage_options``
    :raises StoreError: the path does not exist or cannot be read
    :raises ValueError: a file is corrupt or has other columns than the first one; a column is missing; no file exists
    """

    def __init__(
        self,
        path: str,
        columns: Optional[Sequence[str]] = None,
        storage_options: Optional[Mapping[str, Any]] = None,
        filesystem: Any = None,
    ) -> None:
        self.path = path
        self.location = path
        if filesystem is None:
            filesystem, self.location = filesystem_of(path, storage_options)
        self.filesystem = filesystem
        filesystem.invalidate_cache()  # another process may have written the files
        try:
            parquet = ds.ParquetFileFormat(coerce_int96_timestamp_unit=_INT96_UNIT)
            self.dataset = ds.dataset(self.location, filesystem=filesystem, format=parquet, partitioning="hive")
        except FileNotFoundError as problem:
            raise StoreError(f"there is no Parquet data at {path}: the path does not exist") from problem
        except (pa.ArrowInvalid, OSError) as problem:
            raise ValueError(f"the Parquet data at {path} cannot be read: {problem}") from problem
        if not self.dataset.files:
            raise ValueError(f"there is no Parquet file in {path}")
        self.columns = list(columns) if columns is not None else list(self.dataset.schema.names)
        self._wanted = frozenset(self.columns)
        missing = [name for name in self.columns if name not in self.dataset.schema.names]
        if missing:
            raise ValueError(
                f"the Parquet data at {path} has no column {', '.join(missing)}; "
                f"it has {', '.join(self.dataset.schema.names)}"
            )
        fragments = sorted(self.dataset.get_fragments(), key=lambda each: each.path)
        with ThreadPoolExecutor(min(_READERS, len(fragments))) as readers:
            list(readers.map(self._read_footer, fragments))
        self._fragments = fragments
        self._value_bytes = self._sampled_value_bytes()
        self.groups: List[RowGroup] = []
        for fragment in fragments:
            self.groups += self._groups_of(fragment)
        self.unpacked_row_bytes = 0
        """What the reader adds to a row when it unpacks sparse vectors."""
        self.rows = sum(group.rows for group in self.groups)
        self.bytes = sum(group.bytes for group in self.groups)

    def _read_footer(self, fragment: Any) -> None:
        try:
            fragment.ensure_complete_metadata()
        except (pa.ArrowInvalid, OSError) as problem:
            raise ValueError(f"the Parquet file {fragment.path} cannot be read: {problem}") from problem
        own = fragment.physical_schema
        in_path = _partition_keys(fragment.partition_expression)
        for name in self.columns:
            expected = self.dataset.schema.field(name).type
            if name in in_path:
                continue
            if name not in own.names:
                raise ValueError(
                    f"the Parquet file {fragment.path} has no column {name}, which other files of {self.path} have"
                )
            if own.field(name).type != expected:
                raise ValueError(
                    f"the column {name} has the type {own.field(name).type} in the Parquet file {fragment.path} "
                    f"and {expected} in other files of {self.path}"
                )

    def _groups_of(self, fragment: Any) -> Iterator[RowGroup]:
        footer = fragment.metadata
        columns = [self._column_of(footer.schema.column(index).path) for index in range(footer.num_columns)]
        wanted = [index for index, name in enumerate(columns) if name is not None]
        for index in range(footer.num_row_groups):
            group = footer.row_group(index)
            chunks = {column: group.column(column) for column in wanted}
            in_memory = sum(
                sizes.chunk_bytes(chunk, self._value_bytes.get(columns[column], 0)) for column, chunk in chunks.items()
            )
            stored = sum(chunk.total_compressed_size for chunk in chunks.values())
            yield RowGroup(fragment, fragment.path, index, group.num_rows, in_memory, stored)

    def _sampled_value_bytes(self) -> Dict[Optional[str], float]:
        """The mean size of the strings of each column whose size the footers do not have. Of several samples, the
        largest counts, so that the data takes rather less memory than estimated."""
        groups: Dict[str, List[RowGroup]] = {}
        for fragment in self._fragments:
            footer = fragment.metadata
            columns = [self._column_of(footer.schema.column(index).path) for index in range(footer.num_columns)]
            for index in range(footer.num_row_groups):
                group = footer.row_group(index)
                for column, name in enumerate(columns):
                    if name is not None and group.num_rows and sizes.has_unknown_size(group.column(column)):
                        found = RowGroup(fragment, fragment.path, index, group.num_rows, 0, _FETCHED_AT_ONCE + 1)
                        groups.setdefault(name, []).append(found)
        samples = [(name, each) for name, found in groups.items() for each in found[:: -(-len(found) // _SAMPLES)]]
        with ThreadPoolExecutor(_READERS) as readers:
            means = list(readers.map(lambda sample: self._mean_value_bytes(*sample), samples))
        largest: Dict[Optional[str], float] = {}
        for (name, _), mean in zip(samples, means):
            largest[name] = max(mean, largest.get(name, 0))
        return largest

    def _mean_value_bytes(self, name: str, group: RowGroup) -> float:
        batches = self._batches(group, [name], min(_SMALLEST_PIECE, group.rows))
        return max((sizes.mean_value_bytes(batch.column(0)) for batch in itertools.islice(batches, 1)), default=0.0)

    def _column_of(self, path: str) -> Optional[str]:
        """The column that is read, of the path of a leaf in a file; a list's leaf has the path NAME.list.element."""
        if path in self._wanted:
            return path
        return next((name for name in self._wanted if path.startswith(f"{name}.")), None)

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read, with their types in the files."""
        return pa.schema([self.dataset.schema.field(name) for name in self.columns])

    def null_counts(self) -> Dict[str, int]:
        """The number of null values of each column, by the files' statistics; 0 where a file has none."""
        counts = dict.fromkeys(self.columns, 0)
        for fragment in self._fragments:
            footer = fragment.metadata
            for index in range(footer.num_row_groups):
                group = footer.row_group(index)
                for column in range(group.num_columns):
                    name = group.column(column).path_in_schema
                    statistics = group.column(column).statistics
                    if name in counts and statistics is not None and statistics.has_null_count:
                        counts[name] += statistics.null_count
        return counts

    def bytes_of(self, parts: Sequence[RowRange]) -> int:
        """About the size of these rows in memory."""
        return sum(part.rows * self._row_bytes(self.groups[part.group]) for part in parts)

    def _row_bytes(self, group: RowGroup) -> int:
        return group.bytes // max(1, group.rows) + self.unpacked_row_bytes

    def pieces(self, part: RowRange) -> Iterator[pa.RecordBatch]:
        """The rows of a range in order, in pieces of about ``PIECE_BYTES``.

        :raises ValueError: the file cannot be read; the message has the file and the column
        """
        group = self.groups[part.group]
        piece_rows = max(_SMALLEST_PIECE, PIECE_BYTES // max(1, self._row_bytes(group)))
        start = 0
        for batch in self._batches(group, self.columns, min(piece_rows, max(1, group.rows))):
            low, high = max(part.first - start, 0), min(part.last - start, batch.num_rows)
            start += batch.num_rows
            if low < high:
                yield batch.slice(low, high - low)
            if start >= part.last:
                return
        raise ValueError(
            f"the Parquet file {group.path} has {start} rows in row group {group.index}, not {group.rows}: "
            "it has been changed while it was read"
        )

    def _batches(self, group: RowGroup, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        in_path = _partition_keys(group.fragment.partition_expression)
        fetched_at_once = group.stored_bytes <= _FETCHED_AT_ONCE
        try:
            with (
                self.dataset.filesystem.open_input_file(group.path) as source,
                pq.ParquetFile(
                    source,
                    metadata=group.fragment.metadata,
                    pre_buffer=fetched_at_once,
                    buffer_size=0 if fetched_at_once else _BUFFER_BYTES,
                    coerce_int96_timestamp_unit=_INT96_UNIT,
                ) as file,
            ):
                own = [name for name in columns if name not in in_path]
                # A file without any of the columns still has rows.
                for batch in file.iter_batches(rows, row_groups=[group.index], columns=own):
                    yield self._with_partitions(batch, columns, in_path)
        except (pa.ArrowException, OSError) as problem:
            name = self._corrupt_column(group, rows) if len(columns) > 1 else columns[0]
            raise ValueError(
                f"the column {name} of the Parquet file {group.path} cannot be read: {problem}"
            ) from problem

    def _with_partitions(
        self, batch: pa.RecordBatch, columns: Sequence[str], in_path: Mapping[str, Any]
    ) -> pa.RecordBatch:
        """The columns in their order, with those that the path of the file has."""
        arrays = [
            pa.repeat(pa.scalar(in_path[name], self.dataset.schema.field(name).type), batch.num_rows)
            if name in in_path
            else batch.column(batch.schema.get_field_index(name))
            for name in columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _corrupt_column(self, group: RowGroup, rows: int) -> str:
        for name in self.columns:
            try:
                for _ in self._batches(group, [name], rows):
                    pass
            except ValueError:
                return name
        return ", ".join(self.columns)

    def first_rows(self, count: int) -> pa.Table:
        """At most ``count`` rows from the first row group that has some."""
        for index, group in enumerate(self.groups):
            if group.rows:
                part = RowRange(index, 0, min(count, group.rows))
                return pa.Table.from_batches(list(self.pieces(part)))
        return self.schema.empty_table()
