"""Elastic state: saves, restores and broadcasts models, optimizers and samplers, and plain values."""

from __future__ import annotations

import copy
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple, Type

import torch

from farandole.common.elastic import ObjectState
from farandole.torch import functions, mpi_ops
from farandole.torch.elastic.sampler import ElasticSampler


class StateHandler:
    """Saves, restores and broadcasts a value of one kind. Saves it at construction."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Saves a copy of the value's state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Restores the saved state."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Broadcasts rank 0's value to all ranks, and saves it."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Replaces the value, and saves it."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """For ``torch.nn.Module``."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)

    def sync(self) -> None:
        """Broadcasts rank 0's parameters and buffers, and saves them."""
        functions.broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """For ``torch.optim.Optimizer``."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)

    def sync(self) -> None:
        """Broadcasts rank 0's state and options, and saves them."""
        functions.broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """For ``ElasticSampler``."""

    def __init__(self, sampler: ElasticSampler) -> None:
        super().__init__(sampler)

    def sync(self) -> None:
        """Broadcasts rank 0's progress, and saves it."""
        self.value.load_state_dict(functions.broadcast_object(self.value.state_dict(), 0, "ElasticSampler"))
        self.save()


class StateDictHandler(StateHandler):
    """For other values with ``state_dict`` and ``load_state_dict``, such as a learning rate scheduler, a ``GradScaler``
    or a moving average of weights."""

    def sync(self) -> None:
        """Broadcasts rank 0's state, and saves it."""
        received = functions.broadcast_object(self.value.state_dict(), 0, type(self.value).__name__)
        if mpi_ops.rank() != 0:
            self.value.load_state_dict(received)
        self.save()


class ContainerHandler(StateHandler):
    """For a list, a tuple or a dictionary of values that have handlers."""

    def __init__(self, value: Any) -> None:
        self.set_value(value)

    def save(self) -> None:
        """Saves a copy of each value's state."""
        for handler in self.handlers:
            handler.save()

    def restore(self) -> None:
        """Restores the saved states."""
        for handler in self.handlers:
            handler.restore()

    def sync(self) -> None:
        """Broadcasts rank 0's values, and saves them."""
        for handler in self.handlers:
            handler.sync()

    def set_value(self, value: Any) -> None:
        """Replaces the values, and saves them."""
        self.value = value
        handlers = [_handler_of(each) for each in (value.values() if isinstance(value, dict) else value)]
        self.handlers = [handler for handler in handlers if handler is not None]


def _handler_of(value: Any) -> Optional[StateHandler]:
    """A handler that holds a copy of the value's state; None for a plain value."""
    for kind, handler in get_handler_registry():
        if isinstance(value, kind):
            return handler(value)
    if isinstance(value, (list, tuple, dict)) and value:
        members = value.values() if isinstance(value, dict) else value
        return ContainerHandler(value) if all(_is_handled(each) for each in members) else None
    return StateDictHandler(value) if _is_handled(value) else None


def _is_handled(value: Any) -> bool:
    if isinstance(value, type):
        return False
    if isinstance(value, tuple(kind for kind, _ in get_handler_registry())):
        return True
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))


_handler_registry: List[Tuple[type, Type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> List[Tuple[type, Type[StateHandler]]]:
    """Pairs of a type and its handler. A value gets the handler of the first type that it is an instance of."""
    return _handler_registry


def set_handler_registry(registry: List[Tuple[type, Type[StateHandler]]]) -> None:
    """Replaces the registry."""
    global _handler_registry
    _handler_registry = registry


def _flat(handlers: Iterable[StateHandler]) -> Iterator[StateHandler]:
    for handler in handlers:
        yield from _flat(handler.handlers) if isinstance(handler, ContainerHandler) else [handler]


class TorchState(ObjectState):
    """Elastic state of a training: a model, an optimizer, and further values that are given by keyword.

    Values with ``state_dict`` and ``load_state_dict``, and lists, tuples and dictionaries of such, keep their identity:
    their states are saved, restored and broadcast. Other values are copied.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **kwargs}
        self._handlers: Dict[str, StateHandler] = {}
        plain: Dict[str, Any] = {}
        for name, value in given.items():
            handler = _handler_of(value)
            if handler is None:
                plain[name] = value
            else:
                self._handlers[name] = handler
                object.__setattr__(self, name, value)
        super().__init__(bcast_object=functions.broadcast_object, get_rank=mpi_ops.rank, **plain)

    def save(self) -> None:
        """Saves copies of all values."""
        self._wait_for_devices()
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Restores the saved copies."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Broadcasts rank 0's state to all ranks, and saves it.

        If a member is lost meanwhile, the saved copies of all values are rolled back to those before the call. A mix
        of rank 0's and this rank's copies would be the state of no commit.
        """
        before = [(handler, dict(vars(handler))) for handler in _flat(self._handlers.values())]
        try:
            for handler in self._handlers.values():
                handler.sync()
            super().sync()
        except BaseException:
            for handler, attributes in before:
                vars(handler).update(attributes)
            raise

    def reset(self) -> None:
        """Makes samplers distribute their remaining samples over the current members."""
        for handler in _flat(self._handlers.values()):
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def _not_copied(self) -> List[Any]:
        return [handler.value for handler in _flat(self._handlers.values())]

    def __setattr__(self, name: str, value: Any) -> None:
        handlers = self.__dict__.get("_handlers", {})
        if name in handlers:
            handlers[name].set_value(value)
        object.__setattr__(self, name, value)
