"""Elastic training with ``fit()``: members may come and go between the commits of a state."""

from __future__ import annotations

from typing import Any, Callable, List, TypeVar

from farandole._keras import variables
from farandole._keras.library import Library, bring_home, variables_of
from farandole.common.basics import HorovodBasics
from farandole.common.elastic import ObjectState
from farandole.common.objects import broadcast_object

Result = TypeVar("Result")

_basics = HorovodBasics(__file__, "mpi_lib_v2")


class KerasState(ObjectState):
    """State of a model and its optimizer, and whatever else is given by keyword.

    :param model: built already; ``ValueError`` otherwise
    :param optimizer: the model's own by default
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        if not getattr(model, "built", False):
            raise ValueError("the model must be built before it becomes a state: call build(), or run a batch")
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        if (
            self.optimizer is not None
            and hasattr(self.optimizer, "build")
            and not getattr(self.optimizer, "built", False)
        ):
            # So that all ranks have the same variables, whether they have stepped or not.
            self.optimizer.build(model.trainable_variables)
        super().__init__(bcast_object=broadcast_object, get_rank=_basics.rank, **kwargs)
        self._kept = variables.read(self._variables())

    def _variables(self) -> List[Any]:
        shared = [*self.model.variables, *variables_of(self.optimizer)]
        return list({id(each): each for each in shared}.values())

    def _begin_anew(self) -> None:
        getattr(self.optimizer, "_farandole_begin_anew", lambda: None)()

    def save(self) -> None:
        """Keeps a copy of the variables and the values."""
        bring_home(self.model)
        self._kept = variables.read(self._variables())
        super().save()

    def restore(self) -> None:
        """Puts the copies back."""
        # A step that failed may have left variables without values.
        variables.write(self._variables(), self._kept)
        self._begin_anew()
        super().restore()

    def sync(self) -> None:
        """Gives rank 0's variables and values to all. If a member is lost meanwhile, what was saved before stays."""
        bring_home(self.model)
        variables.broadcast(self._variables(), 0, "keras.state")
        self._begin_anew()
        super().sync()
        self._kept = variables.read(self._variables())


def run_on(used: Library, func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a training function that takes a state first, as the adapter of the backend does."""
    decorated: Callable[..., Result] = used.adapter.elastic.run(func)
    return decorated
