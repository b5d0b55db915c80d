"""Repeats one work under Farandole alone, as a target for profilers."""

from __future__ import annotations

import statistics

from benchmarks.worker_group import WorkerGroup
from benchmarks.works import AT_ONCE, ON_AND_ON, WORKS, Work


def work_named(name: str) -> Work:
    """A work of the table by its name, or a new one by its size: `4096` (bytes) or `1000x1024` (tensors × bytes)."""
    for work in [*WORKS, ON_AND_ON, AT_ONCE]:
        if work.name == name:
            return work
    many, _, size = name.rpartition("x")
    return Work(name, (max(1, int(size) // 4),) * int(many or 1), 20)


def profile(name: str, np: int, seconds: float, fast_path: bool) -> None:
    work = work_named(name)
    group = WorkerGroup("farandole", np, environment={} if fast_path else {"FARANDOLE_FAST_PATH": "0"})
    try:
        group.join()
        print(f"{work.name}: workers {', '.join(str(member.pid) for member in group.members)}", flush=True)
        spent = 0.0
        walls, cpus = [], []
        while spent < seconds:
            answers = group.do("time", work=work)
            walls.append(max(answer["wall"] for answer in answers))
            cpus.append(sum(answer["cpu"] for answer in answers))
            spent += walls[-1] * work.count
        print(f"median {statistics.median(walls) * 1e6:.1f} µs, CPU {statistics.median(cpus) * 1e6:.1f} µs")
    finally:
        group.stop()
