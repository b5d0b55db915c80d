"""Measures the latency of small operations in one process set while a disjoint set runs large ones."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.report import machine, milliseconds, row, verdict
from benchmarks.worker_group import ROOT

RANKS = 4
SHARE_WANTED = 2.0  # p99 beside a busy set divided by p99 alone, on a machine with two cores for each rank

# Ranks 0 and 1 are the small set, ranks 2 and 3 the large one. In each round the small set runs the same operations
# twice: while the large set waits in a barrier of all ranks, and while it reduces 256 MiB.
WORKER = """
import json, time
import torch
import horovod.torch as hvd

small, large = hvd.ProcessSet([0, 1]), hvd.ProcessSet([2, 3])
hvd.init(process_sets=[small, large])
rank, rounds, count, elements = hvd.rank(), {rounds}, {count}, {elements}
tensor = torch.ones(1 if small.included() else elements)

def latencies():
    taken = []
    for _ in range(count):
        begin = time.perf_counter()
        hvd.allreduce_(tensor, op=hvd.Average, name="small", process_set=small)
        taken.append(time.perf_counter() - begin)
    return taken

alone, busy = [], []
for round in range(rounds + 1):
    hvd.barrier()
    if small.included():
        result = latencies()
        if round > 0:
            alone += result
    hvd.barrier()
    # The small set tells that it is done by taking part in an operation that the large set has asked for already.
    if small.included():
        result = latencies()
        if round > 0:
            busy += result
        hvd.allreduce(torch.zeros(1), op=hvd.Sum, name=f"over.{{round}}")
    else:
        over = hvd.allreduce_async(torch.zeros(1), op=hvd.Sum, name=f"over.{{round}}")
        # Both ranks must stop after the same large operation: they ask each other.
        while True:
            hvd.allreduce_(tensor, op=hvd.Average, name="large", process_set=large)
            told = hvd.allreduce(torch.tensor([float(hvd.poll(over))]), op=hvd.Min, name="told", process_set=large)
            if told.item() == 1.0:
                break
        hvd.synchronize(over)
hvd.barrier()  # the large set is behind: who left now would end its last operation
assert bool((tensor == 1).all())
if rank == 0:
    with open("{answer}", "w") as file:
        json.dump({{"alone": alone, "busy": busy}}, file)
hvd.shutdown()
"""


@dataclass(frozen=True)
class Latencies:
    """Seconds of each operation."""

    alone: list[float]
    busy: list[float]


def measure(rounds: int, count: int = 400, elements: int = 64 << 20) -> Latencies:
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        answer = Path(folder) / "answer.json"
        worker = Path(folder) / "worker.py"
        worker.write_text(WORKER.format(rounds=rounds, count=count, elements=elements, answer=answer))
        launcher = ROOT / ".venv" / "bin" / "horovodrun"
        command = [str(launcher), "-np", str(RANKS), sys.executable, str(worker)]
        subprocess.run(command, check=True, timeout=900, env={**os.environ, "OMP_NUM_THREADS": "1"})
        got = json.loads(answer.read_text())
    return Latencies(got["alone"], got["busy"])


def markdown(measured: Latencies, rounds: int) -> str:
    def percentile(seconds: list[float], hundredth: int) -> float:
        return statistics.quantiles(seconds, n=100, method="inclusive")[hundredth - 1]

    def line(when: str, seconds: list[float]) -> str:
        return row(when, *(milliseconds(percentile(seconds, which)) for which in (50, 90, 99)))

    share = percentile(measured.busy, 99) / percentile(measured.alone, 99)
    cores = len(os.sched_getaffinity(0))
    wanted = cores >= 2 * RANKS
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    said = verdict(f"{share:.2g}", not wanted or share <= SHARE_WANTED)
    limit = f"at most {SHARE_WANTED:g} wanted" if wanted else f"reported only: {cores} cores for {RANKS} ranks"
    return "\n".join(
        [
            f"Measured {today} on {machine()}; {rounds} rounds, {len(measured.alone)} operations each way.",
            "",
            row("4 B in a set of 2, ms", "median", "p90", "p99"),
            row("---", "---", "---", "---"),
            line("the other set of 2 waits", measured.alone),
            line("the other set of 2 reduces 256 MiB", measured.busy),
            "",
            f"p99 beside the busy set is {said} times the p99 alone ({limit}).",
            "",
        ]
    )
