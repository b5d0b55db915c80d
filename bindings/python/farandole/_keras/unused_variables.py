"""Updates of variables that only other ranks may have used, in graphs of TensorFlow.

A graph is made before it is known whether another rank has a gradient that this rank lacks. Where no rank has one, the
variable and its state stay as they are, as in one process.
"""

from __future__ import annotations

import functools
from typing import Any, List, Sequence

from farandole._keras.keras3_optimizer import OfKeras3


class OfKeras3OnTensorFlow(OfKeras3):
    """Changes a variable only in steps in which a rank has used it."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Reduces the gradients over all ranks, and applies them."""
        try:
            return super().apply(grads, trainable_variables)
        finally:
            self._farandole.end_step()

    def _farandole_reduced(self, grads: List[Any], variables: List[Any]) -> List[Any]:
        reduce = self._farandole.possible if self._farandole_is_plain() else self._farandole
        reduced: List[Any] = reduce(grads, variables)
        return reduced

    def _farandole_apply_reduced(self, reduced: List[Any], variables: List[Any]) -> Any:
        """Constrains a possible variable only where a rank has used it. Keras calls ``constraint`` in all steps."""
        from keras import Variable

        listed = [each for each in variables if isinstance(each, Variable) and self._farandole.is_possible(each)]
        constrained = [(each, each.constraint) for each in listed if each.constraint is not None]
        for variable, constraint in constrained:
            variable.constraint = functools.partial(self._farandole_constrained, constraint)
        try:
            return super()._farandole_apply_reduced(reduced, variables)
        finally:
            for variable, constraint in constrained:
                variable.constraint = constraint

    def _farandole_constrained(self, constraint: Any, variable: Any) -> Any:
        self._farandole.where_used(variable, lambda: variable.assign(constraint(variable)))
        return variable

    def _farandole_is_plain(self) -> bool:
        """Whether each variable is changed in ``update_step()``, in the step in which its gradient is reduced."""
        from keras.optimizers import Optimizer

        own = super(OfKeras3, self).update_step.__func__  # type: ignore[misc]
        return own is not Optimizer.update_step and not getattr(self, "gradient_accumulation_steps", None)

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """As the wrapped optimizer's, where a rank has used the variable."""
        update = super().update_step  # type: ignore[misc]
        self._farandole.where_used(variable, lambda: update(gradient, variable, learning_rate))

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        decay = super()._apply_weight_decay  # type: ignore[misc]
        decay([each for each in variables if not self._farandole.is_possible(each)])
        for each in variables:
            if self._farandole.is_possible(each):
                self._farandole.where_used(each, lambda each=each: decay([each]))

    def _filter_empty_gradients(self, grads: Sequence[Any], trainable_variables: Sequence[Any]) -> Any:
        """Warns of the gradients that this rank lacks, as Keras does, and leaves out none of those that others may
        have."""
        keep = super()._filter_empty_gradients  # type: ignore[misc]
        own = [None if self._farandole.is_possible(each) else grad for grad, each in zip(grads, trainable_variables)]
        if any(each is not None for each in own):
            keep(own, trainable_variables)
        return keep(grads, trainable_variables)
