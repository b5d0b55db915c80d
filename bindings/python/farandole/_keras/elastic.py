"""Elastic training with ``fit()``: members may join and leave between the commits of a state."""

from __future__ import annotations

from typing import Any, Callable, List, TypeVar

from farandole._keras import variables
from farandole._keras.library import Library, all_variables_of, bring_home
from farandole._keras.model_state import ModelState

Result = TypeVar("Result")


class KerasState(ModelState):
    """Elastic state of a model, its optimizer, and further values that are given by keyword.

    :param model: must be built already; ``ValueError`` otherwise
    :param optimizer: the model's own by default
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, variables, "keras.state", **kwargs)

    def _variables(self) -> List[Any]:
        shared = [*self.model.variables, *all_variables_of(self.optimizer)]
        return list({id(each): each for each in shared}.values())

    def _shared_variables(self) -> List[Any]:
        return [each for each in self._variables() if not variables.is_random_state(each)]

    def _read(self) -> List[Any]:
        bring_home(self.model)
        return super()._read()

    def _broadcast(self) -> None:
        bring_home(self.model)
        super()._broadcast()


def run_on(used: Library, func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a training function whose first argument is a state, by ``elastic.run`` of the backend's adapter."""
    decorated: Callable[..., Result] = used.adapter.elastic.run(func)
    return decorated
