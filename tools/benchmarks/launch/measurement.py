"""Measures commands in turns, each with a deadline, and compares their times with targets.

A row has a contender for each program that does the same work. In each round, every contender is measured once, in an
order that changes from round to round. A contender that does not end within its deadline is reported and not measured
again: a launcher that hangs would otherwise use up the time of all others.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Callable, ContextManager, Iterator, Mapping, NamedTuple, Optional, Sequence

from benchmarks.report import machine, milliseconds, row, verdict

OURS = "Farandole"
DEADLINE_S = 60.0


class Failed(Exception):
    """A contender did not do its work, for the reason in the text."""


class Overdue(Failed):
    """A contender did not end within its deadline."""


class Target(NamedTuple):
    """Our time is at most `share` times the rival's time in the same round, plus `allowance_ms`."""

    rival: str
    share: Optional[float] = None
    """None: the time is only reported."""
    allowance_ms: float = 0
    bytes_moved: int = 0
    """Not 0: the contenders move so many bytes, and `share` is the least share of the rival's bytes/s."""

    def text(self) -> str:
        if self.share is None:
            return "report"
        if self.bytes_moved:
            return f"≥ {self.share:g} × its bytes/s"
        allowance = f" + {self.allowance_ms:g} ms" if self.allowance_ms else ""
        return f"≤ {self.share:g} ×{allowance}"

    def is_met(self, ours: Sequence[float], theirs: Sequence[float]) -> bool:
        if self.share is None:
            return True
        limit = 1 / self.share if self.bytes_moved else self.share
        return statistics.median((a - self.allowance_ms / 1e3) / b for a, b in zip(ours, theirs)) <= limit


@dataclass(frozen=True)
class Row:
    """One work and its contenders. A contender returns the seconds that it took."""

    work: str
    contenders: Mapping[str, Callable[[], float]]
    targets: Sequence[Target] = ()
    limit_ms: Optional[float] = None
    """Our time is at most this."""


@dataclass
class Times:
    """Seconds by contender; a contender that failed has fewer of them."""

    row: Row
    seconds: dict[str, list[float]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Options:
    rounds: int
    smoke: bool
    horovod_python: str = ""
    ray_python: str = ""


class Left(NamedTuple):
    """A row that cannot be measured here, with the reason."""

    name: str
    reason: str


RowMaker = Callable[[Options, Path], ContextManager[Row]]
"""Prepares a row in a folder, and removes its hosts and processes afterwards."""


def measure(makers: Mapping[str, RowMaker], options: Options) -> list[Times | Left]:
    """Measures these rows, one after the other."""
    results: list[Times | Left] = []
    for name, make in makers.items():
        with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder, contextlib.ExitStack() as opened:
            try:
                prepared = opened.enter_context(make(options, Path(folder)))
            except Failed as problem:
                print(f"bench: {name} is left out: {problem}", file=sys.stderr)
                results.append(Left(name, str(problem)))
                continue
            results.append(_measure_row(name, prepared, options.rounds))
    return results


def _measure_row(name: str, prepared: Row, rounds: int) -> Times:
    times = Times(prepared, {each: [] for each in prepared.contenders})
    names = list(prepared.contenders)
    # The first round only fills caches.
    for number in range(rounds + 1):
        turned = names[number % len(names) :] + names[: number % len(names)]
        for contender in turned:
            if contender in times.problems:
                continue
            try:
                seconds = prepared.contenders[contender]()
            except Failed as problem:
                print(f"bench: {name}: {contender}: {problem}", file=sys.stderr)
                times.problems[contender] = str(problem)
                continue
            if number > 0:
                times.seconds[contender].append(seconds)
        print(f"bench: {name}: round {number} of {rounds}", file=sys.stderr)
    return times


def is_measured(result: Times | Left) -> bool:
    """Whether our time is known. Another launcher may fail."""
    return isinstance(result, Times) and OURS not in result.problems


# ---- commands -------------------------------------------------------------------------------------------------------


def environment(settings: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without settings of Farandole and of jobs, with these settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "FARANDOLE_"))}
    return {**kept, "OMP_NUM_THREADS": "1", **(settings or {})}


def seconds_of(
    *commands: Sequence[str], settings: Mapping[str, str] | None = None, deadline_s: float = DEADLINE_S
) -> float:
    """Starts these commands together; the seconds until the last of them has ended. Their output is discarded."""
    begin = time.perf_counter()
    with _running(commands, environment(settings), subprocess.DEVNULL) as started:
        for process in started:
            _wait(process, begin + deadline_s - time.perf_counter(), deadline_s)
        return time.perf_counter() - begin


def output_of(command: Sequence[str], settings: Mapping[str, str] | None = None, deadline_s: float = DEADLINE_S) -> str:
    """The standard output of a command."""
    with _running([command], environment(settings), subprocess.PIPE) as (process,):
        _wait(process, deadline_s, deadline_s)
        assert process.stdout is not None
        return process.stdout.read().decode()


def pieces_of(
    command: Sequence[str], settings: Mapping[str, str] | None = None, deadline_s: float = DEADLINE_S
) -> Iterator[bytes]:
    """The standard output of a command, piece by piece as it comes."""
    begin = time.perf_counter()
    with _running([command], environment(settings), subprocess.PIPE) as (process,):
        assert process.stdout is not None
        while True:
            left_s = begin + deadline_s - time.perf_counter()
            readable, _, _ = select.select([process.stdout], [], [], max(left_s, 0))
            piece = os.read(process.stdout.fileno(), 1 << 16) if readable else b""
            if not piece:
                break
            yield piece
        _wait(process, begin + deadline_s - time.perf_counter(), deadline_s)


@contextlib.contextmanager
def _running(
    commands: Sequence[Sequence[str]], variables: Mapping[str, str], output: int
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes of these commands, which end with the block."""
    started: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile() as errors:
        try:
            for command in commands:
                started.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=errors,
                        env=variables,
                        start_new_session=True,
                    )
                )
            yield started
        except Failed as problem:
            errors.seek(0)
            lines = errors.read().decode(errors="replace").strip().splitlines()
            raise type(problem)("; ".join([str(problem), *lines[-3:]])) from None
        finally:
            for process in started:
                _end(process)


def _wait(process: subprocess.Popen[bytes], left_s: float, deadline_s: float) -> None:
    assert isinstance(process.args, list)
    # Popen.wait() with a timeout looks only every 0.5 to 50 ms whether the process has ended.
    descriptor = os.pidfd_open(process.pid)
    try:
        has_ended, _, _ = select.select([descriptor], [], [], max(left_s, 0))
    finally:
        os.close(descriptor)
    if not has_ended:
        raise Overdue(f"{Path(process.args[0]).name} did not end within {deadline_s:g} s")
    code = process.wait()
    if code != 0:
        raise Failed(f"{Path(process.args[0]).name} ended with {code}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Lets a launcher take its workers away; kills what remains."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    if process.stdout is not None:
        process.stdout.close()


# ---- the table ------------------------------------------------------------------------------------------------------


def markdown(results: Sequence[Times | Left], rounds: int) -> str:
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    lines = [
        f"Measured {today} on {machine()}; {rounds} rounds, in turns.",
        "",
        row("workload", "Farandole, ms", "compared with", "its time, ms", "share", "target"),
        row(*["---"] * 6),
    ]
    for result in results:
        if isinstance(result, Times):
            lines += _lines(result)
    notes: list[str] = []
    for result in results:
        if isinstance(result, Left):
            notes.append(f"- the row `{result.name}`: {_one_line(result.reason)}")
        else:
            notes += [f"- {result.row.work}, {name}: {_one_line(text)}" for name, text in result.problems.items()]
    if notes:
        lines += ["", "Not measured:", "", *notes]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return "; ".join(filter(None, map(str.strip, text.splitlines())))


def _lines(times: Times) -> list[str]:
    ours = times.seconds[OURS]
    lines = []
    if times.row.limit_ms is not None:
        met = bool(ours) and statistics.median(ours) * 1e3 <= times.row.limit_ms
        cell = verdict(_cell(ours), met) if ours else ""
        lines.append(row(times.row.work, cell, "", "", "", f"≤ {times.row.limit_ms:g} ms"))
    for target in times.row.targets:
        theirs = times.seconds.get(target.rival, [])
        share = ""
        # A contender is not measured after a failure, so the times of the rounds before it are compared.
        if ours and theirs:
            value = statistics.median(b / a if target.bytes_moved else a / b for a, b in zip(ours, theirs))
            share = verdict(f"{value:.2f}", target.is_met(ours, theirs))
        lines.append(row(times.row.work, _cell(ours), target.rival, _cell(theirs), share, target.text()))
    return lines


def _cell(seconds: Sequence[float]) -> str:
    """Median ± half the interquartile range, in ms."""
    if len(seconds) < 2:
        return milliseconds(seconds[0]) if seconds else ""
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return f"{milliseconds(middle)} ± {milliseconds((high - low) / 2)}"
