"""The deliberate faults can be planted, and each part of the standard suite must catch one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from testing.parts import STANDARD

ROOT = Path(__file__).parents[2]


def test_the_text_of_each_fault_is_in_its_file_once() -> None:
    found = importlib.util.spec_from_file_location("faults", ROOT / "tests" / "mutations" / "faults.py")
    assert found is not None and found.loader is not None
    faults = importlib.util.module_from_spec(found)
    found.loader.exec_module(faults)
    wrong = [each.name for each in faults.FAULTS if (ROOT / each.file).read_text().count(each.text) != 1]
    assert wrong == [] and all(each.text != each.faulty for each in faults.FAULTS)
    assert {each.part for each in faults.FAULTS} == set(STANDARD)
    assert len({each.name for each in faults.FAULTS}) == len(faults.FAULTS)
