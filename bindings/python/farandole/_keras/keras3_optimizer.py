"""What a wrapped optimizer of Keras 3 does besides what its own class does."""

from __future__ import annotations

from typing import Any, List, Sequence

from farandole._keras.distributed import Distributed
from farandole._keras.library import variables_of


class CallableList(List[Any]):
    """A list that can be called, too: older scripts do."""

    def __call__(self) -> List[Any]:
        """The list."""
        return self


class OfKeras3(Distributed):
    """Every way to apply gradients ends in ``apply()``."""

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
                # Before anything is conditional.
                self.build(variables)
                self.built = True
        reduced = self._farandole(grads, variables)
        return self._farandole.apply(lambda: super(OfKeras3, self).apply(reduced, variables), self)  # type: ignore[misc]

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """On JAX: reduces the gradients over all ranks, and applies them."""
        if not has_own_stateless_apply(type(self)):
            return super().stateless_apply(optimizer_variables, grads, trainable_variables)  # type: ignore[misc]
        reduced = self._farandole(list(grads), list(self._trainable_variables))  # type: ignore[attr-defined]
        return super().stateless_apply(optimizer_variables, reduced, trainable_variables)  # type: ignore[misc]

    def save_own_variables(self, store: Any) -> None:
        """As the wrapped optimizer's: what backward passes add up is not kept."""
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


def has_own_stateless_apply(kind: type) -> bool:
    """Whether it does not come to ``apply()``, as that of a loss scale's optimizer."""
    definer = next(each for each in kind.__mro__ if "stateless_apply" in vars(each) and each is not OfKeras3)
    return definer.__name__ != "BaseOptimizer"
