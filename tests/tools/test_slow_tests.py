"""A part runs each test that the mark `slow` keeps out of the standard suite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, Set

import pytest
from testing.part import ROOT, Part, Run
from testing.parts import PARTS

# The parts that also select tests with the mark.
WITH_SLOW_TESTS = ("slow", "paths", "versions", "clusters")


def files_of(run: Run) -> Set[str]:
    """The files of tests that a run of pytest selects slow tests from."""
    if run.kind not in ("pytest", "ranks") or "not slow" in run.command:
        return set()
    places = [ROOT / each for each in run.selection]
    found = {path for place in places for path in ([place] if place.is_file() else place.rglob("test_*.py"))}
    # On ranks, pytest ignores the tests that launch jobs.
    return {str(path) for path in found if run.kind == "pytest" or not path.name.startswith("test_launch")}


def test_each_file_with_slow_tests_belongs_to_a_part_that_runs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(part: Part, run: Run) -> bool:
        runs.append(run)
        return True

    runs: List[Run] = []
    monkeypatch.setattr(Part, "carry_out", add)
    for name in WITH_SLOW_TESTS:
        PARTS[name](Part(name, "tree", results=tmp_path))
    assert not [run.command for run in runs if "not slow" in run.command]
    files = (ROOT / "tests").rglob("test_*.py")
    marked = {str(path) for path in files if re.search(r"\bmark\.slow\b", path.read_text())}
    assert len(marked) > 50
    assert marked - set().union(*map(files_of, runs)) == set()
