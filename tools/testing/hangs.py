"""A pytest plugin, which pyproject.toml names: a test that hangs fails alone.

The programs that a test starts inherit a mark, and are killed with the test when it exceeds its limit. Programs that
fixtures with a wider scope start while they are set up serve other tests too: they begin before the mark is set, and
are not killed. Nor are those to which a test gives a new environment, and processes that it forks.

On a rank of a job, a test that exceeds its limit ends the rank, and with it the job. Each rank notes in a file which
test it begins. tools/test reads there which test ended the rank, and names it to the ranks when it repeats the run
without it.
"""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from types import FrameType
from typing import Generator, Iterator, List, Optional

import pytest

from testing.processes import kill_marked
from testing.results import BEGUN, LEFT_OUT

_mark = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.pop(BEGUN, "")
    config.pluginmanager.register(NotesOfRank(Path(os.path.expandvars(path))) if path else ProgramsOfTests())


class ProgramsOfTests:
    """Kills the programs of a test that exceeds its limit."""

    @pytest.fixture(autouse=True)
    def mark_of_test(self, request: pytest.FixtureRequest) -> Iterator[str]:
        """The mark of the programs that the test and its fixtures start."""
        value = uuid.uuid4().hex
        request.node.stash[_mark] = f"TEST_MARK={value}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TEST_MARK", value)
            yield request.node.stash[_mark]

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_timeout_set_timer(self, item: pytest.Item) -> Generator[None, object, object]:
        is_set = yield
        fail = signal.getsignal(signal.SIGALRM)

        def fail_with_programs(number: int, frame: Optional[FrameType]) -> None:
            __tracebackhide__ = True
            assert callable(fail)
            try:
                fail(number, frame)
            except pytest.fail.Exception:
                if mark := item.stash.get(_mark, ""):
                    kill_marked(mark)
                raise

        if callable(fail):
            signal.signal(signal.SIGALRM, fail_with_programs)
        return is_set


class NotesOfRank:
    """Notes in a file which test runs, and leaves out those that the caller names."""

    def __init__(self, path: Path) -> None:
        self._begun = path.open("w", buffering=1)
        self._left_out = os.environ.get(LEFT_OUT, "").split("\n")

    def pytest_collection_modifyitems(self, items: List[pytest.Item]) -> None:
        items[:] = [item for item in items if item.nodeid not in self._left_out]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._begun.write(f"{nodeid}\n")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and any(self._left_out):
            session.exitstatus = pytest.ExitCode.OK
        self._begun.write("\n")
