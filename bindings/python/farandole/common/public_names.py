"""Restricts ``dir()`` and star imports of an adapter to the names of its interface, without its modules."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Dict, List, Sequence


def show_public_names(namespace: Dict[str, Any], modules: Sequence[str] = (), lazy: Sequence[str] = ()) -> None:
    """Gives a package ``__all__`` and ``__dir__``. Called as its last statement.

    :param namespace: the package's ``globals()``
    :param modules: submodules that belong to the interface
    :param lazy: names that the package's ``__getattr__`` knows; ``dir()`` lists them, a star import leaves them out
    """
    shown = sorted(
        name
        for name, value in namespace.items()
        if not name.startswith("_") and (name in modules or not isinstance(value, ModuleType))
    )

    def listed() -> List[str]:
        return sorted([*shown, *lazy])

    namespace["__all__"] = shown
    namespace["__dir__"] = listed
