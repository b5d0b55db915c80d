"""The data of one rank for Lightning: batches are dicts from column to tensor."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

from farandole.spark.data_loaders import pytorch_data_loaders as loaders
from farandole.spark.reading import modules
from farandole.spark.reading.reader import RowReader

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl  # type: ignore[no-redef]


class PetastormDataModule(pl.LightningDataModule):
    """Reads Parquet data by PyArrow. The loaders yield each row of this rank once in each epoch, or, with a number of
    steps, this number of batches.

    The parameters that are not explained here are those of ``farandole.spark.common.datamodule.DataModule``.

    :param num_reader_epochs: the number of passes through the rows after which a loader with a number of steps ends;
        None for any number
    :param reader_pool_type: ``thread`` or ``process`` to read ahead in a thread, ``dummy`` to read when needed,
        ``petastorm`` for the package of this name
    :param reader_worker_count: 0 not to read ahead
    :param transformation: a function from a pandas frame of rows to another one with as many rows
    :param transformation_edit_fields: name, type, shape and nullability of the fields that it adds or changes
    :param transformation_removed_fields: the fields that are left out of the batches
    :param steps_per_epoch_train: the number of batches of an epoch; None for each row once
    :param steps_per_epoch_val: the number of batches of a validation; None for each row once
    :param debug_data_loader: whether loaders with a queue print how often a batch was waited for
    :param train_async_data_loader_queue_size: batches that a thread prepares ahead; None or 0 for no such thread
    :param val_async_data_loader_queue_size: the same for the rows to validate with
    :param seed: determines the order of the rows; must be the same on all ranks
    """

    def __init__(
        self,
        train_dir: str,
        val_dir: str,
        num_train_epochs: int = 1,
        has_val: bool = True,
        train_batch_size: int = 32,
        val_batch_size: int = 32,
        shuffle: bool = True,
        num_reader_epochs: Optional[int] = None,
        reader_pool_type: str = "thread",
        reader_worker_count: int = 2,
        transformation: Optional[Callable[[Any], Any]] = None,
        transformation_edit_fields: Optional[Sequence[Any]] = None,
        transformation_removed_fields: Optional[Sequence[str]] = None,
        inmemory_cache_all: bool = False,
        cur_shard: int = 0,
        shard_count: int = 1,
        schema_fields: Optional[Sequence[str]] = None,
        storage_options: Optional[Mapping[str, Any]] = None,
        steps_per_epoch_train: Optional[int] = 1,
        steps_per_epoch_val: Optional[int] = 1,
        verbose: bool = True,
        debug_data_loader: bool = False,
        train_async_data_loader_queue_size: Optional[int] = None,
        val_async_data_loader_queue_size: Optional[int] = None,
        seed: Optional[int] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        modules.check_pool(reader_pool_type, (*modules.POOLS, modules.PETASTORM))
        self.train_dir = train_dir
        self.val_dir = val_dir
        self.num_train_epochs = num_train_epochs
        self.has_val = has_val
        self.train_batch_size = train_batch_size
        self.val_batch_size = val_batch_size
        self.shuffle = shuffle
        self.num_reader_epochs = num_reader_epochs
        self.reader_pool_type = reader_pool_type
        self.reader_worker_count = reader_worker_count
        self.transform_fn = transformation
        self.transformation_edit_fields = transformation_edit_fields
        self.transformation_removed_fields = transformation_removed_fields
        self.inmemory_cache_all = inmemory_cache_all
        self.cur_shard = cur_shard
        self.shard_count = shard_count
        self.schema_fields = schema_fields
        self.storage_options = storage_options
        self.steps_per_epoch_train = steps_per_epoch_train
        self.steps_per_epoch_val = steps_per_epoch_val
        self.verbose = verbose
        self.debug_data_loader = debug_data_loader
        self.train_async_data_loader_queue_size = train_async_data_loader_queue_size
        self.val_async_data_loader_queue_size = val_async_data_loader_queue_size
        self.seed = seed
        self.train_reader: Optional[RowReader] = None
        self.val_reader: Optional[RowReader] = None
        self._async_loaders: list = []

    def setup(self, stage: Optional[str] = None) -> None:
        """Opens the readers that a stage of Lightning needs.

        :raises StoreError: there is no data at a path
        :raises ValueError: the data has not the columns, or files do not fit together
        """
        if self.reader_pool_type == modules.PETASTORM:
            return
        if stage in (None, "fit"):
            self._reader(True)
        if stage in (None, "fit", "validate") and self.has_val:
            self._reader(False)

    def _reader(self, is_training: bool) -> RowReader:
        reader = self.train_reader if is_training else self.val_reader
        if reader is None:
            ahead = modules.reads_ahead(self.reader_pool_type, self.reader_worker_count)
            reader = modules.open_reader(self, is_training, self.seed, ahead)
            if is_training:
                self.train_reader = reader
            else:
                self.val_reader = reader
        return reader

    def teardown(self, stage: Optional[str] = None) -> None:
        """Ends the threads of the loaders and drops the readers."""
        for loader in self._async_loaders:
            loader.close_async_loader()
        self._async_loaders.clear()
        self.train_reader = self.val_reader = None

    def train_dataloader(self) -> Any:
        """A loader of the rows to train on."""
        return self._loader(
            True, self.train_batch_size, self.steps_per_epoch_train, self.train_async_data_loader_queue_size
        )

    def val_dataloader(self) -> Any:
        """A loader of the rows to validate with; None if there are none."""
        if not self.has_val:
            return None
        return self._loader(False, self.val_batch_size, self.steps_per_epoch_val, self.val_async_data_loader_queue_size)

    def _loader(self, is_training: bool, batch_size: int, steps: Optional[int], queue_size: Optional[int]) -> Any:
        if self.reader_pool_type == modules.PETASTORM:
            from farandole.spark.reading.petastorm_reader import PetastormLoader

            return PetastormLoader(self, is_training, self.seed or 0, self.reader_worker_count, steps)
        reader = self._reader(is_training)
        arguments: dict = {"name": "train" if is_training else "validation", "verbose": self.verbose}
        if queue_size:
            arguments.update(async_loader_queue_size=queue_size, debug_data_loader=self.debug_data_loader)
        kind: Any
        if self.inmemory_cache_all and steps is None:
            kind = loaders.PytorchInmemAsyncDataLoader if queue_size else loaders.PytorchInmemDataLoader
            arguments.update(num_epochs=None, shuffle=reader.plan.shuffle)
        elif steps is None:
            kind = loaders.PytorchAsyncDataLoader if queue_size else loaders.PytorchDataLoader
            arguments.update(shuffling_queue_capacity=None)
        else:
            kind = loaders.PytorchInfiniteAsyncDataLoader if queue_size else loaders.PytorchInfiniteDataLoader
            arguments.update(shuffling_queue_capacity=None, limit_step_per_epoch=steps)
            reader.keep(self.inmemory_cache_all, self.num_reader_epochs)
        loader = kind(reader=reader, batch_size=batch_size, **arguments)
        if queue_size:
            self._async_loaders.append(loader)
        return loader
