"""The ways in which a script goes on with a saved or copied state, between two steps."""

from __future__ import annotations

import copy
import io
import pickle
from typing import TYPE_CHECKING, Any, Callable, Dict, List

import torch

if TYPE_CHECKING:
    from with_torch.training import Training


def _states(training: Training) -> Dict[str, Any]:
    return {
        "model": training.model.state_dict(),
        "optimizers": [each.state_dict() for each in training.optimizers],
        "schedulers": [each.state_dict() for each in training.schedulers],
        "scaler": training.scaler.state_dict() if training.scaler is not None else None,
        "average": training.average.state_dict() if training.average is not None else None,
    }


def _load(training: Training, states: Dict[str, Any]) -> None:
    training.model.load_state_dict(states["model"])
    for name in ("optimizers", "schedulers"):
        for each, state in zip(getattr(training, name), states[name]):
            each.load_state_dict(state)
    if training.scaler is not None:
        training.scaler.load_state_dict(states["scaler"])
    if training.average is not None:
        training.average.load_state_dict(states["average"])


def _through_a_file(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **options)


def load(training: Training) -> None:
    """Into the same objects."""
    _load(training, _states(training))


def new(training: Training) -> None:
    """Into new objects, from a checkpoint that each rank has."""
    states = _through_a_file(_states(training), weights_only=False)
    training.end()
    training.build()
    _add_late_group(training, states["optimizers"])
    _load(training, states)


def root(training: Training) -> None:
    """Into new objects, from a checkpoint that only the root has."""
    states = _through_a_file(_states(training), weights_only=False)
    training.end()
    training.build()
    _add_late_group(training, states["optimizers"])
    if training.seat.rank == training.seat.root(training.recipe):
        _load(training, states)
    else:  # schedulers and the like are sent as objects
        _load(training, {**states, **{name: _states(training)[name] for name in ("model", "optimizers")}})
    training.broadcast()


def _add_late_group(training: Training, states: List[Dict[str, Any]]) -> None:
    from with_torch.optimizers import added_group

    if len(training.optimizers[0].param_groups) < len(states[0]["param_groups"]):
        training.optimizers[0].add_param_group(added_group(training.recipe, training.model))


def rolled_back(training: Training) -> None:
    """A step is taken and undone."""
    from with_torch import loop

    states, batches = copy.deepcopy(_states(training)), training.batches
    loop.take_step(training, False)
    loop.clear_all(training)
    _load(training, states)
    training.batches = batches


def values_by_name(training: Training) -> Dict[str, Any]:
    """What has a state."""
    values = {f"optimizer{index}": each for index, each in enumerate(training.optimizers)}
    values.update({f"scheduler{index}": each for index, each in enumerate(training.schedulers)})
    values.update(model=training.model, scaler=training.scaler, average=training.average, sampler=training.sampler)
    return {name: each for name, each in values.items() if each is not None}


def elastic(training: Training) -> None:
    """A step is taken and undone by an elastic state, which then makes the ranks equal."""
    from with_torch import loop

    state = training.seat.elastic_state(**values_by_name(training))
    if state is None:
        rolled_back(training)
        return
    batches = training.batches
    loop.take_step(training, False)
    loop.clear_all(training)
    state.restore()
    state.sync()
    training.batches = batches


def _copied(training: Training, copied: Callable[[Any], Any]) -> None:
    training.end()
    training.model, training.optimizers, training.schedulers, training.average = copied(
        (training.model, training.optimizers, training.schedulers, training.average)
    )
    training.forward = training.model
    training.wrap()


def rewrapped(training: Training) -> None:
    """The optimizers let go, and are wrapped again."""
    for optimizer in training.optimizers:
        training.seat.unwrap(optimizer)
    training.wrap()


RESUMES: Dict[str, Callable[[Training], None]] = {
    "load": load,
    "new": new,
    "root": root,
    "rolled_back": rolled_back,
    "elastic": elastic,
    "deepcopy": lambda training: _copied(training, copy.deepcopy),
    "pickle": lambda training: _copied(training, lambda value: pickle.loads(pickle.dumps(value))),
    "rewrapped": rewrapped,
}
