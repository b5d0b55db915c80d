"""Elastic jobs that tests launch, and what their workers said."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List, NamedTuple, Tuple


class Beginning(NamedTuple):
    """A generation, as one member saw it begin."""

    slot: int
    rank: int
    size: int
    step: int
    pid: int


def beginnings(text: str) -> List[Beginning]:
    found = re.findall(r"BEGIN slot (\d+) rank (\d+) of (\d+) step (\d+) pid (\d+)", text)
    return [Beginning(*map(int, each)) for each in found]


def of_size(text: str, size: int) -> List[Tuple[int, int]]:
    """Slots and ranks of the generations of this size."""
    return sorted((each.slot, each.rank) for each in beginnings(text) if each.size == size)


class Hosts:
    """What the discovery script prints; changed while the job runs."""

    def __init__(self, folder: Path) -> None:
        self.list = folder / "hosts.txt"
        self.script = folder / "discover.sh"
        self.script.write_text(f"#!/bin/sh\ncat {self.list}\n")
        self.script.chmod(0o755)

    def are(self, *lines: str) -> None:
        # Never half of it: the script may run at any moment.
        fresh = self.list.with_suffix(".new")
        fresh.write_text("".join(line + "\n" for line in lines))
        fresh.rename(self.list)
