"""State that can be saved, put back and brought to all ranks.

Jobs whose members change while they run are not offered yet: ``run_fn`` runs a script that is written for them in a job
whose members stay.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, TypeVar

Result = TypeVar("Result")


class State:
    """What all ranks must agree on when members have changed."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._reset_callbacks: List[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Adds functions that are called, in order, after members have changed."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Members have changed."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Saves the state, and looks whether hosts have joined or left."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Looks whether hosts have joined or left; none can yet."""

    def save(self) -> None:
        """Keeps a copy of the state."""
        raise NotImplementedError

    def restore(self) -> None:
        """Puts the copy back."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives rank 0's state to all."""
        raise NotImplementedError

    def reset(self) -> None:
        """Called when members have changed, before the callbacks."""


def _copied(value: Any) -> Any:
    """Containers and arrays are copied, so that changes in place can be taken back; all else is shared."""
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    if type(value) is list:
        return [_copied(each) for each in value]
    if type(value) in (set, bytearray):
        return value.copy()
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
        return value.copy()
    return value


class ObjectState(State):
    """State made of plain Python values: each keyword becomes an attribute."""

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        self._saved_state: Dict[str, Any] = kwargs
        super().__init__(bcast_object=bcast_object, get_rank=get_rank)
        self._set_attrs()
        self._saved_state = _copied(kwargs)

    def save(self) -> None:
        """Keeps a copy of the attributes."""
        self._saved_state = {name: _copied(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        """Puts the copy back."""
        self._set_attrs()

    def sync(self) -> None:
        """Gives what rank 0 has saved to all."""
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, _copied(value))


def run_fn(func: Callable[..., Result], reset: Callable[[], None]) -> Callable[..., Result]:
    """Makes a training function start from rank 0's state. Members stay, so it runs once."""

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Result:
        state.sync()
        return func(state, *args, **kwargs)

    return wrapper
