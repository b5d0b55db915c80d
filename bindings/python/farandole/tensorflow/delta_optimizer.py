"""Adasum for optimizers of TensorFlow 1: each rank steps on its own, and the changes of the variables are
combined."""

from __future__ import annotations

from typing import Any, List, NoReturn, Optional, Tuple

from farandole.tensorflow import reductions
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.legacy_optimizer import WrappedOptimizer
from farandole.tensorflow.mpi_ops import Adasum

LossScaler = tf.compat.v1.mixed_precision.MixedPrecisionLossScaleOptimizer


def refused_scaler() -> ValueError:
    """The error for a loss scaler inside or around the optimizer."""
    return ValueError(
        "op=Adasum does not go together with a loss scaler: when the scale is too large for the gradients of one rank, "
        "only that rank would skip the step; train in bfloat16 without a scaler, or pass op=Average"
    )


class _DistributedAdasumOptimizer(WrappedOptimizer):
    """Lets the wrapped optimizer step locally, and combines the changes of all ranks after every ``passes`` steps."""

    def __init__(
        self, optimizer: Any, name: str, use_locking: bool, device_dense: str, compression: Any, passes: int
    ) -> None:
        super().__init__(optimizer, name, use_locking)
        self._device_dense = device_dense
        self._compression = compression
        self._passes = passes
        self._counter: Optional[Any] = None
        self._starts: List[Any] = []

    @property
    def _use_locking(self) -> NoReturn:
        """Raises ``ValueError`` for every reader. A ``LossScaler`` that is put around an optimizer reads it. It would
        run the reduction only where the gradients of its own rank are finite, and the other ranks would wait."""
        raise refused_scaler()

    @_use_locking.setter
    def _use_locking(self, value: bool) -> None:
        """Ignores what the base class sets: the wrapped optimizer applies the gradients."""

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, Any]]:
        """As the wrapped optimizer's. Gradients are not reduced."""
        return list(self._optimizer.compute_gradients(*args, **kwargs))

    def _make_variables(self, variables: List[Any]) -> None:
        if self._counter is not None:
            return
        with tf.init_scope():
            self._counter = tf.Variable(0, trainable=False, dtype=tf.int32)
            # The initial values are never read: the first step of each round writes the variables.
            self._starts = [tf.Variable(tf.zeros(each.shape, each.dtype), trainable=False) for each in variables]

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        """Applies this rank's gradients, and combines the changes of all ranks after the last step of a round."""
        pairs = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        variables = [variable for _, variable in pairs]
        if tf.executing_eagerly():
            self._make_variables(variables)
            self._begin(variables)
            self._optimizer.apply_gradients(pairs, global_step, name)
            self._end(variables)
            return None
        self._make_variables(variables)
        with tf.control_dependencies(self._begin(variables)):
            applied = self._optimizer.apply_gradients(pairs, global_step)
        with tf.control_dependencies([applied]):
            return tf.group(*self._end(variables), name=name)

    def _begin(self, variables: List[Any]) -> List[Any]:
        """Saves the values of the variables if this is the first step of a round."""
        assert self._counter is not None
        is_first = tf.equal(self._counter, 0)
        return [
            start.assign(tf.where(is_first, tf.convert_to_tensor(variable), tf.convert_to_tensor(start)))
            for start, variable in zip(self._starts, variables)
        ]

    def _end(self, variables: List[Any]) -> List[Any]:
        """Counts the step. After the last step of a round, sets every variable to its saved value plus the combined
        change."""
        assert self._counter is not None
        count = self._counter.assign(tf.math.floormod(self._counter + 1, self._passes))
        now = [tf.identity(tf.convert_to_tensor(each)) for each in variables]
        starts = [tf.identity(tf.convert_to_tensor(each)) for each in self._starts]
        targets = tf.cond(
            tf.equal(count, 0),
            lambda: [
                start + self._combined(each - start, place) for place, (each, start) in enumerate(zip(now, starts))
            ],
            lambda: [tf.identity(each) for each in now],
        )
        targets = targets if isinstance(targets, (list, tuple)) else [targets]
        return [variable.assign(target) for variable, target in zip(variables, targets)]

    def _combined(self, change: Any, place: int) -> Any:
        return reductions.allreduce(
            change,
            device_dense=self._device_dense,
            compression=self._compression,
            op=Adasum,
            name=f"{self.get_name()}_delta_{place}",
        )
