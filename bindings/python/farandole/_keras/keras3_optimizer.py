"""The methods that reduce gradients in a wrapped optimizer of Keras 3."""

from __future__ import annotations

import functools
from typing import Any, List, Sequence

from farandole._keras.distributed import Distributed
from farandole._keras.library import nested, variables_of


class CallableList(List[Any]):
    """A list that can also be called, because older scripts call ``optimizer.variables()``."""

    def __call__(self) -> List[Any]:
        """Returns the list itself."""
        return self


class OfKeras3(Distributed):
    """Reduces gradients in ``apply()``, because all other ways to apply gradients in Keras 3 call it."""

    def build(self, variables: Sequence[Any]) -> None:
        super().build(variables)  # type: ignore[misc]
        if hasattr(self._farandole, "build"):
            self._farandole.build(self, variables)

    @property
    def variables(self) -> CallableList:
        """The optimizer's variables."""
        return CallableList(super().variables)  # type: ignore[misc]

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """Reduces the gradients over all ranks, and applies them."""
        grads = list(grads)
        if not grads:
            return None
        if trainable_variables is None:
            variables = list(self._trainable_variables)  # type: ignore[attr-defined]
        else:
            variables = list(trainable_variables)
            if not self.built:  # type: ignore[has-type]
                # Variables must be created outside of the conditional below.
                self.build(variables)
                self.built = True
        reduced = self._farandole_reduced(grads, variables)
        return self._farandole.apply(lambda: self._farandole_apply_reduced(reduced, variables), self)

    def _farandole_reduced(self, grads: List[Any], variables: List[Any]) -> List[Any]:
        reduced: List[Any] = self._farandole(grads, variables)
        return reduced

    def _farandole_apply_reduced(self, reduced: List[Any], variables: List[Any]) -> Any:
        return super().apply(reduced, variables)  # type: ignore[misc]

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """On JAX: reduces the gradients over all ranks, and applies them.

        Reduces here only if the optimizer's own ``stateless_apply`` does not call ``apply()``.
        """
        apply = super().stateless_apply  # type: ignore[misc]
        if is_own_stateless_apply(apply.__func__):
            grads = self._farandole(list(grads), list(self._trainable_variables))  # type: ignore[attr-defined]
        return apply(optimizer_variables, grads, trainable_variables)

    def __reduce__(self) -> Any:
        """A copy is a plain optimizer, which can be wrapped again, as one that is loaded with a model."""
        own: Any = type(self).__bases__[-1]
        return own._unpickle_model, super().__reduce__()[1]

    def save_own_variables(self, store: Any) -> None:
        """As the wrapped optimizer's. The accumulated gradients of backward passes are not saved."""
        for place, variable in enumerate(variables_of(self)):
            store[str(place)] = variable.numpy()

    def load_own_variables(self, store: Any) -> None:
        """As the wrapped optimizer's."""
        lasting = variables_of(self)
        if len(store.keys()) != len(lasting):
            super().load_own_variables(store)  # type: ignore[misc]  # warns
            return
        for place, variable in enumerate(lasting):
            variable.assign(store[str(place)])


def let_ranks_agree(scaler: Any) -> None:
    """Makes this class, ``LossScaleOptimizer`` of Keras 3, ask all ranks whether the gradients of a step are finite.

    It decides whether a step is applied, and so whether the distributed optimizers inside of it reduce. ``compile()``
    puts it around an optimizer, so a class of our own would not be used.
    """
    if getattr(scaler.check_finite, "_farandole_agrees", False):
        return
    own = scaler.check_finite

    @functools.wraps(own)
    def check_finite(self: Any, grads: Any) -> Any:
        finite = own(self, grads)
        if isinstance(self, Distributed):  # the gradients have been reduced, except those of local variables
            return self._farandole.agreed(finite) if self._farandole.has_locals else finite
        for each in nested(self.inner_optimizer):
            if isinstance(each, Distributed):
                finite = each._farandole.agreed(finite)
        return finite

    check_finite._farandole_agrees = True  # type: ignore[attr-defined]
    scaler.check_finite = check_finite


def is_own_stateless_apply(method: Any) -> bool:
    """Whether a class's ``stateless_apply`` does not call ``apply()``, as that of Keras' base class does.
    ``LossScaleOptimizer`` has such a method."""
    from keras.optimizers import Optimizer

    return method is not Optimizer.stateless_apply
