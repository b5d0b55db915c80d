"""A rank that plays recipes, one after the other, until the player closes the connection.

Rank 0 plays each recipe in one process first. Every rank answers the player itself, so that a rank that fails is heard
while the others wait for it.
"""

from __future__ import annotations

import json
import os
import socket
import traceback
from typing import Any, Dict, List

import horovod.torch as hvd
import torch
from with_torch.recipe import Recipe, from_words
from with_torch.seats import OneProcess, Rank
from with_torch.snapshots import differences, digests
from with_torch.training import play

SOCKET = "RECIPES_SOCKET"
MOST_DIFFERENCES = 5


def answer(recipe: Recipe) -> Dict[str, Any]:
    """What the player learns from this rank."""
    expected: List[Any] = []
    allowed: List[str] = []
    if hvd.rank() == 0:
        try:
            expected, allowed = play(recipe, OneProcess(hvd.size()))
        except Exception:
            return {"error": f"in one process: {traceback.format_exc()}"}
    try:
        snapshots, warnings = play(recipe, Rank())
    except Exception:
        return {"error": f"on rank {hvd.rank()}: {traceback.format_exc()}"}
    found = {"digests": [digests(recipe, each) for each in snapshots], "warnings": sorted({*warnings})}
    if hvd.rank() == 0:
        found["allowed"] = allowed
        found["differences"] = []
        for step, pair in enumerate(zip(snapshots, expected)):
            found["differences"] += [f"after step {step}: {line}" for line in differences(recipe, *pair)]
        if len(snapshots) != len(expected):
            found["differences"].append(f"{len(snapshots)} steps instead of {len(expected)}")
        found["differences"] = found["differences"][:MOST_DIFFERENCES]
    return found


def main() -> None:
    torch.set_num_threads(1)
    torch.set_warn_always(True)
    hvd.init()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        with connection.makefile("rw") as lines:
            print(json.dumps({"rank": hvd.rank()}), file=lines, flush=True)
            for line in lines:
                print(json.dumps(answer(from_words(line.split()))), file=lines, flush=True)


if __name__ == "__main__":
    main()
