"""The table at the end: which tests ran, which did not and for which reasons, and the facts of the machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import List, Sequence, Tuple

from gpu_tests.machine import Machine
from gpu_tests.outcomes import Outcome

HEADS = ("step", "ranks", "passed", "failed", "skipped", "seconds")
STAND_IN = "STAND-IN DRIVER: no GPU took part in these tests, and this is no result of hardware."


@dataclass
class Row:
    """A run of a step."""

    name: str
    ranks: int
    outcome: Outcome
    problem: str
    """How the run ended if it did not end well; empty otherwise."""
    seconds: float

    def is_good(self) -> bool:
        return not self.problem and not self.outcome.failures

    def summary(self) -> str:
        outcome = self.outcome
        counts = f"{outcome.passed} passed, {len(outcome.failures)} failed, {sum(outcome.skips.values())} skipped"
        return f"{counts} in {self.seconds:.1f} s" + (f"; it {self.problem}" if self.problem else "")

    def cells(self) -> Tuple[str, ...]:
        counts = (self.outcome.passed, len(self.outcome.failures), sum(self.outcome.skips.values()))
        return (self.name, str(self.ranks), *map(str, counts), f"{self.seconds:.1f}")


@dataclass
class Results:
    rows: List[Row] = field(default_factory=list)
    left_out: List[Tuple[str, str]] = field(default_factory=list)
    """Runs that could not run here or were not asked for, and the reasons."""
    missed: List[Tuple[str, str]] = field(default_factory=list)
    """Runs that could have run and did not, and the reasons."""

    def is_good(self) -> bool:
        """Whether everything that could run passed, and something did."""
        passed = sum(row.outcome.passed for row in self.rows)
        return passed > 0 and not self.missed and all(row.is_good() for row in self.rows)


def text_of(results: Results, machine: Machine) -> str:
    lines = ["", STAND_IN, f"The driver is {machine.stand_in}.", ""] if machine.stand_in else [""]
    lines += columns([HEADS, *(row.cells() for row in results.rows)])
    lines += failures(results.rows) + skips(results.rows)
    lines += pairs("did not run", [*results.missed, *results.left_out])
    lines += pairs("machine", machine.facts)
    verdict = "passed" if results.is_good() else "FAILED"
    lines += ["", f"gpu: {verdict}" + (f". {STAND_IN}" if machine.stand_in else "")]
    return "\n".join(lines) + "\n"


def columns(rows: Sequence[Tuple[str, ...]]) -> List[str]:
    """The first column to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
        for row in rows
    ]


def failures(rows: Sequence[Row]) -> List[str]:
    lines = []
    for row in rows:
        problems = [*([f"the run {row.problem}"] if row.problem else []), *row.outcome.failures]
        lines += [f"  {row.name} on {row.ranks}: {problem}" for problem in problems]
    return ["", "failed:", *lines] if lines else []


def skips(rows: Sequence[Row]) -> List[str]:
    """Each reason once, with the number of tests and the steps."""
    counts: Counter = Counter()
    steps: dict = {}
    for row in rows:
        for reason, count in row.outcome.skips.items():
            counts[reason] += count
            steps.setdefault(reason, {})[row.name] = None
    lines = [f"  {count} x {reason} ({', '.join(steps[reason])})" for reason, count in counts.most_common()]
    return ["", "skipped:", *lines] if lines else []


def pairs(title: str, found: Sequence[Tuple[str, str]]) -> List[str]:
    return ["", f"{title}:", *(f"  {name}: {value}" for name, value in found)] if found else []
