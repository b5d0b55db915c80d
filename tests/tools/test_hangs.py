"""A test that hangs fails alone: its programs are killed with it, and the other tests have results."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from test_testing import OPTIONS, PLACE, TOOLS, part, run
from testing.part import Part
from testing.results import Failure, unfinished_test

__all__ = ["part", "run"]  # the fixtures

PLUGIN = ("-p", "testing.hangs", "-o", f"pythonpath={TOOLS}")


def test_a_test_that_hangs_fails_alone(part: Part, run: Callable[..., List[Failure]]) -> None:
    hangs = "import pytest\n@pytest.mark.timeout(1)\ndef test_hangs(): time.sleep(600)\n"
    (failure,) = run(hangs + "def test_next(): pass\n")
    assert failure.test.endswith("::test_hangs") and "Timeout" in failure.error
    assert part.record.tests == 2


# The limit of the test passes when its program and that of the module have begun.
HANGS_WITH_A_PROGRAM = """
import pytest, signal

started = []

def start():
    started.append(subprocess.Popen(["sleep", "600"], start_new_session=True))

@pytest.fixture(scope="module")
def of_the_module():
    start()
    yield
    started[0].kill()
    started[0].wait()

def test_hangs(of_the_module):
    start()
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(600)

def test_next(of_the_module):
    assert started[1].wait(240) == -signal.SIGKILL
    assert started[0].poll() is None
"""


def test_the_programs_of_a_test_that_hangs_are_killed_with_it(run: Callable[..., List[Failure]]) -> None:
    (failure,) = run(HANGS_WITH_A_PROGRAM, *PLUGIN, "--timeout=500")
    assert failure.test.endswith("::test_hangs") and "Timeout" in failure.error


# As the limit of a test does, faulthandler ends a rank, when both ranks have begun the test.
HANG_ON_RANKS = """
import faulthandler, pytest

@pytest.mark.parametrize("name", ["a", "b"])
def test_hangs(name):
    if name not in os.environ["HANGING"]:
        return
    (place / f"{name}{os.environ['HOROVOD_RANK']}").touch()
    while not all((place / f"{name}{rank}").exists() for rank in "01"):
        time.sleep(0.02)
    faulthandler.dump_traceback_later(0.01, exit=True)
    time.sleep(600)

def test_next(): pass
"""


@pytest.fixture
def run_on_ranks(part: Part, tmp_path: Path) -> Callable[[str], List[Failure]]:
    """Runs HANG_ON_RANKS on two ranks, where these tests hang; the failures."""

    def carried_out(hanging: str) -> List[Failure]:
        file = tmp_path / "test_example.py"
        file.write_text(PLACE + HANG_ON_RANKS)
        settings = {"PLACE": str(tmp_path), "HANGING": hanging}
        part.ranks(2, str(file), python=sys.executable, options=(*OPTIONS[:-1], *PLUGIN, "--capture=no"), **settings)
        return part.record.failures

    return carried_out


def test_a_test_that_hangs_on_ranks_fails_alone(part: Part, run_on_ranks: Callable[[str], List[Failure]]) -> None:
    (failure,) = run_on_ranks("b")
    assert failure.test.endswith("::test_hangs[b]") and "Timeout" in failure.error
    assert part.record.tests == 2 * 2
    assert part.runs[failure.run - 1].of_test(failure.test).selection == (failure.test,)


def test_a_run_on_ranks_is_not_carried_out_again_and_again(
    part: Part, run_on_ranks: Callable[[str], List[Failure]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testing.part.MOST_ENDED", 1)
    *hung, rest = run_on_ranks("ab")
    assert [failure.test.rpartition("::")[2] for failure in hung] == ["test_hangs[a]", "test_hangs[b]"]
    assert "2 tests ended a rank" in rest.error and rest.run == 0


def test_the_test_that_began_first_is_the_one_in_which_a_rank_has_ended(tmp_path: Path) -> None:
    def note(rank: int, second: int, *lines: str) -> None:
        (tmp_path / str(rank)).write_text("".join(f"{line}\n" for line in lines))
        os.utime(tmp_path / str(rank), (second, second))

    def found() -> str:
        return unfinished_test(sorted(tmp_path.iterdir()), 2)

    note(0, 3, "a", "b", "c")
    assert found() == ""  # rank 1 has not begun
    note(1, 2, "a", "b")
    assert found() == "b"
    note(1, 4, "a", "b", "c", "d")
    assert found() == "c"
    note(0, 3, "a", "b", "c", "")
    assert found() == "d"
    note(1, 4, "")
    assert found() == ""  # both have run to their end
    note(1, 4)
    assert found() == ""
