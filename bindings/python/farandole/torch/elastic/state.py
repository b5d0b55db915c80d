"""Elastic state: saves, restores and broadcasts models, optimizers and samplers, and plain values."""

from __future__ import annotations

import copy
import weakref
from typing import Any, Callable, Dict, Hashable, Iterable, Iterator, List, Optional, Tuple, Type

import torch

from farandole.common.elastic import ObjectState, references
from farandole.torch import functions, mpi_ops
from farandole.torch.compression.gradient import GradientCompressor
from farandole.torch.elastic.sampler import ElasticSampler

GetOwnValues = Callable[[], references.OwnValues]


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
        """Broadcasts rank 0's parameters, buffers and extra states, and saves them."""
        functions.broadcast_module(self.value)
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


class CompressorStateHandler(StateHandler):
    """For compressors of gradients, such as those with error feedback. Their states differ between ranks."""

    def __init__(self, compressor: GradientCompressor) -> None:
        super().__init__(compressor)

    def sync(self) -> None:
        """Saves this rank's state: the errors of rank 0 on all ranks would be added to the sum several times."""
        self.save()


class StateDictHandler(StateHandler):
    """For other values with ``state_dict`` and ``load_state_dict``, such as a learning rate scheduler, a ``GradScaler``
    or a moving average of weights.

    A state may refer to other values of the training, as that of a scheduler that holds another scheduler refers to
    the optimizer. They are neither copied nor sent: each rank keeps its own.

    :param own_values: returns the values that keep their identity, by labels that are the same on all ranks
    """

    def __init__(self, value: Any, own_values: GetOwnValues = dict) -> None:
        self._own_values = own_values
        super().__init__(value)

    def save(self) -> None:
        """Saves a copy of the value's state."""
        self._saved = self._copy_of(self.value.state_dict())

    def restore(self) -> None:
        """Restores the saved state."""
        self.value.load_state_dict(self._copy_of(self._saved))

    def sync(self) -> None:
        """Broadcasts rank 0's state, and saves it."""
        is_root = mpi_ops.rank() == 0
        sent = references.with_references(self.value.state_dict(), self._own_values()) if is_root else None
        received = functions.broadcast_object(sent, 0, type(self.value).__name__)
        if not is_root:
            self.value.load_state_dict(references.with_own_values(received, self._own_values()))
        self.save()

    def _copy_of(self, state: Any) -> Any:
        return references.copied(state, self._own_values())


class ContainerHandler(StateHandler):
    """For a list, a tuple or a dictionary of values that have handlers. Members may be added and removed: those at the
    time of ``save`` are restored."""

    def __init__(self, value: Any, own_values: GetOwnValues = dict) -> None:
        self._own_values = own_values
        self._handler_of_key: Dict[Hashable, StateHandler] = {}
        self.set_value(value)

    @property
    def handlers(self) -> List[StateHandler]:
        """The handlers of the members that had been added by the last ``save`` or ``sync``."""
        return list(self._handler_of_key.values())

    def save(self) -> None:
        """Saves a copy of each member's state."""
        kept = self.handlers
        self._find_members()
        for handler in self.handlers:
            if handler in kept:  # a new handler has saved its value
                handler.save()

    def restore(self) -> None:
        """Restores the members and their saved states."""
        if isinstance(self.value, list):
            self.value[:] = self._members.values()
        elif isinstance(self.value, dict):
            self.value.clear()
            self.value.update(self._members)
        for handler in self.handlers:
            handler.restore()

    def sync(self) -> None:
        """Broadcasts rank 0's values, and saves them.

        :raises ValueError: on all ranks, if they have different members
        """
        self._find_members()
        keys = functions.allgather_object(list(self._handler_of_key), "TorchState.members")
        different = [rank for rank, each in enumerate(keys) if set(each) != set(keys[0])]
        if different:
            raise ValueError(
                f"a {type(self.value).__name__} of TorchState has the members {keys[0]} on rank 0, but "
                f"{keys[different[0]]} on rank {different[0]}; add and remove members on all ranks, also on those "
                "that join, before sync()"
            )
        for key in keys[0]:
            self._handler_of_key[key].sync()

    def set_value(self, value: Any) -> None:
        """Replaces the values, and saves them."""
        self.value = value
        self.save()

    def _find_members(self) -> None:
        """Makes handlers of new members, and drops those of members that have been removed."""
        known = {id(handler.value): handler for handler in self.handlers}
        self._members = dict(_items(self.value))
        found = {key: known.get(id(each)) or _handler_of(each, self._own_values) for key, each in self._members.items()}
        self._handler_of_key = {key: handler for key, handler in found.items() if handler is not None}


def _items(container: Any) -> Iterable[Tuple[Hashable, Any]]:
    return container.items() if isinstance(container, dict) else enumerate(container)


def _handler_of(value: Any, own_values: GetOwnValues) -> Optional[StateHandler]:
    """A handler that holds a copy of the value's state; None for a plain value."""
    for kind, handler in get_handler_registry():
        if isinstance(value, kind):
            return handler(value)
    if _is_container(value):
        return ContainerHandler(value, own_values)
    return StateDictHandler(value, own_values) if _is_handled(value) else None


def _is_container(value: Any) -> bool:
    if not isinstance(value, (list, tuple, dict)) or not value or _is_registered(value):
        return False
    return all(_is_handled(each) for _, each in _items(value))


def _is_registered(value: Any) -> bool:
    return isinstance(value, tuple(kind for kind, _ in get_handler_registry()))


def _is_handled(value: Any) -> bool:
    if isinstance(value, type):
        return False
    if _is_registered(value):
        return True
    return all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))


_handler_registry: List[Tuple[type, Type[StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
    (GradientCompressor, CompressorStateHandler),
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


def _labelled(name: str, value: Any) -> Iterator[Tuple[Hashable, Any]]:
    """A value of a state or its members, with their parameters and buffers."""
    members = _items(value) if _is_container(value) else [(None, value)]
    for key, member in members:
        yield (name, key), member
        if isinstance(member, torch.nn.Module):
            for tensor_name, tensor in (*member.named_parameters(), *member.named_buffers()):
                yield (name, key, tensor_name), tensor
        elif isinstance(member, torch.optim.Optimizer):
            for group_number, group in enumerate(member.param_groups):
                for number, tensor in enumerate(group["params"]):
                    yield (name, key, group_number, number), tensor


class TorchState(ObjectState):
    """Elastic state of a training: a model, an optimizer, and further values that are given by keyword.

    Values with ``state_dict`` and ``load_state_dict``, and lists, tuples and dictionaries of such, keep their identity:
    their states are saved, restored and broadcast. Other values are copied.
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        given = {"model": model, "optimizer": optimizer, **kwargs}
        self._handlers: Dict[str, StateHandler] = {}
        handled = {name: value for name, value in given.items() if _is_container(value) or _is_handled(value)}
        plain = {name: value for name, value in given.items() if name not in handled}
        self._handled_names = list(handled)
        for name, value in handled.items():
            object.__setattr__(self, name, value)
        # Without a cycle, a state and its optimizers end with the last reference to the state.
        method = weakref.WeakMethod(self._own_values)

        def own_values() -> references.OwnValues:
            alive = method()
            return {} if alive is None else alive()

        for name, value in handled.items():
            handler = _handler_of(value, own_values)
            assert handler is not None
            self._handlers[name] = handler
        super().__init__(bcast_object=functions.broadcast_object, get_rank=mpi_ops.rank, **plain)

    def save(self) -> None:
        """Saves copies of all values."""
        self._wait_for_devices()
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """Restores the saved copies, and drops the gradients of the interrupted step."""
        for each in self._own_values().values():
            if isinstance(each, torch.Tensor):
                each.grad = None
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """Broadcasts rank 0's state to all ranks, and saves it.

        If a member is lost meanwhile, the saved copies of all values are rolled back to those before the call. A mix
        of rank 0's and this rank's copies would be the state of no commit.
        """
        together = [each for each in self._handlers.values() if isinstance(each, ContainerHandler)]
        before = [(handler, dict(vars(handler))) for handler in [*_flat(self._handlers.values()), *together]]
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

    def _own_values(self) -> references.OwnValues:
        """The values that have handlers, and their parameters and buffers."""
        return dict(pair for name in self._handled_names for pair in _labelled(name, self.__dict__[name]))

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        handlers = self.__dict__.get("_handlers", {})
        if name in handlers:
            handlers[name].set_value(value)
