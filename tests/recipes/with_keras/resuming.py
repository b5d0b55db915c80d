"""The ways in which a script goes on with a saved state, between two epochs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List

from farandole._keras.library import all_variables_of, build

from with_keras.versions import STATE_FILE, array_of

if TYPE_CHECKING:
    from with_keras.training import Training


def recompiled(training: Training) -> None:
    """With the same optimizer."""
    training.compile(training.model.optimizer)


def weights(training: Training) -> None:
    """An epoch is trained and undone by a file, which has the state of the optimizer, too."""
    path = os.path.join(training.folder, STATE_FILE)
    training.model.save_weights(path)
    training.train_more()
    training.model.load_weights(path)


def loaded(training: Training) -> None:
    """Each rank loads its model."""
    path = os.path.join(training.folder, "saved.keras")
    training.model.save(path)
    training.model = training.seat.load_model(path)
    training.model.factor = lambda: training.seat.factor(training.recipe)


def root(training: Training) -> None:
    """New objects, for which only the root has a file."""
    path = os.path.join(training.folder, STATE_FILE)
    training.model.save_weights(path)
    training.build()
    state = training.seat.elastic_state(training.model)
    build(training.model.optimizer, training.model.trainable_variables)
    if training.seat.rank == 0:
        training.model.load_weights(path)
    if state is not None:
        state.sync()


def elastic(training: Training) -> None:
    """An epoch is trained and undone by an elastic state, which then makes the ranks equal."""
    state = training.seat.elastic_state(training.model)
    values = [array_of(each) for each in _variables(training.model)]
    if state is not None:
        state.save()
    training.train_more()
    if state is not None:
        state.restore()
        state.sync()
    else:
        for each, value in zip(_variables(training.model), values):
            each.assign(value)


def _variables(model: Any) -> List[Any]:
    return [*model.variables, *all_variables_of(model.optimizer)]


RESUMES: Dict[str, Callable[[Training], None]] = {
    "recompiled": recompiled,
    "weights": weights,
    "loaded": loaded,
    "root": root,
    "elastic": elastic,
}
