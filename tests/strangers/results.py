"""A table of the attacks, how often each was made, and its outcome: one row for each attack over all rounds."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path
from typing import Dict, List, Optional

ROUNDS = int(os.environ.get("FARANDOLE_STRANGERS_ROUNDS", "1"))


class Row:
    def __init__(self, attack: str, outcome: str) -> None:
        self.attack = attack
        self.outcome = outcome
        self.rounds = 0
        self.count = 0
        self.seconds: List[float] = []

    def text(self) -> str:
        times = f"{self.count:,}" if self.rounds in (1, self.count) else f"{self.count:,} in {self.rounds} jobs"
        longest = f" ({max(self.seconds):.2f} s at most)" if self.seconds else ""
        return f"| {self.attack} | {times} | {self.outcome}{longest} |"


class Results:
    """Tests add a row after they have seen the outcome, so that the table holds no claim of a test that failed."""

    def __init__(self) -> None:
        self.rows: Dict[str, Row] = {}

    def add(self, attack: str, count: int, outcome: str, seconds: Optional[float] = None) -> None:
        row = self.rows.setdefault(attack, Row(attack, outcome))
        assert row.outcome == outcome, "one attack has one outcome"
        row.rounds += 1
        row.count += count
        if seconds is not None:
            row.seconds.append(seconds)

    def markdown(self) -> str:
        place = f"{os.cpu_count()} cores of {_processor()}, Linux {platform.release()}"
        lines = [f"Measured on {datetime.date.today()}, {place}.", "", "| tried | how often | result |"]
        lines += ["| --- | --- | --- |"]
        return "\n".join([*lines, *(row.text() for row in self.rows.values())]) + "\n"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()
