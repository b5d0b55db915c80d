"""Elastic training for TensorFlow: members may join and leave between the commits of a state."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, List, TypeVar

from farandole._keras.library import all_variables_of
from farandole._keras.model_state import ModelState
from farandole.common.elastic import State, VariablesState, run_fn
from farandole.common.elastic.loop import restart
from farandole.tensorflow import functions
from farandole.tensorflow.errors import translated
from farandole.tensorflow.framework import Verbs
from farandole.tensorflow.gradient_aggregation_eager import discard_all_passes
from farandole.tensorflow.kernels import tf

if TYPE_CHECKING:
    from typing_extensions import Concatenate

    from farandole.common.elastic.loop import Rest, StateType

Result = TypeVar("Result")

__all__ = ["State", "TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Callable[Concatenate[StateType, Rest], Result]) -> Callable[Concatenate[StateType, Rest], Result]:
    """Decorates a training function whose first argument is a state. The function starts from rank 0's state, and
    continues with the current members after the membership has changed."""

    @functools.wraps(func)
    def train(state: StateType, *args: Rest.args, **kwargs: Rest.kwargs) -> Result:
        with translated():
            return func(state, *args, **kwargs)

    return run_fn(train, restart)


class _TensorFlowVariables(VariablesState):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(Verbs(), "tensorflow.state", **kwargs)

    def _broadcast(self) -> None:
        functions.broadcast_variables(list(self._variables()), root_rank=0)

    def sync(self) -> None:
        """Broadcasts rank 0's variables and values. If a member is lost meanwhile, the last saved state is kept."""
        with translated():
            super().sync()


class TensorFlowKerasState(ModelState, _TensorFlowVariables):
    """Elastic state of a Keras model, its optimizer, and further values that are given by keyword.

    :param model: must be built already; ``ValueError`` otherwise
    :param optimizer: the model's own by default
    :param backend: accepted and ignored; variables are read and written without a session
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        super().__init__(model, optimizer, **kwargs)

    def _variables(self) -> List[Any]:
        return [*self.model.weights, *all_variables_of(self.optimizer)]


class TensorFlowState(_TensorFlowVariables):
    """Elastic state of variables, and further values that are given by keyword.

    Commit after the pass that completes a step of ``backward_passes_per_step``. When steps are undone or the members
    change, the sums of passes are discarded outside of graphs. In a graph they are variables, too, and those of rank 0
    become those of all ranks.

    :param variables: all global variables of the graph by default
    :param session: the session of the graph; the default session by default, unused outside of graphs
    """

    def __init__(self, variables: Any = None, session: Any = None, **kwargs: Any) -> None:
        in_graph = not tf.executing_eagerly()
        self.variables = list(tf.compat.v1.global_variables() if variables is None else variables)
        self.session = session if session is not None or not in_graph else tf.compat.v1.get_default_session()
        # A session may finalize the graph, so the broadcast is added to the graph now, and run later.
        self._bcast_op = functions.broadcast_variables(self.variables, root_rank=0) if in_graph else None
        super().__init__(**kwargs)

    def _variables(self) -> List[Any]:
        return self.variables

    def _read(self) -> List[Any]:
        return super()._read() if self._bcast_op is None else list(self.session.run(self.variables))

    def _write(self, values: List[Any]) -> None:
        if self._bcast_op is None:
            super()._write(values)
            discard_all_passes()
            return
        for variable, value in zip(self.variables, values):
            variable.load(value, self.session)

    def _broadcast(self) -> None:
        if self._bcast_op is None:
            super()._broadcast()
            discard_all_passes()
        else:
            self.session.run(self._bcast_op)
