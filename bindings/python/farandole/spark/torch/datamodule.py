"""The data of one rank for PyTorch: batches are dicts from column to tensor."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Optional

from farandole.spark.data_loaders.pytorch_data_loaders import PytorchDataLoader, PytorchInmemDataLoader
from farandole.spark.reading import modules
from farandole.spark.reading.nvtabular_data import NVTabularData, common_seed


class PetastormDataModule(modules.ParquetDataModule):
    """Reads Parquet data by PyArrow. The loaders yield each row of this rank once in each iteration.

    The name is that of the package that Horovod reads with; ``reader_pool_type="petastorm"`` asks for it.

    :param reader_pool_type: ``thread`` or ``process`` to read ahead in a thread, ``dummy`` to read when a batch is
        needed, ``petastorm`` for the package of this name
    :param train_reader_worker_count: 0 not to read ahead; for petastorm, its number of threads
    :param val_reader_worker_count: the same for the rows to validate with
    :param random_seed: determines the order of the rows; must be the same on all ranks
    :param kwargs: the arguments of ``DataModule``
    """

    pools = (*modules.POOLS, modules.PETASTORM)

    def train_data(self) -> Any:
        """A loader of the rows to train on."""
        return self._loader(True)

    def val_data(self) -> Any:
        """A loader of the rows to validate with; it yields nothing if there are none."""
        return self._loader(False)

    def _loader(self, is_training: bool) -> Any:
        batch_size = self.train_batch_size if is_training else self.val_batch_size
        if self.reader_pool_type == modules.PETASTORM and (is_training or self.has_val):
            from farandole.spark.reading.petastorm_reader import PetastormLoader

            return PetastormLoader(self, is_training, self.random_seed, self._workers(is_training))
        reader = self._reader(is_training)
        name = "train" if is_training else "validation"
        if self.inmemory_cache_all:
            return PytorchInmemDataLoader(
                reader, batch_size, None, name, shuffle=reader.plan.shuffle, verbose=self.verbose
            )
        return PytorchDataLoader(reader, batch_size, None, name, verbose=self.verbose)


class MapIterable:
    """The items of an iterable, changed by a function, for a number of epochs.

    :param data: an iterable that can be iterated once for each epoch
    :param epochs: the number of times to iterate; None for endless repetition
    :param map_fn: called with each item
    """

    def __init__(
        self, data: Iterable[Any], epochs: Optional[int] = None, map_fn: Callable[[Any], Any] = lambda x: x
    ) -> None:
        self.data = data
        self.epochs = epochs
        self.map_fn = map_fn

    def __iter__(self) -> Iterator[Any]:
        epoch = 0
        while self.epochs is None or epoch < self.epochs:
            count = 0
            for item in self.data:
                count += 1
                yield self.map_fn(item)
            if count == 0:
                return
            epoch += 1


class NVTabularDataModule(NVTabularData):
    """Reads Parquet data by NVTabular, on the GPU. The loader of rows to train on begins again after the last row.

    :param label_cols: the label columns
    :param categorical_cols: the feature columns of integers that are categories
    :param continuous_cols: the feature columns of numbers
    :param kwargs: the arguments of ``DataModule``
    """

    framework = "torch"

    @staticmethod
    def seed_fn() -> int:
        """A random seed, the same on all ranks."""
        import farandole.torch as hvd

        return common_seed(hvd.rank(), hvd.broadcast_object)

    def _loader(self, is_training: bool) -> Any:
        batches = self._loaders.TorchAsyncItr(
            self._dataset(is_training),
            cats=self.categorical_cols,
            conts=self.continuous_cols,
            labels=self.label_cols,
            seed_fn=self.seed_fn,
            **self._arguments(is_training),
        )
        loader = self._loaders.DLDataLoader(
            batches, collate_fn=lambda batch: batch, batch_size=None, pin_memory=False, num_workers=0
        )
        return MapIterable(loader, None if is_training else 1, self._columns)

    def _columns(self, batch: Any) -> Any:
        """A batch of features and labels as a dict from column to tensor."""
        features, labels = batch
        if not isinstance(labels, dict):
            values = labels if isinstance(labels, (list, tuple)) else [labels]
            labels = dict(zip(self.label_cols, values))
        return {**features, **labels}
