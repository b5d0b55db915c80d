"""Measures the cost of the event record and of the timeline: the same works with and without them, taking turns."""

from __future__ import annotations

import statistics
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.collectives import Measured, run_rounds, say
from benchmarks.report import cell, machine, row, verdict
from benchmarks.worker_group import WorkerGroup
from benchmarks.works import SMOKE_WORKS, WORKS, Work

BASE = "farandole without record"
RECORDED = "farandole with record"
TIMELINE = "farandole with timeline"
ENVIRONMENTS = {BASE: {"FARANDOLE_RECORDER_EVENTS": "0"}, RECORDED: {}, TIMELINE: {}}


@dataclass(frozen=True)
class Wanted:
    """The greatest share of the time without record; no limit: the share is only reported."""

    recorded: float
    timeline: float | None


WANTED = {
    "4 B": Wanted(1.05, None),
    "1000 × 1 KiB": Wanted(1.03, 1.15),
    "ResNet-50": Wanted(1.01, 1.03),
    "64 MiB": Wanted(1.01, 1.03),
}


def works(smoke: bool) -> list[Work]:
    return [work for work in (SMOKE_WORKS if smoke else WORKS) if work.name in WANTED]


def measure(np: int, rounds: int, smoke: bool) -> Measured:
    measured = Measured(np)
    say(f"{np} ranks: starting {', '.join(ENVIRONMENTS)}")
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        groups = []
        for name, environment in ENVIRONMENTS.items():
            more = {"HOROVOD_TIMELINE": str(Path(folder) / "timeline.json")} if name == TIMELINE else {}
            group = WorkerGroup(name, np, "", {**environment, **more})
            group.join()
            groups.append(group)
        run_rounds(groups, works(smoke), rounds, measured)
    return measured


def share(measured: Measured, stack: str, work: str) -> tuple[float, float]:
    """Median of the shares of the rounds, and half their interquartile range."""
    pairs = zip(measured.samples[stack, work], measured.samples[BASE, work])
    shares = [ours.wall / base.wall for ours, base in pairs]
    low, _, high = statistics.quantiles(shares, n=4, method="inclusive")
    return statistics.median(shares), (high - low) / 2


def markdown(all_measured: list[Measured], rounds: int) -> str:
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    lines = [
        f"Measured {today} on {machine()}. {rounds} rounds, in each of which all variants took turns.",
        "",
        row("ranks", "work", "without record, ms", "with record", "wanted", "and with timeline", "wanted"),
        row(*["---"] * 7),
    ]
    for measured in all_measured:
        for name in dict.fromkeys(work for _, work in measured.samples):
            wanted = WANTED.get(name)
            cells = []
            for stack, limit in (
                (RECORDED, wanted.recorded if wanted else None),
                (TIMELINE, wanted.timeline if wanted else None),
            ):
                middle, spread = share(measured, stack, name)
                cells.append(verdict(f"{middle:.3f}", limit is None or middle <= limit) + f" ± {spread:.3f}")
                cells.append("report" if limit is None else f"≤ {limit:g}")
            lines.append(row(str(measured.np), name, cell(measured.samples[BASE, name]), *cells))
    problems = [problem for measured in all_measured for problem in measured.problems]
    lines += ["", "What went wrong:", "", *(f"- {problem}" for problem in problems)] if problems else [""]
    return "\n".join(lines)
