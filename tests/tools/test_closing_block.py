"""The last lines of a run name what has failed and the times of all parts, on one page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import List, Tuple

from testing.__main__ import MOST_LINES, closing_block
from testing.part import ROOT
from testing.parts import STANDARD
from testing.results import Failure, Record

TOOLS = ROOT / "tools"
PAGE = 40


def records() -> List[Tuple[str, Record]]:
    durations = [(f"test_{number}", float(number)) for number in range(9)]
    return [(name, Record("", seconds=100.0, durations=durations)) for name in ("prepare", *STANDARD, "again")]


def failures(number: int) -> List[Failure]:
    return [Failure("unit", 1, f"test_x[{each}]", f"E   wrong\n{each}", f"log-{each}") for each in range(number)]


def test_a_page_holds_the_closing_lines_of_the_checks_and_of_the_tests() -> None:
    found = re.search(r"^parts=\((.*)\)$", (TOOLS / "check").read_text(), re.M)
    assert found
    assert MOST_LINES + 1 + len(found.group(1).split()) + 1 <= PAGE


def test_each_failure_has_a_line_with_its_error_and_its_log() -> None:
    block = closing_block(records(), 1148.0, failures(10), failures(12)[10:])
    assert len(block.splitlines()) <= MOST_LINES
    for number in range(12):
        label = "FAILED" if number < 10 else "flaky"
        assert f"{label}: unit: test_x[{number}]: E   wrong {number} (log-{number})" in block
    for name in STANDARD:
        assert re.search(rf"(^| ){name} +100 ", block, re.M), name
    assert re.search(r"(^| )all +1148$", block, re.M)


def test_the_slowest_tests_are_named_where_failures_leave_room() -> None:
    assert re.findall(r"^slow: 8 s test_8$", closing_block(records(), 1.0, [], []), re.M)
    assert "slow:" not in closing_block(records(), 1.0, failures(30), [])


def test_failures_without_a_line_of_their_own_are_named_in_one() -> None:
    block = closing_block(records(), 1.0, failures(60), [])
    assert len(block.splitlines()) == MOST_LINES and block.endswith("tools/test: failed")
    assert all(f"unit: test_x[{number}]" in block for number in range(60))


def test_what_fails_before_any_part_is_named_with_its_error_and_its_log(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / ".setup").mkdir()
    setup = tmp_path / "tools" / "setup"
    setup.write_text("#!/bin/sh\necho 'error: no network'\nexit 3\n")
    setup.chmod(0o755)
    program = f"""
import pathlib, sys
import testing.__main__ as command, testing.part
command.ROOT = testing.part.ROOT = pathlib.Path({str(tmp_path)!r})
sys.argv = ["tools/test", "unit"]
sys.exit(command.main())
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=240, cwd=TOOLS
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    lines = ran.stdout.splitlines()
    assert "FAILED: prepare: tools/setup: error: no network (.setup/test/prepare/run-1.log)" in lines, ran.stdout
    assert any(line.startswith("FAILED: prepare: flock .setup/build.lock cmake --build build: ") for line in lines)
    assert lines[-1] == "tools/test: failed" and "== test: unit" not in lines
