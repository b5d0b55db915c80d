"""``import farandole.pytorch`` fails with the name of the package that was probably meant."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Optional, Sequence

FRAMEWORKS = ("torch", "tensorflow", "keras", "mxnet", "jax", "numpy", "lightning")
OTHER_NAMES = {"tf": "tensorflow", "pytorch": "torch", "pytorch_lightning": "lightning", "np": "numpy"}


def nearest_framework(name: str) -> Optional[str]:
    """The package for a framework whose name is mistyped, or another name for it; None if no name is near."""
    import difflib

    name = name.lower()
    known = {**{each: each for each in FRAMEWORKS}, **OTHER_NAMES}
    near = difflib.get_close_matches(name, known, 1, 0.75)
    return known[near[0]] if near else None


class Suggestions(importlib.abc.MetaPathFinder):
    """Asked for a package that no other finder has found. One that is near to none is simply not there."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Never finds anything; raises where it knows a nearer name."""
        package, _, name = fullname.partition(".")
        if package != "farandole" or not name or "." in name or name in FRAMEWORKS:
            return None
        nearest = nearest_framework(name)
        if nearest is None:
            return None
        raise ModuleNotFoundError(f"No module named {fullname!r}; did you mean '{package}.{nearest}'?", name=fullname)


def install() -> None:
    """Adds the finder behind all others, once."""
    if not any(type(finder).__name__ == Suggestions.__name__ for finder in sys.meta_path):
        sys.meta_path.append(Suggestions())
