"""Carries out the runs of a part, one after the other, and keeps their logs and results in the part's folder.

A run is one command: pytest, pytest on the ranks of a job, CTest, or any other. Each has a process group of its own,
which is killed when the run ends or its limit passes, and an environment with a mark, by which the processes that a
test leaves are found. isolation.py gives it folders and a network of its own.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, TextIO, Tuple

from testing.isolation import Isolation, isolation
from testing.processes import kill_marked, marked
from testing.results import (
    BEGUN,
    LEFT_OUT,
    OF_AN_END,
    Failure,
    Record,
    TestResult,
    first_error,
    read_junit,
    unfinished_test,
)

ROOT = Path(__file__).resolve().parents[2]
PYTHON = str(ROOT / ".venv" / "bin" / "python")
HOROVODRUN = ".venv/bin/horovodrun"
FOLDER = Path(".setup") / "test"
MARK = "TEST_RUN_MARK"
RUN_LIMIT_S = 1800
ENDING_S = 20.0
MOST_ENDED = 2  # tests that may end the ranks of one run
NOTHING_SELECTED = 5  # pytest's exit status
# The exit statuses with which results are complete: all passed, or some failed.
ORDINARY = {"pytest": (0, 1), "ranks": (0, 1), "ctest": (0, 8), "command": (0,)}
# A rank that hangs in the native library cannot be interrupted: its process ends, and with it the job. Keeping what is
# logged takes 3 ms of each test where PyTorch is imported, because it has 58 loggers.
RANK_OPTIONS = (
    *("-p", "no:logging"),
    *("--timeout-method=thread", "-o", "faulthandler_timeout=700"),
    *("-o", "faulthandler_exit_on_timeout=true"),
)
# Options of pytest-xdist for tests that start jobs. They mostly wait, so two at a time keep two cores busy.
TWO_AT_A_TIME = ("-n", "2", "--dist", "worksteal")
FOUR_AT_A_TIME = ("-n", "4", "--dist", "worksteal")  # those that wait for other hosts
# Each rank writes a file of its own; pytest expands the variables.
RANK_FILES = "${HOROVOD_RANK}${OMPI_COMM_WORLD_RANK}"
RANK_PREFIX = re.compile(r"(?m)^\[0\]<std(out|err)>:")
# Held while the output of a run is shown, so that parts that run at the same time do not mix theirs.
SHOWING = threading.Lock()
# Set when the program is interrupted: the runs of other threads end.
INTERRUPTED = threading.Event()


@dataclass(frozen=True)
class Run:
    """A command with the arguments that select its tests. `kind` says how results are read, and `ranks` how many
    processes of a job write some."""

    kind: str  # a key of ORDINARY
    command: Tuple[str, ...]
    selection: Tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    ranks: int = 1
    limit_s: float = RUN_LIMIT_S

    def of_test(self, test: str) -> Run:
        """The run of this test alone. Without a name it is the whole run."""
        if not test:
            return self
        return replace(self, selection=("-R", f"^{re.escape(test)}$") if self.kind == "ctest" else (test,))

    def without(self, tests: Sequence[str]) -> Run:
        """The run on ranks without these tests."""
        return replace(self, environment={**self.environment, LEFT_OUT: "\n".join(tests)}) if tests else self

    def narrowed(self, word: str) -> Optional[Run]:
        """The run with only the files, runners of CTest and programs whose name contains this word; None if there are
        none."""
        if self.kind == "ctest":
            selection = (*self.selection, "-R", re.escape(word), "--no-tests=ignore")
            return replace(self, selection=selection)
        if self.kind == "command":
            return self if any(word in each for each in self.command) else None
        files = [each for place in self.selection for each in _files_at(place) if word in each]
        if self.kind == "ranks":
            # The tests that launch jobs are ignored on the ranks, but pytest does not ignore files that are arguments.
            files = [each for each in files if not Path(each).name.startswith("test_launch")]
        return replace(self, selection=tuple(files)) if files else None

    def __str__(self) -> str:
        settings = [f"{name}={value}" for name, value in self.environment.items() if name != LEFT_OUT]
        words = [*settings, *self.command, *self.selection]
        return " ".join(word.replace(str(ROOT) + "/", "") for word in words)


class Part:
    """A part while it runs. `selection` is the expression of marks that selects its tests. One that needs the network
    may ask registries. If `only` is not empty, it narrows each run. If it is not alone, the output of a run is shown
    when the run has ended."""

    def __init__(
        self,
        name: str,
        tree: str,
        options: Optional[Mapping[str, int]] = None,
        results: Path = FOLDER,
        is_alone: bool = True,
    ) -> None:
        self.name = name
        self.folder = results / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.options = dict(options or {})
        self.record = Record(tree, self.options)
        self.runs: List[Run] = []
        self.selection = "not slow"
        self.needs_network = False
        self.only = ""
        self._is_alone = is_alone
        self._mark = uuid.uuid4().hex

    # ---- kinds of runs ------------------------------------------------------------------------------------------

    def pytest(self, *files: str, python: str = PYTHON, options: Sequence[str] = (), **environment: str) -> bool:
        command = (python, "-m", "pytest", "-q", "-m", self.selection, *options)
        return self.carry_out(Run("pytest", command, files, environment))

    def ranks(
        self,
        np: int,
        *files: str,
        launcher: Sequence[str] = (HOROVODRUN,),
        through: Sequence[str] = (),
        python: str = PYTHON,
        options: Sequence[str] = (),
        **environment: str,
    ) -> bool:
        """pytest on the ranks of a job. `through` is a program that starts each rank."""
        job = (*launcher, "-np", str(np), *through, python, "-m", "pytest", "-q", *RANK_OPTIONS)
        return self.carry_out(Run("ranks", (*job, "-m", self.selection, *options), files, environment, ranks=np))

    def ctest(self, label: str, build: str = "build", *options: str, **environment: str) -> bool:
        jobs = (os.cpu_count() or 1) * 3 // 2  # a third of the time of the runners is waiting
        command = ("ctest", "--test-dir", build, "-j", str(jobs), "--output-on-failure", "--no-tests=error")
        return self.carry_out(Run("ctest", command, ("-L", label, *options), environment))

    def command(self, *words: str, **environment: str) -> bool:
        return self.carry_out(Run("command", words, (), environment))

    def prepare(self, *words: str, limit_s: float = 2 * RUN_LIMIT_S) -> bool:
        """A command without which the part cannot go on. If it fails, it is not repeated: the rest did not run."""
        only, self.only = self.only, ""
        passed = self.carry_out(Run("command", words, limit_s=limit_s))
        self.only = only
        if not passed:
            self.record.failures[-1] = replace(self.record.failures[-1], run=0)
        return passed

    def fail(self, name: str, error: str, log: Path) -> None:
        """Records a failure that no run reports. It is not repeated."""
        self.record.failures.append(Failure(self.name, 0, name, error, str(log)))

    def write_record(self) -> None:
        self.record.write(self.folder / "record.json")

    def leave_out(self, name: str, reason: str) -> None:
        print(f"-- {name} left out: {reason}", flush=True)

    # ---- carrying out -------------------------------------------------------------------------------------------

    def carry_out(self, run: Run) -> bool:
        """Carries out a run and records its results. A test that ends a rank fails alone: the run is carried out once
        more without it. Returns whether it passed."""
        if self.only:
            narrowed = run.narrowed(self.only)
            if narrowed is None:
                return True
            run = narrowed
        self.runs.append(run)
        number = len(self.runs)
        found: Dict[str, Failure] = {}
        hung: List[str] = []
        for name in [f"run-{number}", *(f"run-{number}-without-{count + 1}" for count in range(MOST_ENDED))]:
            results, failures, ended = self._carry_out(run.without(hung), number, name)
            found.update({each.test: each for each in failures})
            if not ended:
                break
            hung.append(ended)
        else:
            error = f"{len(hung)} tests ended a rank; the other tests of {run} have no results"
            found[""] = Failure(self.name, 0, "", error, failures[0].log)
        self.record.add(results, [*found.values()])
        return not found

    def carry_out_again(self, failure: Failure) -> bool:
        """Carries out the run of a failed test alone. Returns whether it passed."""
        number = len(list(self.folder.glob("again-*.log"))) + 1
        run = self.runs[failure.run - 1].of_test(failure.test)
        _, failures, _ = self._carry_out(run, failure.run, f"again-{number}")
        return not failures

    def _carry_out(self, run: Run, number: int, name: str) -> Tuple[List[TestResult], List[Failure], str]:
        """Returns the results, the failures, and the test that has ended a rank because it hung."""
        log = self.folder / f"{name}.log"
        if self._is_alone:
            print(f"-- {run}", flush=True)
        begin = time.monotonic()
        with isolation(ROOT) as isolated:
            try:
                status = self._execute(run, name, log, isolated)
            except BaseException:
                kill_marked(f"{MARK}={self._mark}")
                raise
            seconds = time.monotonic() - begin
            left = "; ".join(filter(None, (self._end_processes(), isolated.left())))
        results, is_complete = self._results(run, name)
        with SHOWING:
            if not self._is_alone:
                print(f"-- {run}\n{RANK_PREFIX.sub('', log.read_text(errors='replace'))}")
            print(f"-- {len(results)} results in {seconds:.0f} s", flush=True)
        failures = {result.name: result.error for result in reversed(results) if result.error}
        ended = ""
        kinds = ("pytest", "ranks") if self.only else ("pytest",) if self.selection == "slow" else ()
        is_empty = status == NOTHING_SELECTED and run.kind in kinds
        if seconds >= run.limit_s:  # once more would take as long
            number, failures = 0, {"": f"exceeded {run.limit_s:.0f} s"}
        elif not is_empty and not (is_complete and status in ORDINARY[run.kind] and (status == 0 or failures)):
            text = log.read_text(errors="replace")
            end = first_error(text, OF_AN_END)
            ended = self._unfinished_test(run, name) if end else ""
            if ended:
                failures[ended] = end
            else:
                known = [f"{test}: {error}" for test, error in failures.items()]
                known += [first_error(text), f"ended with status {status}"]
                failures = {"": next(filter(None, known))}
        elif left and not failures:
            failures = {"": f"left {left}"}
        found = [Failure(self.name, number, test, error, str(log)) for test, error in failures.items()]
        return results, found, ended

    def _execute(self, run: Run, name: str, log: Path, isolated: Isolation) -> int:
        results = f"{ROOT / self.folder / name}"
        options: List[str] = []
        notes = {MARK: self._mark}
        if run.kind in ("pytest", "ranks"):
            own = f".{RANK_FILES}" if run.kind == "ranks" else ""
            if run.kind == "ranks":
                notes[BEGUN] = f"{results}{own}.begun"
            options = [f"--junitxml={results}{own}.xml", "-o", "junit_family=xunit1"]
        elif run.kind == "ctest":
            options = ["--output-junit", f"{results}.xml"]
        settings = {"TMPDIR": str(isolated.temporary), **({"PIP_NO_INDEX": "0"} if self.needs_network else {})}
        # The output goes straight into the log: a process that a test has left could keep a pipe open.
        with log.open("wb") as target, log.open(errors="replace") as source:
            try:
                if shutil.which(run.command[0], path=run.environment.get("PATH")) is None:
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
                process = subprocess.Popen(
                    [*isolated.entering(self.needs_network), *run.command, *options, *run.selection],
                    cwd=ROOT,
                    env={**os.environ, **settings, **run.environment, **notes},
                    stdin=subprocess.DEVNULL,
                    stdout=target,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as problem:
                target.write(f"error: {run.command[0]}: {problem.strerror}\n".encode())
                return 127
            deadline = time.monotonic() + run.limit_s
            try:
                while process.poll() is None and time.monotonic() < deadline:
                    if INTERRUPTED.is_set():
                        raise KeyboardInterrupt
                    self._show(source)
                    time.sleep(0.2)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._show(source)
        return process.returncode

    def _show(self, source: TextIO) -> None:
        """Prints the lines that were added to a log; those of rank 0 without the launcher's prefix."""
        if self._is_alone:
            sys.stdout.write(RANK_PREFIX.sub("", source.read()))
            sys.stdout.flush()

    def _results(self, run: Run, name: str) -> Tuple[List[TestResult], bool]:
        """The results of a run, of all its ranks, and whether all its processes have written some."""
        files = sorted(self.folder.glob(f"{name}.*xml"))
        by_file = [results for path in files if (results := read_junit(path)) is not None]
        is_complete = run.kind == "command" or len(by_file) == run.ranks
        return [result for results in by_file for result in results], is_complete

    def _unfinished_test(self, run: Run, name: str) -> str:
        """The test in which a rank of this run has ended; empty if there is none."""
        return unfinished_test(sorted(self.folder.glob(f"{name}.*begun")), run.ranks)

    # ---- processes that are left --------------------------------------------------------------------------------

    def _end_processes(self) -> str:
        """Ends the processes that a run has left, and names them; empty if there are none."""
        deadline = time.monotonic() + ENDING_S
        while (left := self.processes_left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left:
            kill_marked(f"{MARK}={self._mark}")
        return "; ".join(sorted(left.values()))[:1000]

    def processes_left(self) -> Dict[int, str]:
        """The processes that have inherited this part's mark, with their command lines."""
        return marked(f"{MARK}={self._mark}")


def _files_at(place: str) -> List[str]:
    """The files of tests in a folder; a file is itself."""
    if not (ROOT / place).is_dir():
        return [place]
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / place).rglob("test_*.py"))
