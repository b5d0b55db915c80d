"""The names below ``horovod.runner`` have the signatures that other tools expect (``runner_interface.tsv``)."""

from __future__ import annotations

import enum
import importlib
import importlib.util
import inspect
from pathlib import Path
from typing import Any, List, Tuple

import pytest

TABLE = Path(__file__).with_name("runner_interface.tsv")
NAMES = {
    "launch": ("gloo_built", "mpi_built", "_run", "_run_elastic"),
    "elastic.constants": ("RESET_LIMIT_EXCEEDED_MESSAGE",),
    "elastic.driver": ("DISCOVER_HOSTS_FREQUENCY_SECS", "ELASTIC_TIMEOUT_SECS"),
    "gloo_run": ("_get_min_start_hosts",),
    "common.util.hosts": ("INVALID_SLOT_INFO",),
    "common.util.safe_shell_exec": ("execute",),
    "common.util.config_parser": ("set_env_from_args", "HOROVOD_FUSION_THRESHOLD"),
    "util.lsf": ("LSFUtils",),
    "util.threads": ("in_thread",),
}
"""Names without a row in the table."""


def rows() -> List[Tuple[str, ...]]:
    lines = TABLE.read_text().splitlines()[1:]
    return [tuple(line.split("\t")) for line in lines]


def module_of(name: str) -> Any:
    return importlib.import_module(f"horovod.runner.{name}" if name else "horovod.runner")


MODULES = list(dict.fromkeys(row[0] for row in rows()))
has_mpi_run = importlib.util.find_spec("farandole.runner.mpi_run") is not None


def signature_of(function: Any) -> str:
    """Parameters with their defaults, without types."""
    pieces = []
    for each in inspect.signature(function).parameters.values():
        piece = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name
        if each.default is not each.empty:
            piece += f"={text_of(each.default)}"
        pieces.append(piece)
    return f"({', '.join(pieces)})"


def text_of(default: Any) -> str:
    if isinstance(default, enum.Enum):
        return f"{type(default).__name__}.{default.name}"
    return default.__name__ if isinstance(default, type) else repr(default)


def differences(module: Any, kind: str, name: str, expected: str) -> str:
    """How a name differs from its row; empty if it does not."""
    owner, _, last = name.rpartition(".")
    holder = getattr(module, owner) if owner else module
    found = inspect.getattr_static(holder, last)
    if kind == "class":
        bases = [each.strip().rpartition(".")[2] for each in expected.strip("()").split(",") if each.strip()]
        own = [each.__name__ for each in found.__mro__]
        missing = [base for base in bases if base not in own]
        return f"is not derived from {missing}" if missing else ""
    if kind == "property":
        return "" if isinstance(found, property) else "is no property"
    if kind == "staticmethod" and not isinstance(found, staticmethod):
        return "is no static method"
    actual = signature_of(getattr(holder, last))
    return "" if actual == expected else f"has the signature {actual}, not {expected}"


@pytest.mark.parametrize("name", MODULES)
def test_the_names_of_a_module_have_their_signatures(name: str) -> None:
    if name == "mpi_run" and not has_mpi_run:
        pytest.skip("this tree has no module mpi_run")
    module = module_of(name)
    wrong = [
        f"{row[2]} {problem}"
        for row in rows()
        if row[0] == name and (problem := differences(module, row[1], row[2], row[3]))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_a_module_has_its_other_names(name: str) -> None:
    module = module_of(name)
    assert [each for each in NAMES[name] if not hasattr(module, each)] == []


def test_the_table_has_rows_of_every_kind() -> None:
    assert {row[1] for row in rows()} == {"class", "function", "method", "property", "staticmethod"}
    assert len(rows()) == 179
