"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

from typing import Any, Tuple

from farandole.common import membership
from farandole.tensorflow import mpi_ops
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.mpi_ops import Sum


@tf.keras.utils.register_keras_serializable(package="farandole")
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """Like ``tf.keras.layers.BatchNormalization``, with mean and variance over the batches of all ranks. Ranks may
    have batches of different sizes, and masks. All ranks must take part in training.

    A saved model that has this layer is loaded by ``load_model`` of ``horovod.keras``, or by Keras after this class was
    imported.

    :param fused: must stay False; ``ValueError`` otherwise
    """

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True")
        kwargs.setdefault("name", "sync_batch_normalization")
        if _takes_fused():
            kwargs["fused"] = fused
        super().__init__(**kwargs)

    def _moments(self, inputs: Any, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        """Mean and variance of each feature over the batches of all ranks. The layer calls this method."""
        mean, variance = super()._moments(inputs, *args, **kwargs)
        if mpi_ops.size() == 1 and not membership.is_elastic():
            return mean, variance
        # Keras 3 passes the mask by position; Keras 2 passes the axes so, and the mask by keyword.
        mask, axes = (kwargs.get("mask"), args[0]) if kwargs else (args[0], self._reduction_axes)
        if mask is None:
            return _of_all_ranks(mean, variance, tf.size(inputs) / tf.size(mean))
        valid = tf.broadcast_to(tf.cast(mask, mean.dtype)[..., tf.newaxis], tf.shape(inputs))
        return _of_all_ranks(mean, variance, tf.reshape(tf.reduce_sum(valid, axes), tf.shape(mean)))


def _takes_fused() -> bool:
    """Whether this Keras has a fused implementation, which must be disabled; Keras 3 has none."""
    import inspect

    parameters = inspect.signature(tf.keras.layers.BatchNormalization.__init__).parameters
    return "fused" in parameters or "kwargs" in parameters and not hasattr(tf.keras, "ops")


def _of_all_ranks(mean: Any, variance: Any, count: Any) -> Tuple[Any, Any]:
    """Mean and variance over all ranks. The second of two allreduces adds up the squares of the distances from the
    mean: of the mean of squares less the square of the mean, nothing is left where the mean is large.

    :param count: of the samples of this rank, for all features or for each
    """
    count = tf.cast(count, mean.dtype)
    # A rank without samples contributes zero, even if its mean is not a number.
    mean, variance = (tf.where(count > 0, each, tf.zeros_like(each)) for each in (mean, variance))
    sums = mpi_ops._allreduce(tf.concat([tf.reshape(mean * count, [-1]), tf.reshape(count, [-1])], 0), op=Sum)
    features = tf.size(mean)
    total = tf.reshape(sums[features:], tf.shape(count))
    every_mean = tf.math.divide_no_nan(tf.reshape(sums[:features], tf.shape(mean)), total)
    squares = mpi_ops._allreduce((variance + tf.square(mean - every_mean)) * count, op=Sum)
    return every_mean, tf.math.divide_no_nan(squares, total)
