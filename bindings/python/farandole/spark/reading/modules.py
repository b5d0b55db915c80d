"""The common part of the data modules that read Parquet data by PyArrow, for all frameworks."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from farandole.spark.common.datamodule import DataModule
from farandole.spark.reading.reader import RowReader
from farandole.spark.reading.transform import Transformation

POOLS = ("thread", "process", "dummy")
PETASTORM = "petastorm"
"""With this ``reader_pool_type`` the package petastorm reads."""


def check_pool(reader_pool_type: str, allowed: Sequence[str] = POOLS) -> None:
    """
    :raises ValueError: there is no such type
    """
    if reader_pool_type not in allowed:
        raise ValueError(
            f"reader_pool_type is one of {', '.join(allowed)}, not {reader_pool_type!r}: 'thread' and 'process' read "
            "ahead in a thread, 'dummy' does not"
        )


def open_reader(module: Any, is_training: bool, seed: Any, read_ahead: bool) -> RowReader:
    """The reader of a data module's rows to train on, or to validate with. Rows to validate with are not shuffled.

    A module without rows to validate with gets a reader of no rows.
    """
    if not is_training and (not module.has_val or module.val_dir is None):
        return RowReader.empty()
    has_transformation = module.transform_fn or module.transformation_removed_fields
    return RowReader(
        module.train_dir if is_training else module.val_dir,
        columns=module.schema_fields,
        cur_shard=module.cur_shard,
        shard_count=module.shard_count,
        shuffle=bool(module.shuffle and is_training),
        seed=seed,
        storage_options=module.storage_options,
        transform=Transformation(
            module.transform_fn, module.transformation_edit_fields, module.transformation_removed_fields
        )
        if has_transformation
        else None,
        read_ahead=read_ahead,
    )


def reads_ahead(reader_pool_type: str, worker_count: Any) -> bool:
    """Whether a thread reads ahead. More than one worker would only use more memory: Arrow decodes the columns of a
    piece in parallel."""
    return reader_pool_type != "dummy" and worker_count != 0


class ParquetDataModule(DataModule):
    """Reads Parquet data by PyArrow.

    :ivar pools: the allowed values of ``reader_pool_type``

    The classes for PyTorch and Keras explain the parameters.
    """

    short_name = "petastorm"
    pools: Sequence[str] = POOLS

    def __init__(
        self,
        reader_pool_type: str = "thread",
        train_reader_worker_count: int = 10,
        val_reader_worker_count: int = 10,
        random_seed: Optional[int] = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_pool(reader_pool_type, self.pools)
        self.reader_pool_type = reader_pool_type
        self.train_reader_worker_count = train_reader_worker_count
        self.val_reader_worker_count = val_reader_worker_count
        self.random_seed = random_seed or 0
        self.train_reader: Optional[RowReader] = None
        self.val_reader: Optional[RowReader] = None

    def __enter__(self) -> Any:
        """
        :raises StoreError: there is no data at a path
        :raises ValueError: a column is missing in the data, or files have different columns
        """
        super().__enter__()
        if self.reader_pool_type != PETASTORM:
            self.train_reader, self.val_reader = self._reader(True), self._reader(False)
        return self

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        self.train_reader = self.val_reader = None
        super().__exit__(type, value, traceback)

    def empty_batch_reader(self) -> RowReader:
        """A reader of no rows."""
        return RowReader.empty()

    def _reader(self, is_training: bool) -> RowReader:
        """The reader that the module has opened, or a new one outside its block."""
        opened = self.train_reader if is_training else self.val_reader
        return self._open(is_training) if opened is None else opened

    def _open(self, is_training: bool) -> RowReader:
        ahead = reads_ahead(self.reader_pool_type, self._workers(is_training))
        return open_reader(self, is_training, self.random_seed, ahead)

    def _workers(self, is_training: bool) -> int:
        return self.train_reader_worker_count if is_training else self.val_reader_worker_count
