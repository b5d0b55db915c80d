"""Counts the tests of a run from the records of its ranks (record.py)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, Iterable, List, Tuple

RANKED = ("begun", "passed", "skipped", "failed")
"""Of several outcomes of a test on one rank the last in this list holds: its teardown may fail after it has passed."""


@dataclass
class Outcome:
    """A test counts once, however many ranks ran it."""

    passed: int = 0
    failures: List[str] = field(default_factory=list)
    """Tests that failed on a rank or more, and the reason on the first of them."""
    skips: Counter = field(default_factory=Counter)
    """Numbers of tests that no rank ran, by reason."""


def read(folder: Path, ranks: int) -> Outcome:
    records = []
    for rank in range(ranks):
        path = folder / f"{rank}.jsonl"
        records.append(of_rank(path.read_text().splitlines()) if path.exists() else None)
    return merge(records)


def of_rank(lines: Iterable[str]) -> Dict[str, Tuple[str, str]]:
    """The outcome of each test, and its reason. A rank that is killed may leave its last line incomplete."""
    result: Dict[str, Tuple[str, str]] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        before = result.get(record["test"], ("begun", ""))
        after = (record["outcome"], record["reason"])
        result[record["test"]] = after if RANKED.index(after[0]) > RANKED.index(before[0]) else before
    return result


def merge(records: Iterable) -> Outcome:
    """`records` has None for a rank that has left no record."""
    outcome = Outcome()
    by_test: Dict[str, List[Tuple[int, str, str]]] = {}
    for rank, tests in enumerate(records):
        if tests is None:
            outcome.failures.append(f"rank {rank} ran no test")
            continue
        for test, (result, reason) in tests.items():
            by_test.setdefault(test, []).append((rank, result, reason))
    for test, results in by_test.items():
        add(outcome, test, results)
    return outcome


def add(outcome: Outcome, test: str, results: List[Tuple[int, str, str]]) -> None:
    for rank, result, reason in results:
        if result in ("failed", "begun"):
            problem = reason if result == "failed" else "it did not end"
            outcome.failures.append(f"{test} on rank {rank}: {problem}")
            return
    if all(result == "skipped" for _, result, _ in results):
        outcome.skips[results[0][2]] += 1
    else:
        outcome.passed += 1
