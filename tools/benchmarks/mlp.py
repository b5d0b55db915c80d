"""Measures a step of a small perceptron (784-128-10, batch 32) in frameworks that call Farandole from their own
threads: on two workers, and in one process without communication."""

from __future__ import annotations

import statistics
from typing import NamedTuple

from benchmarks.report import row, verdict
from benchmarks.trainers import Way
from benchmarks.training import RANKS, Framework, TrainingWorkers, say
from benchmarks.worker_group import ROOT, WorkersFailed

BATCH = 32  # rows a step and worker


class Wanted(NamedTuple):
    """A framework, and the milliseconds that a step on two workers may take."""

    framework: Framework
    step_ms: float


FRAMEWORKS = (
    Wanted(Framework("keras", ".setup/venvs/tensorflow", "", ()), 1.1),
    Wanted(Framework("gluon", ".setup/venvs/mxnet", "", ()), 0.9),
)
Steps = dict[str, list[float]]  # milliseconds a step by way, one a round


def measure_one(framework: Framework, rounds: int, count: int) -> Steps:
    """Measures both ways in turn. Each round starts new processes, because the kernel's placement of threads differs
    between jobs."""
    python = str(ROOT / framework.environment / "bin" / "python")
    steps: Steps = {}
    for number in range(rounds):
        for name, np in (("farandole", RANKS), ("plain", 1)):
            group = TrainingWorkers(framework, Way(name, BATCH, 1, False), np, python)
            try:
                group.join()
                group.do("steps", count=count)
                blocks = [group.do("steps", count=count) for _ in range(5)]
            finally:
                group.stop()
            slowest = [max(answer["seconds"] for answer in answers) for answers in blocks]
            steps.setdefault(name, []).append(statistics.median(slowest) / count * 1e3)
        say(f"{framework.name}: round {number + 1} of {rounds}")
    return steps


def markdown(rounds: int, count: int, only: list[str]) -> str:
    """Measures, and returns the table; raises ``WorkersFailed``."""
    lines = [row("a step, ms", "2 workers", "wanted", "one process alone"), row("---", "---", "---", "---")]
    for framework, wanted_ms in FRAMEWORKS:
        if only and framework.name not in only:
            continue
        if not (ROOT / framework.environment / "bin" / "python").exists():
            say(f"{framework.name} left out: there is no {framework.environment}; tools/setup --frameworks makes it")
            continue
        steps = measure_one(framework, rounds, count)
        ours = statistics.median(steps["farandole"])
        cells = [verdict(_spread(steps["farandole"]), ours <= wanted_ms), f"≤ {wanted_ms:g}", _spread(steps["plain"])]
        lines.append(row(framework.name, *cells))
    if len(lines) == 2:
        raise WorkersFailed("no framework was measured")
    return "\n".join(lines) + "\n"


def _spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:.3g} ± {(high - low) / 2:.2g}"
