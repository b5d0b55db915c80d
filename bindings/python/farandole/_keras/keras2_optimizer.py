"""The methods that reduce gradients in a wrapped optimizer of Keras 2."""

from __future__ import annotations

import enum
import functools
from typing import Any, List, Tuple

from farandole._keras.distributed import Distributed


class _Stage(enum.Enum):
    """The last of an optimizer's three calls that the gradients of this step have passed through."""

    FRESH = enum.auto()
    COMPUTED = enum.auto()
    AGGREGATED = enum.auto()
    APPLYING = enum.auto()


class OfKeras2(Distributed):
    """Keras 2 computes, aggregates and applies gradients in three calls, which wrappers and subclasses may make
    separately. The first of these calls that the caller makes reduces the gradients; the others do not.

    A ``LossScaleOptimizer`` does not apply gradients that overflow, so the stage may be left over from a skipped
    step. Therefore computing always begins a new step, and aggregating does too unless it follows computing.
    """

    _farandole_stage = _Stage.FRESH

    @property
    def _agg_helper(self) -> Any:
        """The helper that accumulates the gradients of several backward passes; None with one pass."""
        return self._farandole.aggregation_helper

    def _farandole_begin_anew(self) -> None:
        super()._farandole_begin_anew()
        self._farandole_stage = _Stage.FRESH

    def _farandole_reduce(self, grads_and_vars: Any) -> List[Any]:
        pairs = list(grads_and_vars)
        variables = [variable for _, variable in pairs]
        reduced = self._farandole([gradient for gradient, _ in pairs], variables)
        return list(zip(self._farandole.zero_unless_due(reduced), variables))

    def _compute_gradients(self, loss: Any, var_list: Any, grad_loss: Any = None, tape: Any = None) -> List[Any]:
        """Gradients of ``loss``, multiplied by ``grad_loss`` if it is given, and reduced over all ranks."""
        if hasattr(super(), "_compute_gradients"):
            pairs = super()._compute_gradients(loss, var_list, grad_loss=grad_loss, tape=tape)  # type: ignore[misc]
        else:
            pairs = super().compute_gradients(*_weighted(loss, grad_loss, tape, var_list))  # type: ignore[misc]
        reduced = self._farandole_reduce(pairs)
        self._farandole_stage = _Stage.COMPUTED
        return reduced

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Reduces the gradients over all ranks unless an earlier call has done so, and applies them."""
        import tensorflow as tf

        pairs = list(grads_and_vars)
        if pairs and hasattr(self, "build"):
            with tf.init_scope():
                self.build([variable for _, variable in pairs])
        elif pairs and hasattr(self, "_create_all_weights"):
            with tf.init_scope():
                self._create_all_weights([variable for _, variable in pairs])
        if self._farandole_stage is _Stage.FRESH:
            pairs = self._farandole_reduce(pairs)
        self._farandole_stage = _Stage.APPLYING
        try:
            return self._farandole.apply(
                lambda: super(OfKeras2, self).apply_gradients(pairs, *args, **kwargs),  # type: ignore[misc]
                self,
            )
        finally:
            self._farandole_stage = _Stage.FRESH

    def _farandole_aggregate(self, grads_and_vars: Any) -> Any:
        """Reduces unless the gradients are reduced already."""
        if self._farandole_stage is _Stage.APPLYING:
            return grads_and_vars
        if self._farandole_stage is not _Stage.COMPUTED:
            grads_and_vars = self._farandole_reduce(grads_and_vars)
        self._farandole_stage = _Stage.AGGREGATED
        return grads_and_vars

    def aggregate_gradients(self, grads_and_vars: Any) -> Any:
        """Reduces the gradients over all ranks; ``apply_gradients`` then does not."""
        reduced = self._farandole_aggregate(grads_and_vars)
        if not hasattr(super(), "aggregate_gradients"):
            return reduced
        return super().aggregate_gradients(reduced)  # type: ignore[misc]

    def _aggregate_gradients(self, grads_and_vars: Any) -> Any:
        """As ``aggregate_gradients``: wrappers of older optimizers call it by this name."""
        reduced = self._farandole_aggregate(grads_and_vars)
        if not hasattr(super(), "_aggregate_gradients"):
            return reduced
        return super()._aggregate_gradients(reduced)  # type: ignore[misc]

    def get_gradients(self, loss: Any, params: Any) -> Any:
        """In graphs of TensorFlow 1: the gradients, reduced over all ranks."""
        gradients = super().get_gradients(loss, params)  # type: ignore[misc]
        self._farandole_stage = _Stage.COMPUTED
        return self._farandole(gradients, list(params))


def let_ranks_agree(scaler: Any) -> None:
    """Makes this class, a ``LossScaleOptimizer`` of Keras 2, ask all ranks whether the gradients of a step are finite.

    The ranks find the same where all gradients have been reduced, but not of those of local variables.
    """
    if getattr(scaler.apply_gradients, "_farandole_agrees", False):
        return
    own = scaler.apply_gradients

    @functools.wraps(own)
    def apply_gradients(self: Any, *args: Any, **kwargs: Any) -> Any:
        optimizer = self if isinstance(self, Distributed) else self.inner_optimizer
        if not (isinstance(optimizer, Distributed) and optimizer._farandole.has_locals and self.dynamic):
            return own(self, *args, **kwargs)
        state = self._loss_scale
        state.update = lambda gradients: type(state).update(state, _with_agreement(gradients, optimizer._farandole))
        try:
            return own(self, *args, **kwargs)
        finally:
            del state.update

    apply_gradients._farandole_agrees = True  # type: ignore[attr-defined]
    scaler.apply_gradients = apply_gradients


def _with_agreement(gradients: Any, reduction: Any) -> List[Any]:
    """The gradients, and a number that is not finite if a gradient of any rank is not."""
    import tensorflow as tf

    values = [getattr(each, "values", each) for each in gradients]  # of slices
    are_finite = reduction.agreed(tf.reduce_all([tf.reduce_all(tf.math.is_finite(each)) for each in values]))
    return [*gradients, tf.where(are_finite, 0.0, float("nan"))]


def _weighted(loss: Any, weight: Any, tape: Any, variables: Any) -> Tuple[Any, Any, Any]:
    """The arguments of ``compute_gradients``. It takes no weight for the loss, so the loss is multiplied by it
    here."""
    if weight is None:
        return loss, variables, tape
    if callable(loss):
        return (lambda: loss() * weight), variables, tape
    if tape is not None:
        with tape:
            loss = loss * weight
    return loss, variables, tape
