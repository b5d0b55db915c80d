"""The test command reports a test that fails, hangs or leaves a process, and repeats it alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from testing.__main__ import closing_block, run_failed_again
from testing.part import Part, Run
from testing.results import Failure, Record, first_error

OPTIONS = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", "--timeout-method=signal")


@pytest.fixture
def part(tmp_path: Path) -> Part:
    return Part("example", "tree", results=tmp_path / "results")


@pytest.fixture
def run(part: Part, tmp_path: Path) -> Callable[[str], List[Failure]]:
    """Runs a file of tests as a part does; the failures. The file finds its folder in the variable PLACE."""

    def carried_out(source: str, *options: str) -> List[Failure]:
        file = tmp_path / "test_example.py"
        file.write_text(
            "import os, pathlib, subprocess, sys, time\nplace = pathlib.Path(os.environ['PLACE'])\n" + source
        )
        part.pytest(str(file), python=sys.executable, options=(*OPTIONS, *options), PLACE=str(tmp_path))
        return part.record.failures

    return carried_out


PASSES_THE_SECOND_TIME = """
def test_second_time():
    seen = place / "seen"
    first = not seen.exists()
    seen.touch()
    assert not first, "this is the first time"

def test_other():
    assert not (place / "other").exists()
    (place / "other").touch()
"""


def test_a_test_that_passes_alone_is_flaky(part: Part, run: Callable[[str], List[Failure]]) -> None:
    (failure,) = run(PASSES_THE_SECOND_TIME)
    assert failure.test.endswith("test_example.py::test_second_time")
    assert "this is the first time" in failure.error
    assert "this is the first time" in Path(failure.log).read_text()
    failed, flaky = run_failed_again([part])
    assert failed == [] and flaky == [failure]
    block = closing_block([("example", part.record)], failed, flaky)
    assert "flaky: example" in block and block.endswith("tools/test: good")


def test_a_test_that_fails_alone_too_fails_the_run(part: Part, run: Callable[[str], List[Failure]]) -> None:
    (failure,) = run("def test_wrong(): assert 1 == 2\n")
    failed, flaky = run_failed_again([part])
    assert failed == [failure] and flaky == []
    block = closing_block([("example", part.record)], failed, flaky)
    assert f"FAILED: {failure.name}\n    E   assert 1 == 2" in block
    assert failure.log in block and block.endswith("tools/test: failed")


def test_more_than_ten_failures_are_not_repeated(part: Part, run: Callable[[str], List[Failure]]) -> None:
    failures = run("import pytest\n@pytest.mark.parametrize('n', range(11))\ndef test_each(n): assert n < 0\n")
    assert len(failures) == 11
    assert run_failed_again([part]) == (failures, [])
    assert not list(part.folder.glob("again-*"))


def test_a_test_that_hangs_fails_alone(part: Part, run: Callable[..., List[Failure]]) -> None:
    (failure,) = run("def test_hangs(): time.sleep(600)\ndef test_next(): pass\n", "--timeout=1")
    assert failure.test.endswith("::test_hangs") and "Timeout" in failure.error
    assert part.record.tests == 2


def test_a_process_that_ends_without_results_is_a_failure_of_the_run(
    part: Part, run: Callable[[str], List[Failure]]
) -> None:
    (failure,) = run("def test_ends(): os._exit(3)\n")
    assert failure.test == "" and failure.error == "ended with status 3"
    assert failure.name == "example: run 1 as a whole"


def test_a_process_that_a_test_leaves_is_ended_and_fails_the_run(
    part: Part, run: Callable[[str], List[Failure]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testing.part.ENDING_S", 0.0)
    starts = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    (failure,) = run(f"def test_leaves(): {starts}\n")
    assert failure.test == "" and "left process" in failure.error and "time.sleep(600)" in failure.error
    assert part.processes_left() == {}


def test_a_test_that_fails_does_not_hide_that_its_process_crashed(
    part: Part, run: Callable[[str], List[Failure]]
) -> None:
    crashes = "import atexit\natexit.register(lambda: os._exit(9))\n"
    (failure,) = run(crashes + "def test_wrong(): assert 1 == 2\n")
    assert failure.test == "" and "test_wrong: E   assert 1 == 2" in failure.error


def test_a_run_without_results_fails_even_with_status_0(part: Part, run: Callable[[str], List[Failure]]) -> None:
    (failure,) = run("def test_ends(): os._exit(0)\n")
    assert failure.error == "ended with status 0"


def test_a_run_that_exceeds_its_limit_is_ended_and_not_repeated(part: Part) -> None:
    assert not part.carry_out(Run("command", ("sleep", "600"), limit_s=0.5))
    (failure,) = part.record.failures
    assert failure.error == "exceeded 0 s" and run_failed_again([part]) == ([failure], [])


def test_a_build_that_fails_is_not_repeated(part: Part) -> None:
    assert not part.prepare("false")
    assert run_failed_again([part]) == (part.record.failures, [])
    assert len(list(part.folder.glob("*.log"))) == 1


def test_a_program_that_does_not_exist_is_a_failure(part: Part) -> None:
    assert not part.command("./no-such-program")
    assert part.record.failures[0].error == "error: ./no-such-program: No such file or directory"


def test_a_failed_runner_of_ctest_is_repeated_alone(part: Part, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "CTestTestfile.cmake").write_text(
        f'add_test(second "sh" "-c" "test -e {seen} || {{ touch {seen}; echo boom: FAILED:; exit 3; }}")\n'
        "add_test(other true)\nset_tests_properties(second other PROPERTIES LABELS unit)\n"
    )
    assert not part.ctest("^unit$", str(tmp_path))
    (failure,) = part.record.failures
    assert failure.test == "second" and "FAILED:" in failure.error
    assert run_failed_again([part]) == ([], [failure])


def test_a_command_has_no_tests_and_is_repeated_as_a_whole(part: Part) -> None:
    assert not part.command("sh", "-c", "echo 'error: no such thing'; exit 4")
    (failure,) = part.record.failures
    assert failure.error == "error: no such thing"
    assert run_failed_again([part]) == ([failure], [])


def test_the_run_of_one_test_selects_it_alone() -> None:
    ranks = Run("ranks", ("horovodrun", "-np", "2", "pytest"), ("tests/a.py", "tests/b.py"), {"A": "1"})
    assert ranks.of_test("tests/a.py::test_x[1]").selection == ("tests/a.py::test_x[1]",)
    assert ranks.of_test("") == ranks
    assert Run("ctest", ("ctest",), ("-L", "unit")).of_test("math_test").selection == ("-R", "^math_test$")


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = Record("tree", {"seed": 4}, 1.5, 3, 1, [Failure("part", 2, "test", "error", "log")], [("test", 2.5)])
    record.write(tmp_path / "record.json")
    assert Record.read(tmp_path / "record.json") == record


@pytest.mark.parametrize(
    ("log", "error"),
    [
        ("fine\nE   assert 1 == 2\nE   more\n", "E   assert 1 == 2"),
        ("a.cpp:3: FAILED:\n  CHECK( x )\n", "a.cpp:3: FAILED:"),
        ("ninja\na.cpp:1:2: error: expected ;\n", "a.cpp:1:2: error: expected ;"),
        ("fine\nerror: no such thing\n", "error: no such thing"),
        ("[1]<stdout>:E   assert 3 == 4\n", "E   assert 3 == 4"),
        ("+++++++++ Timeout +++++++++\n", "+++++++++ Timeout +++++++++"),
        ("all is well\n", ""),
    ],
)
def test_the_first_error_of_a_log_is_found(log: str, error: str) -> None:
    assert first_error(log) == error
