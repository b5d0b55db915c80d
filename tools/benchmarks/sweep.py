"""Compares the paths between two hosts by allreduces from 4 B to 256 MiB, on a network without a rate limit.

Each path has its own job between the same two network namespaces. The jobs take turns, as libraries do in
collectives.py. Here tcp encrypts and authenticates; gloo and ucx do neither.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from namespaces import Hosts, why_not

from benchmarks.collectives import Measured, run_rounds, say
from benchmarks.report import cell, machine, row, verdict
from benchmarks.worker_group import HostWorkers, WorkerGroup, WorkersFailed
from benchmarks.works import MIB, Work

TRUSTED = {"FARANDOLE_TRUSTED_NETWORK": "1"}
PATHS: dict[str, dict[str, str]] = {
    "tcp": {},
    "gloo": {"FARANDOLE_CPU_PATH": "gloo", **TRUSTED},
    "ucx": {"FARANDOLE_CPU_PATH": "ucx", **TRUSTED},
}
"""Settings by path. The second path is the one to which tcp is compared."""

OURS, RIVAL = "tcp", "gloo"

WORKS = [
    Work("4 B", (1,), 400, warm=50),
    Work("4 KiB", (1024,), 400, warm=50),
    Work("64 KiB", (16 * 1024,), 200, warm=20),
    Work("1 MiB", (MIB // 4,), 50, warm=10),
    Work("16 MiB", (4 * MIB,), 6, warm=3),
    Work("64 MiB", (16 * MIB,), 2),
    Work("256 MiB", (64 * MIB,), 1, warm=1),
]
SHARES_WANTED = {"4 B": 0.5, "4 KiB": 0.5}  # of gloo's time; of all others 1
LEAST_FOR_A_RATE = 64 << 10  # for smaller tensors the processor time per byte is meaningless


def measure(rounds: int, names: Sequence[str] = (), first: bool = False) -> Measured:
    """Makes two hosts, measures the named works (all by default), and removes the hosts.

    `first`: run the workers at a higher priority than all other processes of the machine.
    """
    reason = why_not()
    if reason:
        sys.exit(f"bench: {reason}")
    works = [work for work in WORKS if not names or work.name in names]
    measured = Measured(2)
    with tempfile.TemporaryDirectory(prefix="farandole-bench-") as folder:
        hosts = Hosts(2, Path(folder))
        try:
            hosts.make()
            say(f"two hosts without a limit: starting {', '.join(PATHS)}")
            groups: list[WorkerGroup] = []
            for path, settings in PATHS.items():
                groups.append(HostWorkers(path, hosts, settings))
                groups[-1].join()
                if first:
                    groups[-1].run_first()
            run_rounds(groups, works, rounds, measured)
        except WorkersFailed as problem:
            sys.exit(f"bench: {problem}")
        finally:
            hosts.remove()
    if measured.problems:
        sys.exit(1)  # the problems were reported when they occurred
    return measured


def markdown(measured: Measured) -> str:
    """Times, shares and processor time by size."""
    works = [work for work in WORKS if (OURS, work.name) in measured.samples]
    rounds = len(measured.samples[OURS, works[0].name])
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    lines = [
        f"Measured {today} on {machine()}; {rounds} rounds.",
        "",
        row("2 hosts, no limit, ms", *PATHS, f"{OURS} / {RIVAL}", "of the least", "wanted"),
        row(*["---"] * (len(PATHS) + 4)),
        *(times(measured, work) for work in works),
        "",
        row("processor seconds of both ranks for each GB of the tensor", *PATHS),
        row(*["---"] * (len(PATHS) + 1)),
        *(rates(measured, work) for work in works if work.bytes >= LEAST_FOR_A_RATE),
    ]
    return "\n".join(lines) + "\n"


def times(measured: Measured, work: Work) -> str:
    cells = [cell(measured.samples[path, work.name]) for path in PATHS]
    share = measured.share(OURS, work.name, RIVAL, work.name)
    least = [min(sample.wall for sample in measured.samples[path, work.name]) for path in (OURS, RIVAL)]
    wanted = SHARES_WANTED.get(work.name, 1.0)
    return row(
        work.name, *cells, verdict(f"{share:.2g}", share <= wanted), f"{least[0] / least[1]:.2g}", f"≤ {wanted:g}"
    )


def rates(measured: Measured, work: Work) -> str:
    def rate(path: str) -> str:
        seconds = statistics.median(sample.cpu for sample in measured.samples[path, work.name])
        return f"{seconds / work.bytes * 1e9:.2f}"

    return row(work.name, *map(rate, PATHS))
