"""Makes an instance of another class of an optimizer, with all that the optimizer was made of.

An optimizer that has not stepped yet is copied, because not every optimizer can be made anew from its configuration:
schedules need no ``get_config()`` to be used, functions have no configuration, and the constructor of a user's own
class may take arguments that its configuration does not have. Schedules and functions are shared with the original, so
that a script that changes them changes the rate.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, List

from farandole._keras.library import nested


def wrapped_in(made: type, optimizer: Any) -> Any:
    """An instance of ``made``, which derives from the optimizer's class. It has the optimizer's configuration without
    its state. If the configuration does not describe the optimizer, it has the state, too."""
    if _is_built(optimizer) and _is_described(optimizer):
        return made.from_config(optimizer.get_config())  # type: ignore[attr-defined]
    wrapped: Any = object.__new__(made)
    memo = {id(each): each for each in _shared(optimizer)}
    memo[id(optimizer)] = wrapped
    vars(wrapped).update(copy.deepcopy(vars(optimizer), memo))
    for each in nested(wrapped):
        _know_copies(getattr(each, "_tracker", None))
    return wrapped


def _know_copies(tracker: Any) -> None:
    """Gives the tracker of an optimizer of Keras 3, which was copied, the numbers of the objects that it holds.

    With those of the original's, which may be given again, it would take a new variable for one that it holds already,
    and leave it out of the optimizer's variables.
    """
    for name in getattr(tracker, "stored_ids", ()):
        tracker.stored_ids[name] = {id(each) for each in tracker.config[name][1]}


_OF_OPTIMIZERS = ("apply_gradients", "default_optimizer")
"""Attributes of optimizers and of an ``OptimizerMap``, which are callable, too."""


def _is_built(optimizer: Any) -> bool:
    """Whether it has variables for those of a model."""
    return any(bool(getattr(optimizer, each, None)) for each in ("built", "_built", "_slots"))


def _is_described(optimizer: Any) -> bool:
    """Whether the optimizer's configuration holds all that its constructor takes."""
    try:
        config = optimizer.get_config()
    except NotImplementedError:  # of a schedule
        return False
    parameters = inspect.signature(type(optimizer).__init__).parameters.values()
    named = {each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)}
    return named - {"self"} <= set(config) and all(hasattr(each, "get_config") for each in _callables(optimizer))


def _callables(optimizer: Any) -> List[Any]:
    """The schedules and functions among the attributes and hyperparameters."""
    values = [value for each in nested(optimizer) for value in [*vars(each).values(), *_hyperparameters(each)]]
    return [each for each in values if callable(each) and not any(hasattr(each, name) for name in _OF_OPTIMIZERS)]


def _hyperparameters(optimizer: Any) -> List[Any]:
    """Of Keras' legacy optimizers."""
    return list(vars(optimizer).get("_hyper", {}).values())


def _shared(optimizer: Any) -> List[Any]:
    """What the copy has in common with the original: what is not the optimizer's own."""
    shared = _callables(optimizer)
    for each in nested(optimizer):
        shared += [vars(each).get("_distribution_strategy"), *(vars(each).get("_trainable_variables") or [])]
    return [each for each in shared if each is not None]
