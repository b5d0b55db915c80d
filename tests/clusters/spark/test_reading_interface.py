"""The names of stores, prepared data, data modules and loaders have the signatures of ``data_interface.tsv``.

One row differs from Horovod: ``prefix_path`` of ``HDFSStore`` may be left out when both data paths are given.
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest
from interface_rows import differences, rows_of

TABLE = Path(__file__).with_name("data_interface.tsv")


@pytest.mark.parametrize("name", sorted({row[0] for row in rows_of(TABLE)}))
def test_the_names_of_a_module_have_their_signatures(name: str) -> None:
    if name.startswith("keras."):
        pytest.importorskip("tensorflow")
    module = importlib.import_module(f"horovod.spark.{name}")
    assert module is importlib.import_module(f"farandole.spark.{name}")
    assert differences(module, TABLE, name) == []


def test_the_table_has_rows_of_every_kind() -> None:
    kinds = {"class", "function", "method", "property", "staticmethod", "classmethod"}
    assert {row[1] for row in rows_of(TABLE)} == kinds
    assert len(rows_of(TABLE)) == 150
    for row in rows_of(TABLE):
        if row[1] not in ("class", "property"):
            ast.parse(f"def function{row[3]}: pass")
