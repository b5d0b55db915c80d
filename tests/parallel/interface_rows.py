"""Compares modules with tables of the names and signatures that scripts expect: tab-separated rows of module, kind,
name and signature, or bases of a class, below a line with these words."""

from __future__ import annotations

import enum
import inspect
from pathlib import Path
from typing import Any, List, Tuple


def rows_of(table: Path) -> List[Tuple[str, ...]]:
    """The rows of a table."""
    return [tuple(line.split("\t")) for line in table.read_text().splitlines()[1:]]


def signature_of(function: Any) -> str:
    """Parameters with their defaults, without types."""
    parameters = inspect.signature(function).parameters.values()
    pieces = []
    if any(each.kind is each.KEYWORD_ONLY for each in parameters) and not any(
        each.kind is each.VAR_POSITIONAL for each in parameters
    ):
        first = next(index for index, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY)
    else:
        first = -1
    for index, each in enumerate(parameters):
        if index == first:
            pieces.append("*")
        piece = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name
        pieces.append(piece if each.default is each.empty else f"{piece}={_text_of(each.default)}")
    return f"({', '.join(pieces)})"


def _text_of(default: Any) -> str:
    if isinstance(default, enum.Enum):
        return f"{type(default).__name__}.{default.name}"
    if inspect.isfunction(default) and default(7) == 7:
        return "lambda x: x"
    return default.__name__ if isinstance(default, type) else repr(default)


def difference(module: Any, kind: str, name: str, expected: str) -> str:
    """How a name differs from its row; empty if it does not."""
    owner, _, last = name.rpartition(".")
    holder = getattr(module, owner) if owner else module
    found = inspect.getattr_static(holder, last)
    if kind == "class":
        if not isinstance(found, type):
            found = getattr(holder, last)
        bases = [each.strip().rpartition(".")[2] for each in expected.strip("()").split(",") if each.strip()]
        own = [each.__name__ for each in found.__mro__]
        missing = [base for base in bases if base not in own]
        return f"is not derived from {missing}" if missing else ""
    if kind == "property":
        return "" if isinstance(found, property) else "is no property"
    for name_of_kind, type_of_kind in (("staticmethod", staticmethod), ("classmethod", classmethod)):
        if kind == name_of_kind and not isinstance(found, type_of_kind):
            return f"is no {kind}"
    actual = signature_of(found.__func__ if isinstance(found, (staticmethod, classmethod)) else found)
    return "" if actual == expected else f"has the signature {actual}, not {expected}"


def differences(module: Any, table: Path, name: str) -> List[str]:
    """How the names of a module differ from the rows of its name."""
    found = []
    for row in rows_of(table):
        if row[0] == name and (problem := difference(module, *row[1:4])):
            found.append(f"{row[2]} {problem}")
    return found
