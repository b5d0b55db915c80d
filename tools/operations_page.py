#!/usr/bin/env python3
"""Prints docs/operations.md: the operations of the core, and the forms in which Python offers them.

Called with the path of the command ``farandole``.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Dict, List, Tuple

import farandole.numpy
import farandole.torch
from farandole.common import operations

INTRODUCTION = """# Operations

Made by `tools/generate` from the operation table (`collectives/operation.hpp`), the path table
(`collectives/transport/registry/path_table.cpp`), the check of requests (`actors/submission/request_check.cpp`) and the
Python packages; do not edit.

"""

KINDS = ["allreduce", "sparse_allreduce", "allgather", "broadcast", "alltoall", "reducescatter", "barrier", "join"]

# Before and after the operation's name.
FORMS: Dict[str, Tuple[str, str]] = {
    "waits": ("", ""),
    "asynchronous": ("", "_async"),
    "in place": ("", "_"),
    "in place, asynchronous": ("", "_async_"),
    "grouped": ("grouped_", ""),
    "grouped, asynchronous": ("grouped_", "_async"),
    "grouped, in place": ("grouped_", "_"),
    "grouped, in place, asynchronous": ("grouped_", "_async_"),
}


def table(head: List[str], rows: List[List[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def forms_of(package: ModuleType, kind: str) -> List[str]:
    """The names under which a package offers an operation, by form."""
    names = [before + kind + after for before, after in FORMS.values()]
    return [f"`{name}`" if name in operations.TABLE and hasattr(package, name) else "–" for name in names]


def differentiable(kind: str) -> str:
    """Which forms PyTorch can differentiate: there is a function of autograd for them."""
    known = vars(farandole.torch.mpi_ops)
    found = [
        form
        for form, prefix in (("single", "Horovod"), ("grouped", "HorovodGrouped"))
        if f"{prefix}{kind.capitalize()}" in known
    ]
    return ", ".join(found) or "–"


def page(command: str) -> str:
    """The whole page."""
    core = subprocess.run([command, "operations"], check=True, capture_output=True, text=True).stdout
    text = INTRODUCTION + core
    for package in (farandole.torch, farandole.numpy):
        rows = [[f"`{kind}`" if kind in operations.TABLE else kind, *forms_of(package, kind)[1:]] for kind in KINDS]
        rows = [row for row in rows if row[0].strip("`") in vars(package) or any(cell != "–" for cell in row[1:])]
        text += f"\n## Forms in `{package.__name__}`\n\n" + table(["waits", *list(FORMS)[1:]], rows)
    text += (
        "\nAll forms take `process_set`, except `join`, which runs on all ranks. PyTorch differentiates the forms that"
        "\nwait and are not in place:\n\n"
    )
    kinds = [kind for kind in KINDS if differentiable(kind) != "–"]
    return text + table(["operation", "gradients"], [[kind, differentiable(kind)] for kind in kinds])


if __name__ == "__main__":
    sys.stdout.write(page(sys.argv[1]))
