"""A rank that plays recipes of the framework in its argument, one after the other, until the player hangs up.

Rank 0 plays each recipe in one process first. Every rank answers the player itself, so that a rank that fails is heard
while the others wait for it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from typing import Any, Dict, List, Sequence

import farandole.numpy as job
from comparing import Snapshot, differences, digests
from frameworks import Framework, framework
from recipe import Recipe, from_words

SOCKET = "RECIPES_SOCKET"
MOST_DIFFERENCES = 5


def answer(used: Framework, recipe: Recipe) -> Dict[str, Any]:
    """What the player learns from this rank."""
    expected: Sequence[Snapshot] = []
    allowed: List[str] = []
    if job.rank() == 0:
        try:
            expected, allowed = used.played(recipe, used.one_process(job.size()))
        except Exception:
            return {"error": f"in one process: {traceback.format_exc()}"}
    try:
        snapshots, given = used.played(recipe, used.rank())
    except Exception:
        return {"error": f"on rank {job.rank()}: {traceback.format_exc()}"}
    found = {"digests": [digests(used.rules, recipe, each) for each in snapshots], "warnings": sorted({*given})}
    if job.rank() == 0:
        found["allowed"] = allowed
        found["differences"] = []
        for step, pair in enumerate(zip(snapshots, expected)):
            lines = differences(used.rules, recipe, *pair) if pair[0] else []  # it has joined
            found["differences"] += [f"after step {step}: {line}" for line in lines]
        if len(snapshots) != len(expected):
            found["differences"].append(f"{len(snapshots)} steps instead of {len(expected)}")
        found["differences"] = found["differences"][:MOST_DIFFERENCES]
    return found


def main() -> None:
    used = framework(sys.argv[1])
    used.prepare()
    job.init()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        with connection.makefile("rw") as lines:
            print(json.dumps({"rank": job.rank()}), file=lines, flush=True)
            for line in lines:
                print(json.dumps(answer(used, from_words(used.kind, line.split()))), file=lines, flush=True)


if __name__ == "__main__":
    main()
