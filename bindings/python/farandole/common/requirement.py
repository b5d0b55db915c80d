"""Checks that an optional package is installed, in a version with the functions that Farandole calls."""

from __future__ import annotations

import importlib
import re
from typing import Any, Tuple


def require(user: str, module: str, name: str, oldest: Tuple[int, ...]) -> Any:
    """Returns the module; ``ImportError`` with the remedy if it is missing or too old.

    :param user: the part of Farandole that needs it
    :param module: the name to import and to install
    :param name: of the package, in words
    :param oldest: the first parts of the oldest version
    """
    least = ".".join(map(str, oldest))
    remedy = f"pip install '{module}>={least}'"
    try:
        found = importlib.import_module(module)
    except ImportError as problem:
        raise ImportError(f"{user} needs {name}, which cannot be imported ({problem}): {remedy}") from problem
    version = str(getattr(found, "__version__", "of an unknown version"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[: len(oldest)])
    if numbers < oldest:
        raise ImportError(f"{user} needs {name} {least} or later, and {name} {version} is installed: {remedy}")
    return found
