"""Pickles objects for other ranks of this job, which run the same script, or another one."""

from __future__ import annotations

import io
import pickle
import sys
import types
from typing import Any, Callable, ClassVar, List, Optional

import cloudpickle

from farandole.common import safe_objects

MOST_VALUE_BYTES = 16 << 20
"""A function's value contains the global variables that it uses. Functions with more of them are sent by name only."""


class ObjectPickler(cloudpickle.Pickler):
    """Pickles what the script defines by its name and its value, and all else by value, as cloudpickle does.

    The receiver takes what its own script has under the name, and the value if there is nothing. cloudpickle pickles
    the classes and functions of ``__main__`` by value alone. The receiver's copy of an enum or a dataclass is then
    another class than the script's, and ``is``, ``==`` and ``isinstance`` hold on the sender only.
    """

    of_frameworks: ClassVar[List[Callable[[Any], Any]]] = []
    """How frameworks reduce values of theirs that would not arrive as they were. For all else they return
    NotImplemented."""

    def reducer_override(self, obj: Any) -> Any:
        for reduce in self.of_frameworks:
            reduced = reduce(obj)
            if reduced is not NotImplemented:
                return reduced
        if (
            not isinstance(obj, (type, types.FunctionType))
            or _of_the_script(obj.__module__, obj.__qualname__) is not obj
        ):
            return super().reducer_override(obj)
        if safe_objects.are_required():
            return NotImplemented  # by name: the receiver refuses both, and its error names the class or function
        return own_or_received, (obj.__qualname__, isinstance(obj, type), _value_of(obj))


def own_or_received(name: str, is_class: bool, value: Optional[bytes]) -> Any:
    """The class or function that this rank's script has under the name; the sender's if it has none."""
    own = _of_the_script("__main__", name)
    if isinstance(own, type if is_class else types.FunctionType):
        return own
    if value is None:
        raise AttributeError(
            f"the object contains {name} of the sender's script, which this rank's script does not define, and which "
            "could not be sent by value; define it on every rank, or in a module that every rank can import"
        )
    return pickle.loads(value)


def _of_the_script(module: Any, name: str) -> Any:
    """What ``__main__`` has under this name; None if it has nothing, or if the module is another one."""
    if module != "__main__":
        return None
    found: Any = sys.modules["__main__"]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class _Bounded(io.BytesIO):
    def write(self, content: Any) -> int:
        if self.tell() + len(content) > MOST_VALUE_BYTES:
            raise OverflowError
        return super().write(content)


def _value_of(obj: Any) -> Optional[bytes]:
    """The pickle of a class or function; None if it uses what cannot be pickled, or too much of it. The receivers need
    no value if they run the same script."""
    stream = _Bounded()
    try:
        cloudpickle.Pickler(stream).dump(obj)
    except Exception:
        return None
    return stream.getvalue()
