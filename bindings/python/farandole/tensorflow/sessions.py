"""Broadcasts of global variables in graphs and sessions of TensorFlow 1."""

from __future__ import annotations

from typing import Any

from farandole.common.operations import public
from farandole.tensorflow import functions, reductions
from farandole.tensorflow.kernels import tf


@public
def broadcast_global_variables(root_rank: int) -> Any:
    if tf.executing_eagerly():
        raise RuntimeError(
            "broadcast_global_variables() works in graphs only: there are no global variables outside of them; use "
            "broadcast_variables(model.variables, root_rank)"
        )
    return functions.broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """Broadcasts one rank's global variables to all ranks when a session is created, even if it was restored.

    :param root_rank: the global rank whose variables are sent
    :param device: the device of the broadcast
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.bcast_op: Any = None

    def begin(self) -> None:
        """Adds the broadcast to the default graph, if it is not in this graph already."""
        if self.bcast_op is None or self.bcast_op.graph is not tf.compat.v1.get_default_graph():
            with reductions.on(self.device):
                self.bcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs the broadcast."""
        session.run(self.bcast_op)
