"""Markdown tables of the results: printed, and written to docs/benchmarks.md between two marks."""

from __future__ import annotations

import os
import platform
import statistics
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.collectives import OURS, Measured, Sample
from benchmarks.worker_group import ROOT
from benchmarks.works import (
    IDLE_CORE_SHARE_WANTED,
    IDLE_WAKEUPS_WANTED,
    INIT_WANTED_MS,
    MEMORY_WANTED_MIB,
    OVERHEAD_WANTED_US,
    RESULTS,
    WANTED,
)

PAGE = ROOT / "docs" / "benchmarks.md"
END = "<!-- end of the measurements -->"


def _ticks() -> tuple[int, int]:
    """Clock ticks of all cores since the machine started: those in which a process was runnable, and of these the
    stolen ones, which the hypervisor gave to other virtual machines."""
    user, nice, system, _, _, irq, softirq, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
    return user + nice + system + irq + softirq + stolen, stolen


_AT_FIRST = _ticks()


def machine() -> str:
    """One line with processor, cores, memory, kernel, PyTorch and the share of stolen processor time."""
    import torch

    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    cores = len(os.sched_getaffinity(0))
    wanted, stolen = (now - then for now, then in zip(_ticks(), _AT_FIRST))
    return (
        f"{model}, {cores} cores, {gib:.0f} GiB, Linux {platform.release()}, PyTorch {torch.__version__}; "
        f"{stolen / max(wanted, 1):.0%} of the processor time went to other virtual machines"
    )


def milliseconds(seconds: float) -> str:
    value = seconds * 1e3
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def cell(samples: list[Sample]) -> str:
    """Median, half the interquartile range, and processor time."""
    walls = [sample.wall for sample in samples]
    spread = 0.0
    if len(walls) >= 2:
        low, _, high = statistics.quantiles(walls, n=4, method="inclusive")
        spread = (high - low) / 2
    cpu = statistics.median(sample.cpu for sample in samples)
    return f"{milliseconds(statistics.median(walls))} ± {milliseconds(spread)}, CPU {milliseconds(cpu)}"


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def times_table(measured: Measured) -> list[str]:
    stacks = list(dict.fromkeys(stack for stack, _ in measured.samples))
    works = list(dict.fromkeys(work for _, work in measured.samples))
    lines = [row(f"{measured.np} ranks, ms", "result", *stacks), row(*["---"] * (len(stacks) + 2))]
    for work in works:
        cells = [cell(measured.samples[s, work]) if (s, work) in measured.samples else "" for s in stacks]
        lines.append(row(work, RESULTS[work], *cells))
    return lines


def shares_table(all_measured: list[Measured]) -> list[str]:
    heads = [f"{measured.np} ranks" for measured in all_measured]
    lines = [row("work", "share of", "wanted", *heads), row(*["---"] * (len(heads) + 3))]
    for wanted in WANTED:
        cells = []
        for measured in all_measured:
            ours, theirs = (wanted.stack, wanted.work), (wanted.rival, wanted.of)
            if ours not in measured.samples or theirs not in measured.samples:
                cells.append("")
                continue
            share = measured.share(*ours, *theirs)
            cells.append(verdict(f"{share:.2g}", wanted.share is None or share <= wanted.share))
        if any(cells):
            work = wanted.work if wanted.stack == OURS else f"{wanted.work}, fast path off"
            rival = wanted.rival + (" in buckets" if wanted.rival_work else "")
            limit = "report" if wanted.share is None else f"≤ {wanted.share:g}"
            lines.append(row(work, rival, limit, *cells))
    return lines


def verdict(value: str, met: bool) -> str:
    return value if met else f"**{value}** (short)"


def extras_table(all_measured: list[Measured]) -> list[str]:
    all_measured = [measured for measured in all_measured if measured.extras is not None]
    if not all_measured:
        return []
    lines = [
        row("Farandole alone", "wanted", *(f"{measured.np} ranks" for measured in all_measured)),
        row(*["---"] * (len(all_measured) + 2)),
    ]

    def add(what: str, limit: float | None, unit: str, values: list[float], of: int = 0) -> None:
        """Adds a row. The limit applies to the column of `of` ranks, or to all columns if `of` is 0."""
        met = [limit is None or of not in (0, each.np) or value <= limit for each, value in zip(all_measured, values)]
        cells = [verdict(f"{value:.3g}", good) for value, good in zip(values, met)]
        lines.append(row(what, "report" if limit is None else f"≤ {limit:g} {unit}", *cells))

    extras = [measured.extras for measured in all_measured if measured.extras is not None]
    if all(measured.blocks for measured in all_measured):
        what = "an asynchronous operation, its bytes' own time taken off, µs"
        quick, whole = zip(*(measured.overheads() for measured in all_measured))
        add(what, OVERHEAD_WANTED_US, "µs at 2 ranks", [statistics.median(each) * 1e6 for each in quick], of=2)
        counts = ", ".join(f"{len(few)} of {len(every)}" for few, every in zip(quick, whole))
        slow = f"the same over all blocks; at the machine's full speed were {counts}"
        add(slow, None, "µs", [statistics.median(each) * 1e6 for each in whole])
    add("of that the call that hands it in, µs", None, "µs", [extra.submit_seconds * 1e6 for extra in extras])
    private = [extra.private_kib / 1024 for extra in extras]
    shared = [extra.shared_kib / 1024 for extra in extras]
    add("memory added to a process by a 256 MiB allreduce, its own, MiB", None, "MiB", private)
    add("memory shared by all processes of the host, MiB", None, "MiB", shared)
    add("both together, MiB", MEMORY_WANTED_MIB, "MiB", [a + b for a, b in zip(private, shared)])
    add("idle: share of a core", IDLE_CORE_SHARE_WANTED, "", [extra.idle_cores for extra in extras])
    add("idle: wake-ups a second", IDLE_WAKEUPS_WANTED, "/s", [extra.idle_wakeups for extra in extras])
    add("init(), ms", INIT_WANTED_MS, "ms", [extra.init_seconds * 1e3 for extra in extras])
    return lines


def markdown(all_measured: list[Measured], rounds: int) -> str:
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    parts = [
        f"Measured {today} on {machine()}. {rounds} rounds, in each of which all libraries took turns; a cell is the",
        "median in ms ± half the interquartile range, then the processor time of all ranks together for one work.",
        "",
    ]
    for measured in all_measured:
        parts += [*times_table(measured), ""]
    parts += ["Our time as a share of the rival's in the same round (median):", "", *shares_table(all_measured), ""]
    parts += extras_table(all_measured)
    problems = [problem for measured in all_measured for problem in measured.problems]
    if problems:
        parts += ["", "What went wrong:", "", *(f"- {problem}" for problem in problems)]
    return "\n".join(parts) + "\n"


def write(command: str, text: str) -> None:
    """Replaces the text between the command's marks on the page."""
    begin = f"<!-- measured by tools/bench {command} -->"
    before, rest = PAGE.read_text().split(begin, 1)
    _, after = rest.split(END, 1)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n{END}{after}")
