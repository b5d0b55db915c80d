"""Elastic training with ``fit()``: members may join and leave between the commits of a state."""

from __future__ import annotations

from typing import Any, Callable, List, TypeVar

from farandole._keras import variables
from farandole._keras.library import Library, all_variables_of, bring_home, build, discard_passes
from farandole.common.elastic import VariablesState

Result = TypeVar("Result")


class KerasState(VariablesState):
    """Elastic state of a model, its optimizer, and further values that are given by keyword.

    :param model: must be built already; ``ValueError`` otherwise
    :param optimizer: the model's own by default
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if not getattr(model, "built", False):
            raise ValueError("the model must be built before it becomes a state: call build(), or run a batch")
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        build(self.optimizer, model.trainable_variables)
        super().__init__(variables, "keras.state", **kwargs)

    def _variables(self) -> List[Any]:
        shared = [*self.model.variables, *all_variables_of(self.optimizer)]
        return list({id(each): each for each in shared}.values())

    def _not_copied(self) -> List[Any]:
        """Values that refer to the model, such as callbacks, are copied without it."""
        return [self.model, self.optimizer, *super()._not_copied()]

    def _shared_variables(self) -> List[Any]:
        return [each for each in self._variables() if not variables.is_random_state(each)]

    def _read(self) -> List[Any]:
        bring_home(self.model)
        return super()._read()

    def _write(self, values: List[Any]) -> None:
        # The old values are not synchronised first: a step that failed may have left variables without values.
        super()._write(values)
        discard_passes(self.optimizer)

    def _broadcast(self) -> None:
        bring_home(self.model)
        super()._broadcast()
        discard_passes(self.optimizer)


def run_on(used: Library, func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a training function whose first argument is a state, by ``elastic.run`` of the backend's adapter."""
    decorated: Callable[..., Result] = used.adapter.elastic.run(func)
    return decorated
