"""The data of one rank for Keras: ``tf.data.Dataset`` objects, whose batches are dicts from column to tensor."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from farandole.spark.reading import modules
from farandole.spark.reading.nvtabular_data import NVTabularData, common_seed
from farandole.spark.reading.reader import RowReader

_SAMPLE_ROWS = 100
"""The shapes of batches are those of the first rows."""


class PetastormDataModule(modules.ParquetDataModule):
    """Reads Parquet data by PyArrow. An iteration of a data set has each row of this rank once.

    :param reader_pool_type: ``thread`` or ``process`` to read ahead in a thread, ``dummy`` to read when a batch is
        needed
    :param train_reader_worker_count: 0 not to read ahead
    :param val_reader_worker_count: the same for the rows to validate with
    :param make_dataset: a function from the data set of batches to the one that is used; None to use it as it is
    :param random_seed: determines the order of the rows; must be the same on all ranks
    :param tensorflow_dataset_prefetch_buffer_size: batches that TensorFlow prepares ahead; 0 for none
    :param kwargs: the arguments of ``DataModule``
    """

    def __init__(
        self,
        reader_pool_type: str = "thread",
        train_reader_worker_count: int = 2,
        val_reader_worker_count: int = 2,
        make_dataset: Optional[Callable[[Any], Any]] = None,
        random_seed: Optional[int] = 0,
        tensorflow_dataset_prefetch_buffer_size: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(reader_pool_type, train_reader_worker_count, val_reader_worker_count, random_seed, **kwargs)
        self.make_dataset = make_dataset
        self.prefetch_buffer_size = tensorflow_dataset_prefetch_buffer_size

    def _open(self, is_training: bool) -> RowReader:
        reader = super()._open(is_training)
        reader.keep(self.inmemory_cache_all, None)
        return reader

    def train_data(self) -> Any:
        """A data set of the rows to train on."""
        return self._dataset(self._reader(True), self.train_batch_size)

    def val_data(self) -> Any:
        """A data set of the rows to validate with; None if there are none."""
        reader = self._reader(False)
        return self._dataset(reader, self.val_batch_size) if reader.plan.rows else None

    def _dataset(self, reader: RowReader, batch_size: int) -> Any:
        import tensorflow as tf

        def batches() -> Iterator[Dict[str, Any]]:
            return reader.batches(batch_size)

        dataset = tf.data.Dataset.from_generator(batches, output_signature=_signature(reader))
        if self.make_dataset is not None:
            dataset = self.make_dataset(dataset)
        return dataset.prefetch(self.prefetch_buffer_size) if self.prefetch_buffer_size else dataset


def _signature(reader: RowReader) -> Dict[str, Any]:
    """The types and shapes of a batch, by the first rows of the data.

    :raises ValueError: a column has arrays of several lengths
    """
    import tensorflow as tf

    signature = {}
    for name, array in reader.sample(_SAMPLE_ROWS).items():
        is_text = array.dtype == object
        if is_text and not isinstance(array[0], (str, bytes, type(None))):
            raise ValueError(
                f"the column {name} has arrays of several lengths, which cannot be a tensor: give all rows the same "
                "length in Spark, or by transformation_fn"
            )
        dtype = tf.string if is_text else tf.as_dtype(array.dtype)
        signature[name] = tf.TensorSpec((None, *array.shape[1:]), dtype)
    return signature


class NVTabularDataModule(NVTabularData):
    """Reads Parquet data by NVTabular, on the GPU.

    :param label_cols: the label columns
    :param categorical_cols: the feature columns of integers that are categories
    :param continuous_cols: the feature columns of numbers
    :param kwargs: the arguments of ``DataModule``
    """

    framework = "tensorflow"

    @staticmethod
    def seed_fn() -> int:
        """A random seed, the same on all ranks."""
        import farandole.tensorflow as hvd

        return common_seed(hvd.rank(), hvd.broadcast_object)

    @staticmethod
    def to_dense(X: Dict[str, Any], labels: Any) -> Tuple[Dict[str, Any], Any]:
        """A batch whose sparse tensors and lists, as pairs of values and row lengths, are dense tensors."""
        import tensorflow as tf

        def dense(value: Any) -> Any:
            if isinstance(value, tf.SparseTensor):
                return tf.sparse.to_dense(value)
            if isinstance(value, tuple):
                values, lengths = value
                return tf.RaggedTensor.from_row_lengths(tf.reshape(values, [-1]), tf.reshape(lengths, [-1])).to_tensor()
            return value

        return {name: dense(value) for name, value in X.items()}, labels

    def _loader(self, is_training: bool) -> Any:
        loader = self._loaders.KerasSequenceLoader(
            self._dataset(is_training),
            label_names=self.label_cols,
            cat_names=self.categorical_cols,
            cont_names=self.continuous_cols,
            seed_fn=self.seed_fn,
            **self._arguments(is_training),
        )
        return loader.map(self.to_dense)
