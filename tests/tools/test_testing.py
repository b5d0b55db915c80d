"""The test command reports a test that fails or leaves a process, and repeats it alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, List, Tuple

import pytest
from launched import wait_until
from testing.__main__ import (
    busy_processes,
    closing_block,
    only_run,
    repeat,
    run_failed_again,
    run_once,
    run_part,
    run_parts,
)
from testing.isolation import isolation, why_not
from testing.part import TWO_AT_A_TIME, Part, Run
from testing.parts import PARTS, STANDARD
from testing.results import OF_CHECKS, Failure, Record, first_error

TOOLS = Path(__file__).parents[2] / "tools"
PLACE = "import os, pathlib, subprocess, sys, time\nplace = pathlib.Path(os.environ['PLACE'])\n"
Continued = Callable[[str], Tuple[int, int]]
needs_isolation = pytest.mark.skipif(why_not(TOOLS.parent) != "", reason="needs mounts and a network of its own")
OPTIONS = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir=.", "--timeout-method=signal")


@pytest.fixture
def part(tmp_path: Path) -> Part:
    return Part("example", "tree", results=tmp_path / "results")


@pytest.fixture
def run(part: Part, tmp_path: Path) -> Callable[[str], List[Failure]]:
    """Runs a file of tests as a part does; the failures. The file finds its folder in the variable PLACE."""

    def carried_out(source: str, *options: str) -> List[Failure]:
        file = tmp_path / "test_example.py"
        file.write_text(PLACE + source)
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
    (kept,) = (part.folder.parent / "flaky").iterdir()
    assert kept.name == "example-run-1.log" and "this is the first time" in kept.read_text()
    block = closing_block([("example", part.record)], 1.0, failed, flaky)
    assert "flaky: example" in block and f"({kept})" in block and block.endswith("tools/test: good")


@pytest.fixture
def continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Continued:
    """Runs a part of one file as `tools/test --continue` does. Returns the exit status, and how often the part ran."""

    def run_again(source: str) -> Tuple[int, int]:
        (tmp_path / "test_example.py").write_text(PLACE + source)
        status = run_once(["example"], {}, "", resume=True, preparing=0)
        return status, len(runs)

    def example(part: Part) -> None:
        runs.append(part)
        part.pytest(str(tmp_path / "test_example.py"), python=sys.executable, options=OPTIONS, PLACE=str(tmp_path))

    runs: List[Part] = []
    monkeypatch.setitem(PARTS, "example", example)
    monkeypatch.setattr("testing.__main__.FOLDER", tmp_path / "results")
    return run_again


def test_a_part_whose_only_failures_were_flaky_has_passed(continued: Continued, tmp_path: Path) -> None:
    assert [continued(PASSES_THE_SECOND_TIME) for _ in range(2)] == [(0, 1), (0, 1)]
    record = Record.read(tmp_path / "results" / "example" / "record.json")
    assert record.failures == [] and len(record.flaky) == 1


def test_repetitions_say_how_often_each_test_failed_and_keep_the_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def example(part: Part) -> None:
        part.pytest(str(tmp_path / "test_example.py"), python=sys.executable, options=OPTIONS, PLACE=str(tmp_path))

    monkeypatch.setitem(PARTS, "example", example)
    monkeypatch.setattr("testing.__main__.FOLDER", tmp_path / "results")
    (tmp_path / "test_example.py").write_text(PLACE + PASSES_THE_SECOND_TIME)
    assert repeat(["example"], {}, "", 3) == 1
    text = capsys.readouterr().out
    assert re.findall(r"failed (\d) of 3 times: .*::(\w+)", text) == [("2", "test_other"), ("1", "test_second_time")]
    logs = {each.name: each.read_text() for each in (tmp_path / "results" / "repeat").iterdir()}
    assert sorted(logs) == [f"{number}-example-run-1.log" for number in (1, 2, 3)]
    assert [name for name in sorted(logs) if "this is the first time" in logs[name]] == ["1-example-run-1.log"]


def test_a_load_keeps_cores_busy_until_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*arguments: Any, **options: Any) -> Any:
        processes.append(start(*arguments, **options))
        return processes[-1]

    def ticks(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])

    processes: List[Any] = []
    start = subprocess.Popen
    monkeypatch.setattr("testing.__main__.subprocess.Popen", started)
    with busy_processes(2):
        assert len(processes) == 2
        wait_until(lambda: all(ticks(each.pid) >= 10 for each in processes), "both have computed for 0.1 s")
    assert [each.returncode for each in processes] == [-signal.SIGKILL] * 2


EACH_WAITS_FOR_THE_OTHER = """
def meet(own, other):
    (place / own).touch()
    deadline = time.monotonic() + 240
    while not (place / other).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return (place / other).exists()

def test_one():
    assert meet("one", "other")

def test_other():
    assert not meet("other", "one"), "they have met"
"""


def test_tests_run_at_once_and_one_that_fails_is_repeated_alone(part: Part, tmp_path: Path) -> None:
    file = tmp_path / "test_example.py"
    file.write_text(PLACE + EACH_WAITS_FOR_THE_OTHER)
    part.pytest(str(file), python=sys.executable, options=(*OPTIONS, *TWO_AT_A_TIME), PLACE=str(tmp_path))
    (failure,) = part.record.failures
    assert failure.test.endswith("test_example.py::test_other") and "they have met" in failure.error
    failed, flaky = run_failed_again([part])
    assert failed == [failure] and flaky == []


@pytest.fixture
def two_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes parts of these functions, which run two at a time."""

    def made(**parts: Callable[[Part], object]) -> None:
        for name, each in parts.items():
            monkeypatch.setitem(PARTS, name, each)
            monkeypatch.setitem(STANDARD, name, each)
        monkeypatch.setattr("testing.__main__.FOLDER", tmp_path / "results")

    return made


def test_two_parts_run_at_the_same_time(
    two_together: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "test_example.py"
    file.write_text(PLACE + EACH_WAITS_FOR_THE_OTHER)

    def runs(test: str) -> Callable[[Part], object]:
        settings = {"PLACE": str(tmp_path)}
        return lambda part: part.pytest(f"{file}::{test}", python=sys.executable, options=OPTIONS, **settings)

    two_together(one=runs("test_one"), other=runs("test_other"))
    one, other = run_parts(["one", "other"], {}, "")
    assert one.record.failures == [] and one.record.tests == other.record.tests == 1
    (failure,) = other.record.failures
    assert failure.test.endswith("test_example.py::test_other") and "they have met" in failure.error
    # The output of each follows its command.
    shown = capsys.readouterr().out
    assert shown.index("::test_one") < shown.index("1 passed")
    assert shown.index("::test_other") < shown.index("they have met")


@pytest.mark.parametrize("order", [["fails", "waits"], ["waits", "fails"]])
def test_a_part_that_cannot_go_on_ends_the_one_beside_it(
    two_together: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: List[str]
) -> None:
    monkeypatch.setattr("testing.__main__.INTERRUPTED", interrupted := threading.Event())
    monkeypatch.setattr("testing.part.INTERRUPTED", interrupted)

    def fails(part: Part) -> None:
        raise KeyError("no such file")

    begun = []
    two_together(fails=fails, waits=lambda part: part.command("sleep", "600"), third=begun.append)
    with pytest.raises(KeyError, match="no such file"):
        run_parts([*order, "third"], {}, "")
    assert begun == []
    assert not (tmp_path / "results" / "waits" / "record.json").exists()  # it has not passed


FOUR_PASS_THE_SECOND_TIME = """
import pytest

@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_each(name):
    seen = place / name
    first = not seen.exists()
    seen.touch()
    assert not first
"""


def test_a_part_runs_again_after_a_run_with_too_many_flaky_tests(continued: Continued) -> None:
    assert [continued(FOUR_PASS_THE_SECOND_TIME) for _ in range(3)] == [(1, 1), (0, 2), (0, 2)]


def test_a_test_that_fails_alone_too_fails_the_run(part: Part, run: Callable[[str], List[Failure]]) -> None:
    (failure,) = run("def test_wrong(): assert 1 == 2\n")
    failed, flaky = run_failed_again([part])
    assert failed == [failure] and flaky == []
    block = closing_block([("example", part.record)], 1.0, failed, flaky)
    assert f"FAILED: {failure.name}: E   assert 1 == 2 ({failure.log})" in block
    assert block.endswith("tools/test: failed")


def test_more_than_ten_failures_are_not_repeated(part: Part, run: Callable[[str], List[Failure]]) -> None:
    failures = run("import pytest\n@pytest.mark.parametrize('n', range(11))\ndef test_each(n): assert n < 0\n")
    assert len(failures) == 11
    assert run_failed_again([part]) == (failures, [])
    assert not list(part.folder.glob("again-*"))


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


LEAVES_FILES = """
import tempfile

def test_leaves(tmp_path):
    (tmp_path / "file").touch()
    (place / "left").write_text(tempfile.mkdtemp(prefix="left-"))
"""


def test_a_temporary_file_that_a_test_leaves_is_removed_and_fails_the_run(
    part: Part, run: Callable[[str], List[Failure]], tmp_path: Path
) -> None:
    (failure,) = run(LEAVES_FILES)
    left = (tmp_path / "left").read_text()
    assert failure.test == "" and failure.error == f"left {left}"  # and not the folder of pytest
    assert not Path(left).exists() and Path(left).parent.parent == Path(tempfile.gettempdir())


@needs_isolation
def test_what_a_test_leaves_in_folders_of_the_machine_is_removed_and_fails_the_run(
    part: Part, run: Callable[[str], List[Failure]]
) -> None:
    leaves = "subprocess.run(['ip', 'netns', 'add', 'left'], check=True); open('/dev/shm/left', 'w').close()"
    with tempfile.NamedTemporaryFile(dir="/dev/shm"):  # of another program
        (failure,) = run(f"def test_leaves(): {leaves}\n")
    assert failure.test == "" and failure.error == "left /dev/shm/left, network namespace left"
    assert not Path("/dev/shm/left").exists() and not Path("/run/netns/left").exists()


REACHES_ONLY_ITSELF = """
import errno, socket
import pytest

def test_own_name():
    with socket.create_server((socket.gethostbyname(socket.gethostname()), 0)) as server:
        socket.create_connection(server.getsockname()).close()

def test_an_interface_besides_loopback():
    assert {name for _, name in socket.if_nameindex()} > {"lo"}

def test_others():
    with pytest.raises(OSError) as raised:
        socket.create_connection(("198.51.100.1", 9))
    assert raised.value.errno == errno.ENETUNREACH
"""


@needs_isolation
def test_tests_reach_this_machine_by_its_name_and_no_other(part: Part, run: Callable[[str], List[Failure]]) -> None:
    assert run(REACHES_ONLY_ITSELF) == [] and part.record.tests == 3


@needs_isolation
def test_a_part_that_needs_the_network_has_that_of_the_machine(part: Part) -> None:
    network = os.readlink("/proc/self/ns/net")
    shows = ("sh", "-c", f'test "$(readlink /proc/self/ns/net)" = "{network}"')
    assert not part.command(*shows)
    part.needs_network = True
    assert part.command(*shows)


def test_the_next_run_removes_the_folders_of_a_killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("testing.isolation.SHARED_MEMORY", tmp_path)
    monkeypatch.setattr("testing.isolation.why_not", lambda checkout: "")
    monkeypatch.setattr("testing.__main__.LOCK", tmp_path / "lock")
    with isolation(Path("/a/checkout")) as left, isolation(Path("/another/checkout")) as other:
        (left.temporary / "file").touch()
        monkeypatch.setattr("testing.__main__.ROOT", Path("/a/checkout"))
        with only_run():
            assert left.mounted and not left.temporary.exists() and not left.mounted.exists()
            assert other.mounted and other.temporary.exists() and other.mounted.exists()


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


def test_a_part_is_narrowed_to_files_and_runners_and_programs_by_a_word() -> None:
    pytests = Run("pytest", ("pytest",), ("tests/docs", "tests/tools", "tests/parallel/test_join.py"))
    assert pytests.narrowed("testing") == Run("pytest", ("pytest",), ("tests/tools/test_testing.py",))
    assert pytests.narrowed("test_join").selection == ("tests/parallel/test_join.py",)
    assert pytests.narrowed("no such") is None
    program = Run("command", ("build/world_test", "--seeds", "3"))
    assert program.narrowed("world_test") == program and program.narrowed("bench") is None


def test_a_run_on_ranks_is_not_narrowed_to_tests_that_launch_jobs() -> None:
    ranks = Run("ranks", ("horovodrun", "-np", "2", "pytest"), ("tests/frameworks/jax",))
    selected = [Path(each).name for each in ranks.narrowed("jax").selection]
    assert "test_gradients.py" in selected and not any(each.startswith("test_launch") for each in selected)
    assert ranks.narrowed("test_launch") is None


def test_a_part_without_a_file_of_the_word_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "CTestTestfile.cmake").write_text(
        "add_test(math_test true)\nadd_test(other_test false)\n"
        "set_tests_properties(math_test other_test PROPERTIES LABELS unit)\n"
    )

    def example(part: Part) -> None:
        part.pytest("tests/tools")
        part.ctest("^unit$", str(tmp_path))

    monkeypatch.setitem(PARTS, "example", example)
    monkeypatch.setattr("testing.__main__.FOLDER", tmp_path / "results")
    assert run_part("example", {}, "math_").record.failures == []
    (failure,) = run_part("example", {}, "no_such").record.failures
    assert "has no_such in its name" in failure.error


def test_only_a_narrowed_run_may_leave_out_all_tests_of_its_files(
    part: Part, run: Callable[..., List[Failure]]
) -> None:
    part.only = "test_example"
    assert run("def test_a() -> None: pass", "-k", "no_such") == []
    part.only = ""
    assert "status 5" in run("def test_a() -> None: pass", "-k", "no_such")[0].error


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    failures = [Failure("part", run, "test", "error", "log") for run in (1, 2)]
    record = Record("tree", {"seed": 4}, "word", 1.5, 3, 1, failures[:1], failures[1:], [("test", 2.5)])
    record.write(tmp_path / "record.json")
    assert Record.read(tmp_path / "record.json") == record


def test_a_record_of_a_version_without_flaky_tests_is_read(tmp_path: Path) -> None:
    content = asdict(Record("tree"))
    del content["flaky"]
    (tmp_path / "record.json").write_text(json.dumps(content))
    assert Record.read(tmp_path / "record.json") == Record("tree")


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


def test_the_first_error_of_a_log_of_checks_is_printed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for text, error in (
        ("fine\n--- a.py\na.cpp:1:2: warning: narrowing\n", "a.cpp:1:2: warning: narrowing"),
        ("fine\nwould reformat a.py\nmore\n", "would reformat a.py"),
        ("fine\nthe last line\n", "the last line"),
    ):
        log.write_text(text)
        command = [sys.executable, "-m", "testing.results", str(log)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240, cwd=TOOLS)
        assert printed.stdout == f"{error}\n"
    assert first_error("a warning: narrowing") == "" and first_error("a warning: narrowing", OF_CHECKS) != ""
