"""Adasum for optimizers of TensorFlow 1: each rank steps on its own, and the changes of the variables are
combined."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple

from farandole.tensorflow import reductions
from farandole.tensorflow.kernels import tf
from farandole.tensorflow.legacy_optimizer import WrappedOptimizer
from farandole.tensorflow.mpi_ops import Adasum
from farandole.tensorflow.reducing import may_have_gradient
from farandole.tensorflow.util import reference

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
        self._rounds: Dict[Any, _Round] = {}

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

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        """Applies this rank's gradients, and combines the changes of all ranks after the last step of a round.

        A variable without a gradient takes part, with a change of zero: other ranks or steps may have one.
        """
        pairs = list(grads_and_vars)
        rounds = {
            self._round(variable): place
            for place, (gradient, variable) in enumerate(pairs)
            if gradient is not None or may_have_gradient(variable)
        }
        own = [pair for pair in pairs if pair[0] is not None]
        with tf.control_dependencies([each.begin() for each in rounds]):
            applied = self._optimizer.apply_gradients(own, global_step)
        with tf.control_dependencies([applied]):
            ends = [each.end(self._combined, f"{self.get_name()}_delta_{place}") for each, place in rounds.items()]
            return None if tf.executing_eagerly() else tf.group(*ends, name=name)

    def _round(self, variable: Any) -> _Round:
        key = reference(variable)
        if key not in self._rounds:
            self._rounds[key] = _Round(variable, self._passes)
        return self._rounds[key]

    def _combined(self, change: Any, name: str) -> Any:
        return reductions.allreduce(
            change, device_dense=self._device_dense, compression=self._compression, op=Adasum, name=name
        )


class _Round:
    """The steps of a variable whose changes are combined together: how many were taken, and the value before them."""

    def __init__(self, variable: Any, passes: int) -> None:
        self._variable = variable
        self._passes = passes
        with tf.init_scope():
            self._count = tf.Variable(0, trainable=False, dtype=tf.int32)
            # The initial value is never read: the first step of each round writes it.
            self._start = tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)

    def begin(self) -> Any:
        """Saves the value of the variable if this is the first step of a round."""
        now, start = tf.convert_to_tensor(self._variable), tf.convert_to_tensor(self._start)
        return self._start.assign(tf.where(tf.equal(self._count, 0), now, start))

    def end(self, combined: Callable[[Any, str], Any], name: str) -> Any:
        """Counts the step. After the last step of a round, sets the variable to its saved value plus the combined
        change."""
        count = self._count.assign(tf.math.floormod(self._count + 1, self._passes))
        now, start = (tf.identity(tf.convert_to_tensor(each)) for each in (self._variable, self._start))
        target = tf.cond(
            tf.equal(count, 0), lambda: start + combined(now - start, name), lambda: tf.identity(now), name=name
        )
        return self._variable.assign(target)
