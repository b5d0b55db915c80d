"""Pickles objects for other ranks of this job, which run the same script."""

from __future__ import annotations

import sys
import types
from typing import Any

import cloudpickle


class ObjectPickler(cloudpickle.Pickler):
    """Pickles by name what every rank has under the name, and by value, as cloudpickle does, all else.

    cloudpickle pickles the classes and functions of ``__main__`` by value. The receiver's copy of an enum or a
    dataclass is then another class than the script's, and ``is``, ``==`` and ``isinstance`` hold on the sender only.
    """

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)) and _is_of_the_script(obj):
            return NotImplemented
        return super().reducer_override(obj)


def _is_of_the_script(obj: Any) -> bool:
    """Whether ``__main__`` has this class or function under its name."""
    if obj.__module__ != "__main__":
        return False
    found: Any = sys.modules["__main__"]
    for name in obj.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is obj
