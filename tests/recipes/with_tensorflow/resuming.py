"""The ways in which ranks get the same weights, and in which a script goes on with a saved state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict

import horovod.tensorflow as hvd
import tensorflow as tf

if TYPE_CHECKING:
    from with_tensorflow.training import Training


def by_variables(training: Training, root: int) -> None:
    if training.session:
        training.session.run(hvd.broadcast_global_variables(root))
    else:
        hvd.broadcast_variables(training.state(), root)


def by_hook(training: Training, root: int) -> None:
    """In graphs."""
    hook = hvd.BroadcastGlobalVariablesHook(root)
    hook.begin()
    hook.after_create_session(training.session, None)


STARTS: Dict[str, Callable[[Training, int], None]] = {
    "variables": by_variables,
    "state": lambda training, _: hvd.elastic.TensorFlowState(training.state()).sync(),
    "hook": by_hook,
}


def from_file(training: Training, has_file: bool = True) -> None:
    """New objects, for which each rank has a file."""
    path, saver = os.path.join(training.folder, "saved"), tf.compat.v1.train.Saver
    if training.session:
        saver().save(training.session, path)
    else:
        _checkpoint(training).write(path)
    training.build()
    if has_file and training.session:
        saver().restore(training.session, path)
    elif has_file:
        _checkpoint(training).read(path)


def _checkpoint(training: Training) -> Any:
    parts = {"rate": None if training.recipe.schedule else training.rate, "norm": training.norm}
    known = {name: each for name, each in parts.items() if each is not None}
    optimizers = [each.optimizer for each in training.parts if each.optimizer is not None]
    return tf.train.Checkpoint(
        weights=[*training.weights.values()], optimizers=optimizers, step=training.global_step, **known
    )


def from_root(training: Training) -> None:
    """New objects, for which only the root has a file."""
    from_file(training, training.seat.rank == 0)
    if training.seat.is_in_job:
        by_variables(training, 0)


def elastic(training: Training) -> None:
    """A step is trained and undone by an elastic state, which then makes the ranks equal."""
    variables = training.state()
    values = training.read(variables)
    state = hvd.elastic.TensorFlowState(variables) if training.seat.is_in_job else None
    training.train()
    if state is not None:
        state.restore()
        state.sync()
    else:
        for pair in zip(variables, values):
            training.assign(*pair)


RESUMES: Dict[str, Callable[[Training], None]] = {"file": from_file, "root": from_root, "state": elastic}
