"""Shares, spreads and the text of the table."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Dict, List, Sequence, Tuple

from gpu_tests.machine import Machine
from gpu_tests.table import STAND_IN

from benchmarks.cuda.rows import ROWS, Row
from benchmarks.report import row as line_of
from benchmarks.report import verdict

HEADS = ("one GPU", "compared with", "ours", "rival's", "share")
ON_HOST = "Rows that need PyTorch ran with tensors in host memory, and gloo took the place of NCCL."


@dataclass
class Results:
    """By measurement: samples by contestant in seconds, or figures by name, each of the slowest or largest rank."""

    samples: Dict[str, Dict[str, List[float]]] = field(default_factory=dict)
    remarks: Dict[str, str] = field(default_factory=dict)
    left_out: Dict[str, str] = field(default_factory=dict)
    """Measurements that cannot be taken here, or were not asked for, and the reasons."""
    problems: Dict[str, str] = field(default_factory=dict)
    """Measurements that failed, and the reasons."""

    def add(self, measure: str, of_ranks: Sequence[Dict[str, Any]]) -> None:
        """Results of all ranks."""
        for result in of_ranks:
            if "problem" in result:
                self.problems[measure] = result["problem"]
                return
            if "missing" in result:
                self.left_out[measure] = result["missing"]
                return
        values = [result.get("samples") or result["figures"] for result in of_ranks]
        self.samples[measure] = {
            name: [max(of_round) for of_round in zip(*(of_rank[name] for of_rank in values))] for name in values[0]
        }
        if remark := of_ranks[0].get("remark"):
            self.remarks[measure] = remark

    def is_good(self) -> bool:
        """Whether everything that could be measured was, and something could."""
        return bool(self.samples) and not self.problems


def spread(values: Sequence[float]) -> float:
    """Half the interquartile range."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


def best_rival(row: Row, samples: Dict[str, List[float]]) -> str:
    return min(row.rivals, key=lambda name: statistics.median(samples[name]))


def shares(row: Row, samples: Dict[str, List[float]]) -> List[float]:
    """Our time divided by that of the best rival in the same round."""
    pairs = zip(samples[row.ours], samples[best_rival(row, samples)])
    return [ours / theirs for ours, theirs in pairs]


def duration(values: Sequence[float]) -> str:
    """The median with its spread, in µs or ms."""
    middle = statistics.median(values)
    unit, scale = ("µs", 1e6) if middle < 1e-3 else ("ms", 1e3)
    return f"{middle * scale:.3g} ± {spread(values) * scale:.2g} {unit}"


def cells(row: Row, samples: Dict[str, List[float]]) -> Tuple[List[str], float]:
    """The cells without the target, and the value that is compared with it."""
    values = samples[row.ours]
    if not row.rivals:
        value = statistics.median(values) if row.unit == "s" else max(values)
        text = f"{value:.3g} ± {spread(values):.2g} {row.unit}" if len(values) > 1 else f"{value:.3g} {row.unit}"
        return [row.text, "", text, "", ""], value
    rival = best_rival(row, samples)
    ratios = shares(row, samples)
    value = statistics.median(ratios)
    share = f"{value:.3g} ± {spread(ratios):.2g}"
    return [row.text, rival, duration(values), duration(samples[rival]), share], value


def wanted(row: Row) -> str:
    return f"≤ {row.limit:g}" + (f" {row.unit}" if row.unit else "")


def lines_of(results: Results, is_stand_in: bool) -> List[str]:
    heads = [*HEADS, "no result"] if is_stand_in else [*HEADS, "wanted"]
    lines = [line_of(*heads), line_of(*["---"] * len(heads))]
    for row in ROWS:
        if row.measure not in results.samples:
            continue
        texts, value = cells(row, results.samples[row.measure])
        place = 4 if row.rivals else 2
        if is_stand_in:
            texts.append("stand-in driver")
        else:
            texts[place] = verdict(texts[place], value <= row.limit)
            texts.append(wanted(row))
        lines.append(line_of(*texts))
    return lines


def titled(title: str, found: Dict[str, str]) -> List[str]:
    return ["", f"{title}:", "", *(f"- {name}: {text}" for name, text in found.items())] if found else []


def text_of(results: Results, machine: Machine, rounds: int) -> str:
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    is_stand_in = bool(machine.stand_in)
    lines = [STAND_IN, f"The driver is {machine.stand_in}. {ON_HOST}", ""] if is_stand_in else []
    lines += [
        f"Measured {today}; {rounds} rounds at most, in each of which all took turns (ABBA); medians ± half the "
        "interquartile range, and shares of the best rival's time in the same round.",
        "",
    ]
    lines += lines_of(results, is_stand_in) if results.samples else ["Nothing was measured."]
    lines += titled("Remarks", results.remarks)
    lines += titled("Not measured", results.left_out)
    lines += titled("What went wrong", results.problems)
    lines += ["", "The machine:", "", *(f"- {name}: {value}" for name, value in machine.facts)]
    if is_stand_in:
        lines += ["", STAND_IN]
    return "\n".join(lines) + "\n"
