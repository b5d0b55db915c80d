"""Measures three things in each framework: the speed of training a small residual network on two workers, compared to
the framework's own distribution; the cost of ``init()`` for a process that does not communicate; and the cost of an
asynchronous operation."""

from __future__ import annotations

import json
import os
import statistics
import sys
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple, Optional

from namespaces.ports import free_ports

from benchmarks.report import machine, row, verdict
from benchmarks.trainers import Way
from benchmarks.worker_group import ROOT, WorkerGroup, WorkersFailed

RANKS = 2
BATCH = 16  # images a step and worker
INIT_WANTED = 0.99  # of the speed of a process that has not called init()


class Overhead(NamedTuple):
    """The maximum cost of an operation, in µs."""

    kind: str
    wanted_us: float


class Framework(NamedTuple):
    """A framework: its environment, the name of its own distribution, and the targets for its overheads."""

    name: str
    environment: str
    own: str
    overheads: tuple[Overhead, ...]


FRAMEWORKS = (
    Framework("torch", ".venv", "DistributedDataParallel over Gloo", (Overhead("", 3.0),)),
    Framework(
        "tensorflow",
        ".setup/venvs/tensorflow",
        "MultiWorkerMirroredStrategy",
        (Overhead("eager", 100.0), Overhead("graph", 15.0)),
    ),
    Framework("mxnet", ".setup/venvs/mxnet", "", (Overhead("", 20.0),)),
)


class TrainingWorkers(WorkerGroup):
    """The processes of one contestant."""

    def __init__(self, framework: Framework, way: Way, np: int, python: str) -> None:
        self.way = way
        size = "small" if way.small else "full"
        name = f"{way.name} {framework.name} {way.batch} {way.threads} {size}"
        super().__init__(name, np, python, {"OMP_NUM_THREADS": str(way.threads)})

    def launch(self, worker: list[str]) -> None:
        worker = [worker[0], "-m", "benchmarks.training_worker", *worker[3:]]
        if self.way.name in ("farandole", "horovod"):
            super().launch(worker)
            return
        # One process needs no launcher. Workers of a framework's own distribution find each other through its
        # environment variables.
        ports = free_ports(self.np)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0]), "GLOO_SOCKET_IFNAME": "lo"}
        for rank in range(self.np):
            more = {**shared, "WORLD_SIZE": str(self.np), "RANK": str(rank)} if self.np > 1 else {}
            task = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
            self.spawn(worker, {**more, "TF_CONFIG": json.dumps(task)} if self.np > 1 else more)


@dataclass
class Measured:
    """The results of one framework.

    - ``speeds``: steps per second by way, one entry for each round
    - ``overheads``: seconds per operation by kind
    - ``problems``: error messages
    """

    framework: Framework
    speeds: dict[str, list[float]] = field(default_factory=dict)
    overheads: dict[str, list[float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def ratio(self, way: str, rival: str) -> Optional[float]:
        """Median over the rounds of one way's speed divided by the rival's in the same round."""
        if way not in self.speeds or rival not in self.speeds:
            return None
        pairs = zip(self.speeds[way], self.speeds[rival])
        return statistics.median(ours / theirs for ours, theirs in pairs)


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def _ways(framework: Framework, horovod_python: str, small: bool) -> list[tuple[Way, int]]:
    cores = len(os.sched_getaffinity(0))
    batch = 2 if small else BATCH
    ways = [(Way("farandole", batch, 1, small), RANKS)]
    if framework.own:
        ways.append((Way("own", batch, 1, small), RANKS))
    if horovod_python:
        ways.append((Way("horovod", batch, 1, small), RANKS))
    if small and framework.own:
        return ways
    # One process does the work of all workers, on all cores.
    ways.append((Way("plain", batch * RANKS, cores, small), 1))
    ways.append((Way("joined", batch * RANKS, cores, small), 1))
    return ways


def measure_one(framework: Framework, rounds: int, horovod_python: str, small: bool) -> Measured:
    """Measures one framework's contestants in turn; the others sleep in a read meanwhile."""
    measured = Measured(framework)
    python = str(ROOT / framework.environment / "bin" / "python")
    groups: list[TrainingWorkers] = []
    for way, np in _ways(framework, horovod_python, small):
        say(f"{framework.name}: {way.name}")
        try:
            groups.append(TrainingWorkers(framework, way, np, horovod_python if way.name == "horovod" else python))
            groups[-1].join()
        except WorkersFailed as problem:
            say(str(problem))
            measured.problems.append(str(problem))
            groups = [each for each in groups if each.way is not way]
    try:
        _take_turns(groups, rounds, 1 if small else 5, measured)
        for kind, _ in framework.overheads:
            ours = next((each for each in groups if each.way.name == "farandole"), None)
            if ours is not None:
                blocks = ours.do("overhead", kind=kind, blocks=2 if small else 20)
                measured.overheads[kind] = [max(each) for each in zip(*(answer["seconds"] for answer in blocks))]
    except WorkersFailed as problem:
        say(str(problem))
        measured.problems.append(str(problem))
    finally:
        for group in groups:
            group.stop()
    return measured


def _take_turns(groups: list[TrainingWorkers], rounds: int, count: int, into: Measured) -> None:
    for group in groups:
        group.do("steps", count=2 * count)  # warm-up: graphs, negotiated names, touched pages
    for number in range(rounds):
        turn = groups[number % len(groups) :] + groups[: number % len(groups)]
        for group in turn:
            answers = group.do("steps", count=count)
            seconds = max(answer["seconds"] for answer in answers)
            if any(answer["loss"] != answer["loss"] for answer in answers):
                raise WorkersFailed(f"{group.name}: the loss is no number")
            into.speeds.setdefault(group.way.name, []).append(count / seconds)


def measure(rounds: int, horovod_python: str = "", small: bool = False, only: Any = None) -> list[Measured]:
    """Measures every framework that has an environment here, one after the other."""
    all_measured = []
    for framework in FRAMEWORKS:
        if only and framework.name not in only:
            continue
        if not (ROOT / framework.environment / "bin" / "python").exists():
            say(f"{framework.name} left out: there is no {framework.environment}; tools/setup --frameworks makes it")
            continue
        all_measured.append(measure_one(framework, rounds, horovod_python, small))
    return all_measured


# ---- for people ----


def _speed(values: Optional[list[float]]) -> str:
    if not values:
        return ""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return f"{middle:.3g} ± {(high - low) / 2:.2g}"


def _ratio(value: Optional[float], wanted: float) -> str:
    return "" if value is None else verdict(f"{value:.3g}", value >= wanted)


def markdown(all_measured: list[Measured], rounds: int) -> str:
    """Three tables: speed, cost of ``init()``, and cost of an operation."""
    with_horovod = any("horovod" in each.speeds for each in all_measured)
    heads = ["steps/s on 2 workers", "Farandole", "its own distribution", *(["Horovod"] if with_horovod else [])]
    heads += ["one process, all cores, the whole batch", "of the best rival, wanted ≥ 1"]
    lines = [row(*heads), row(*["---"] * len(heads))]
    for each in all_measured:
        rivals: list[str] = [way for way in ("own", "horovod") if way in each.speeds] or ["plain"]
        best = max((way for way in rivals if way in each.speeds), key=lambda way: statistics.median(each.speeds[way]))
        own = f"{_speed(each.speeds.get('own'))} ({each.framework.own})" if each.framework.own else "none"
        cells = [each.framework.name, _speed(each.speeds.get("farandole")), own]
        cells += [_speed(each.speeds.get("horovod"))] if with_horovod else []
        cells += [_speed(each.speeds.get("plain")), _ratio(each.ratio("farandole", best), 1.0)]
        lines.append(row(*cells))
    lines += ["", row("one process, steps/s", "without", "after init()", f"share, wanted ≥ {INIT_WANTED:g}")]
    lines.append(row(*["---"] * 4))
    for each in all_measured:
        plain, joined = _speed(each.speeds.get("plain")), _speed(each.speeds.get("joined"))
        if plain and joined:
            lines.append(row(each.framework.name, plain, joined, _ratio(each.ratio("joined", "plain"), INIT_WANTED)))
    lines += ["", row("an asynchronous operation, its bytes' own time taken off, µs", "wanted", "measured")]
    lines.append(row(*["---"] * 3))
    for each in all_measured:
        for kind, wanted in each.framework.overheads:
            if kind in each.overheads:
                cost = statistics.median(each.overheads[kind]) * 1e6
                name = f"{each.framework.name} {kind}".strip()
                lines.append(row(name, f"≤ {wanted:g}", verdict(f"{cost:.3g}", cost <= wanted)))
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    first = (
        f"Measured {today} on {machine()}; {rounds} rounds, in each of which all took turns; medians ± half the "
        "interquartile range, shares are medians over the rounds."
    )
    problems = [problem for each in all_measured for problem in each.problems]
    ended = ["", "What went wrong:", "", *(f"- {problem}" for problem in problems)] if problems else []
    return "\n".join([first, "", *lines, *ended]) + "\n"
