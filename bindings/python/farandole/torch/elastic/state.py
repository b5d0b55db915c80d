"""Saves, restores and broadcasts models, optimizers and samplers beside plain values."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Tuple, Type

import torch

from farandole.common.elastic import ObjectState
from farandole.torch import functions, mpi_ops
from farandole.torch.elastic.sampler import ElasticSampler


class StateHandler:
    """Knows how to save, restore and broadcast one kind of value. Saves it when it is made."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        """Keeps a copy."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Puts the copy back."""
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Gives rank 0's value to all, and saves it."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Takes another value, and saves it."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """For ``torch.nn.Module``."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)

    def sync(self) -> None:
        """Gives rank 0's parameters and buffers to all."""
        functions.broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """For ``torch.optim.Optimizer``."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)

    def sync(self) -> None:
        """Gives rank 0's state and options to all."""
        functions.broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """For ``ElasticSampler``."""

    def __init__(self, sampler: ElasticSampler) -> None:
        super().__init__(sampler)

    def sync(self) -> None:
        """Gives rank 0's progress to all."""
        self.value.load_state_dict(functions.broadcast_object(self.value.state_dict(), 0, "ElasticSampler"))
        self.save()


_handler_registry: List[Tuple[type, Type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> List[Tuple[type, Type[StateHandler]]]:
    """Which handler takes which type of value; the first that fits."""
    return _handler_registry


def set_handler_registry(registry: List[Tuple[type, Type[StateHandler]]]) -> None:
    """Replaces the registry."""
    global _handler_registry
    _handler_registry = registry


class TorchState(ObjectState):
    """State of a training: a model, an optimizer, and whatever else is given by keyword."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **kwargs}
        self._handlers: Dict[str, StateHandler] = {}
        plain: Dict[str, Any] = {}
        for name, value in given.items():
            handler = next((made for kind, made in get_handler_registry() if isinstance(value, kind)), None)
            if handler is None:
                plain[name] = value
            else:
                self._handlers[name] = handler(value)
                object.__setattr__(self, name, value)
        super().__init__(bcast_object=functions.broadcast_object, get_rank=mpi_ops.rank, **plain)

    def save(self) -> None:
        """Keeps copies of everything."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Puts the copies back."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Gives rank 0's state to all. If a member is lost meanwhile, what was saved before stays, all of it: a part of
        rank 0's state beside a part of this rank's would be no state of any commit."""
        before = [(handler, dict(vars(handler))) for handler in self._handlers.values()]
        try:
            for handler in self._handlers.values():
                handler.sync()
            super().sync()
        except BaseException:
            for handler, attributes in before:
                vars(handler).update(attributes)
            raise

    def reset(self) -> None:
        """Samplers deal out anew."""
        for handler in self._handlers.values():
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        handlers = self.__dict__.get("_handlers", {})
        if name in handlers:
            handlers[name].set_value(value)
        object.__setattr__(self, name, value)
