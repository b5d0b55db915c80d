"""Carries out the runs of a part, one after the other, and keeps their logs and results in the part's folder.

A run is one command: pytest, pytest on the ranks of a job, CTest, or any other. Each has a process group of its own,
which is killed when the run ends or its limit passes, and an environment with a mark, by which the processes that a
test leaves are found.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Sequence, TextIO, Tuple

from testing.results import Failure, Record, TestResult, first_error, read_junit

ROOT = Path(__file__).resolve().parents[2]
PYTHON = str(ROOT / ".venv" / "bin" / "python")
HOROVODRUN = ".venv/bin/horovodrun"
FOLDER = Path(".setup") / "test"
MARK = "TEST_RUN_MARK"
RUN_LIMIT_S = 3000
ENDING_S = 20.0
KILLING_S = 60.0
NOTHING_SELECTED = 5  # pytest's exit status
# A rank that hangs in the native library cannot be interrupted: its process ends, and with it the job.
RANK_OPTIONS = ("--timeout=240", "--timeout-method=thread")
# The same file for all ranks would be written by all; pytest expands the variables.
RANK_FILES = "${HOROVOD_RANK}${OMPI_COMM_WORLD_RANK}"
RANK_PREFIX = re.compile(r"(?m)^\[0\]<std(out|err)>:")


@dataclass(frozen=True)
class Run:
    """A command with the arguments that select its tests. `kind` says how results are read."""

    kind: str  # "pytest", "ranks", "ctest" or "command"
    command: Tuple[str, ...]
    selection: Tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def of_test(self, test: str) -> Run:
        """The run of this test alone. Without a name it is the whole run."""
        if not test or self.kind == "command":
            return self
        selection = ("-R", f"^{re.escape(test)}$") if self.kind == "ctest" else (test,)
        return Run(self.kind, self.command, selection, self.environment)

    def __str__(self) -> str:
        settings = [f"{name}={value}" for name, value in self.environment.items()]
        words = [*settings, *self.command, *self.selection]
        return " ".join(word.replace(str(ROOT) + "/", "") for word in words)


class Part:
    """A part while it runs. `selection` is the expression of marks that selects its tests."""

    def __init__(
        self, name: str, tree: str, options: Optional[Mapping[str, int]] = None, results: Path = FOLDER
    ) -> None:
        self.name = name
        self.folder = results / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.record = Record(tree)
        self.runs: List[Run] = []
        self.selection = "not slow"
        self.options = dict(options or {})
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
        return self.carry_out(Run("ranks", (*job, "-m", self.selection, *options), files, environment))

    def ctest(self, label: str, build: str = "build", *options: str, **environment: str) -> bool:
        command = ("ctest", "--test-dir", build, "-j", str(os.cpu_count()), "--output-on-failure", "--no-tests=error")
        return self.carry_out(Run("ctest", command, ("-L", label, *options), environment))

    def command(self, *words: str, **environment: str) -> bool:
        return self.carry_out(Run("command", words, (), environment))

    def fail(self, name: str, error: str, log: Path) -> None:
        """Records a failure that no run reports. It is not repeated."""
        self.record.failures.append(Failure(self.name, 0, name, error, str(log)))

    def leave_out(self, name: str, reason: str) -> None:
        print(f"-- {name} left out: {reason}", flush=True)

    # ---- carrying out -------------------------------------------------------------------------------------------

    def carry_out(self, run: Run) -> bool:
        """Carries out a run and records its results. Returns whether it passed."""
        self.runs.append(run)
        number = len(self.runs)
        name = f"run-{number}"
        failures = self._failures_of(run, number, name)
        self.record.failures += failures
        self._count(self._results(name))
        return not failures

    def carry_out_again(self, failure: Failure) -> bool:
        """Carries out the run of a failed test alone. Returns whether it passed."""
        number = len(list(self.folder.glob("again-*.log"))) + 1
        run = self.runs[failure.run - 1].of_test(failure.test)
        return not self._failures_of(run, failure.run, f"again-{number}")

    def _failures_of(self, run: Run, number: int, name: str) -> List[Failure]:
        log = self.folder / f"{name}.log"
        print(f"-- {run}", flush=True)
        begin = time.monotonic()
        status = self._execute(run, name, log)
        results = self._results(name)
        print(f"-- {len(results)} results in {time.monotonic() - begin:.0f} s", flush=True)
        by_test: Dict[str, str] = {}
        for result in results:
            if result.error:
                by_test.setdefault(result.name, result.error)
        if run.kind == "pytest" and status == NOTHING_SELECTED and self.selection == "slow":
            return []
        if status != 0 and not by_test:
            by_test[""] = first_error(log.read_text(errors="replace")) or f"ended with status {status}"
        return [Failure(self.name, number, test, error, str(log)) for test, error in by_test.items()]

    def _execute(self, run: Run, name: str, log: Path) -> int:
        results = ROOT / self.folder / f"{name}"
        options: List[str] = []
        if run.kind in ("pytest", "ranks"):
            own = f".{RANK_FILES}" if run.kind == "ranks" else ""
            options = [f"--junitxml={results}{own}.xml", "-o", "junit_family=xunit1"]
        elif run.kind == "ctest":
            options = ["--output-junit", f"{results}.xml"]
        # The output goes straight into the log: a process that a test has left could keep a pipe open.
        with log.open("wb") as target, log.open(errors="replace") as source:
            process = subprocess.Popen(
                [*run.command, *options, *run.selection],
                cwd=ROOT,
                env={**os.environ, **run.environment, MARK: self._mark},
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            deadline = time.monotonic() + RUN_LIMIT_S
            try:
                while (status := process.poll()) is None and time.monotonic() < deadline:
                    _show(source)
                    time.sleep(0.2)
            finally:
                _kill_group(process.pid)
                process.wait()
            _show(source)
        return process.returncode if status is None else status

    def _results(self, name: str) -> List[TestResult]:
        """The results of a run, of all its ranks."""
        return [result for path in sorted(self.folder.glob(f"{name}.*xml")) for result in read_junit(path)]

    def _count(self, results: List[TestResult]) -> None:
        self.record.tests += len(results)
        self.record.skipped += sum(result.was_skipped for result in results)
        self.record.durations += [[result.name, result.seconds] for result in results if result.seconds >= 2]

    # ---- the end ------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Ends the processes that the part has left. That there are any is a failure."""
        left = self._processes_after(ENDING_S)
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.fail("processes were left", "; ".join(sorted(left.values()))[:1000], self.folder)
        self._processes_after(KILLING_S)

    def _processes_after(self, seconds: float) -> Dict[int, str]:
        """The processes with this part's mark that have not ended after this time."""
        deadline = time.monotonic() + seconds
        while (left := self.processes_left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def processes_left(self) -> Dict[int, str]:
        """The processes that have inherited this part's mark, with their command lines."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self._mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(folder.name)] = f"process {folder.name}: {command[:200]}"
            except OSError:  # it has ended, or belongs to another user
                continue
        return found


def _show(source: TextIO) -> None:
    """Prints what has been written into a log since; of rank 0's lines, without the launcher's prefix."""
    sys.stdout.write(RANK_PREFIX.sub("", source.read()))
    sys.stdout.flush()


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
