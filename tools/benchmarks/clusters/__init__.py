"""Measures jobs in clusters of Ray and Spark beside the cluster's own means, in turns, in one running cluster.

The measurements are programs of their own, because they need the environment of `tools/setup --clusters`.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.collectives import say
from benchmarks.report import machine, row, verdict

ROOT = Path(__file__).resolve().parents[3]
PYTHON = ROOT / ".setup/venvs/clusters/bin/python"
LONGEST_S = 540


@dataclass(frozen=True)
class Row:
    """One workload, and how its results are judged."""

    program: str
    name: str
    text: str
    compared: str
    """"difference": milliseconds more than the other's; "memory": megabytes more than the other's; "time" and "rate":
    shares of the other's; "alone": milliseconds, without another to compare with."""
    limit: float
    """The greatest good value; of "rate", the least."""

    def verdict(self, ours: list[float], others: list[float]) -> tuple[str, str]:
        """The wanted result, and the median over the rounds with half the interquartile range."""
        pairs = list(zip(ours, others))
        if self.compared in ("difference", "alone"):
            values = [1000 * (our - other) for our, other in pairs]
            sign = "+" if self.compared == "difference" else ""
            wanted, met, unit = f"≤ {sign}{self.limit:g} ms", statistics.median(values) <= self.limit, " ms"
        elif self.compared == "memory":
            values = [(our - other) / 1e6 for our, other in pairs]
            wanted, met, unit = f"≤ +{self.limit:g} MB", statistics.median(values) <= self.limit, " MB"
        else:
            values = [our / other for our, other in pairs]
            middle = statistics.median(values)
            met = middle >= self.limit if self.compared == "rate" else middle <= self.limit
            wanted, unit = f"{'≥' if self.compared == 'rate' else '≤'} {self.limit:g} ×", " ×"
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return wanted, verdict(f"{middle:.3g}{unit}", met) + f" ± {(high - low) / 2:.2g}"


ROWS = (
    Row(
        "ray_calls.py",
        "start",
        "`RayExecutor.start()` of 4 workers, with `init()` by all; beside four bare actors, created and called once",
        "difference",
        200,
    ),
    Row(
        "ray_calls.py",
        "execute",
        "`executor.execute()` of an empty function on 4 workers; beside `ray.get` on four bare actors",
        "time",
        1.2,
    ),
    Row(
        "ray_elastic.py",
        "survive",
        "an elastic job of 3 workers with steps of 10 ms: from `ray.kill` of one to the next step of the others",
        "alone",
        250,
    ),
    Row(
        "ray_elastic.py",
        "join",
        "the same, from `ray.kill` to the first step with a new worker; beside the creation of a bare actor",
        "difference",
        300,
    ),
    Row(
        "spark_jobs.py",
        "run",
        "`horovod.spark.run()` of an empty function on 4 tasks; beside a bare barrier stage that starts a Python "
        "process in each task",
        "difference",
        500,
    ),
    Row(
        "reading.py",
        "read",
        "the reader of an estimator: 1,000,000 shuffled rows of 20 float columns in 4 row groups; beside "
        "`pyarrow.dataset` alone, in the order of the file",
        "rate",
        0.8,
    ),
    Row(
        "reading.py",
        "reading_memory",
        "peak memory of a process that reads 4 GB of Parquet, shuffled; beside a process that only "
        "loads PyTorch and the reader",
        "memory",
        300,
    ),
    Row(
        "estimators.py",
        "epoch",
        "an epoch of a 784-128-10 network by `TorchEstimator` on 2 ranks, 20,000 rows; beside the same by hand, with "
        "its rows in memory",
        "time",
        1.25,
    ),
    Row(
        "estimators.py",
        "transform",
        "`transform` of 1,000,000 rows of 20 features; beside a pandas UDF by hand",
        "rate",
        0.9,
    ),
)
PROGRAMS = tuple(dict.fromkeys(each.program for each in ROWS))


def measure(rounds: int, only: list[str]) -> dict[str, dict[str, list[float]]]:
    """By row: the samples of "ours" and "other", in seconds, rows per second or bytes."""
    results: dict[str, dict[str, list[float]]] = {}
    environment = {**os.environ, "PATH": f"{ROOT / '.venv/bin'}:{os.environ.get('PATH', '')}"}
    for program in PROGRAMS:
        names = [each.name for each in ROWS if each.program == program and (not only or each.name in only)]
        if not names:
            continue
        say(f"clusters: {program}: {', '.join(names)}")
        words = [str(PYTHON), str(Path(__file__).with_name(program)), str(rounds), *names]
        ran = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, timeout=LONGEST_S, check=True)
        results.update(json.loads(ran.stdout.splitlines()[-1]))
    return results


def markdown(results: dict[str, dict[str, list[float]]], rounds: int) -> str:
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    lines = [
        f"Measured {today} on {machine()}. {rounds} rounds, in each of which both took turns; medians ± half the "
        "interquartile range.",
        "",
        row("workload", "wanted", "measured", "ours", "beside"),
        row(*["---"] * 5),
    ]
    for each in ROWS:
        if each.name in results:
            ours, others = results[each.name]["ours"], results[each.name]["other"]
            shown = [_shown(each, statistics.median(samples)) for samples in (ours, others)]
            if each.compared == "alone":
                shown[1] = "–"
            lines.append(row(each.text, *each.verdict(ours, others), *shown))
    return "\n".join([*lines, ""])


def _shown(of: Row, value: float) -> str:
    if of.compared == "memory":
        return f"{value / 1e6:.0f} MB"
    return f"{value:,.0f} rows/s" if of.compared == "rate" else f"{1000 * value:.3g} ms"
