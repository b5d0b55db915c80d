"""Measures collectives of Farandole and its rivals. In each round the groups take turns, so that drift of the machine
affects all alike."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional

from benchmarks.worker_group import WorkerGroup, WorkersFailed
from benchmarks.works import (
    AT_ONCE,
    FULL_SPEED,
    MIB,
    ON_AND_ON,
    OVERHEAD_BLOCKS,
    SMALL,
    SMOKE_WORKS,
    WORKS,
    Work,
)

OURS = "farandole"
WITHOUT_FAST_PATH = "farandole without fast path"
FEWER = {
    # Works that are left out for a stack: buckets where the library fuses by itself, single tensors where it cannot.
    OURS: ["1000 × 1 KiB, buckets"],
    "horovod": ["1000 × 1 KiB, buckets"],
    "mpi4py": ["1000 × 1 KiB"],
}
ONLY = {WITHOUT_FAST_PATH: ["4 B", "64 KiB"]}


@dataclass(frozen=True)
class Sample:
    """One block of a work: wall-clock seconds, and processor seconds of all ranks together."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Block:
    """Seconds of a thousand operations, of one operation on as many bytes, and of the yardstick; each of the slowest
    rank."""

    many: float
    one: float
    yardstick: float

    @property
    def overhead(self) -> float:
        return (self.many - self.one) / len(ON_AND_ON.elements)


@dataclass
class Extras:
    """Measurements of Farandole alone: seconds, KiB and shares of a core, of the worst rank where ranks differ."""

    init_seconds: float = 0.0
    submit_seconds: float = 0.0
    idle_cores: float = 0.0
    idle_wakeups: float = 0.0
    private_kib: float = 0.0
    shared_kib: float = 0.0


@dataclass
class Measured:
    """All measurements with one number of ranks."""

    np: int
    samples: dict[tuple[str, str], list[Sample]] = field(default_factory=dict)  # by (stack, work), one a round
    blocks: list[Block] = field(default_factory=list)
    extras: Optional[Extras] = None  # none where it could not be measured
    problems: list[str] = field(default_factory=list)

    def note(self, problem: Exception) -> None:
        say(str(problem))
        self.problems.append(str(problem))

    def share(self, stack: str, work: str, rival: str, rival_work: str) -> float:
        """Median over the rounds of our time divided by the rival's time in the same round."""
        pairs = zip(self.samples[stack, work], self.samples[rival, rival_work])
        return statistics.median(ours.wall / theirs.wall for ours, theirs in pairs)

    def overheads(self) -> tuple[list[float], list[float]]:
        """Seconds of overhead per operation: in the blocks during which the machine ran at full speed, and in all.

        Full speed is judged by the fastest yardstick with the same number of ranks, because yardsticks of more ranks
        than cores slow each other down.
        """
        quickest = min(each.yardstick for each in self.blocks)
        quick = [each.overhead for each in self.blocks if each.yardstick <= FULL_SPEED * quickest]
        return quick, [each.overhead for each in self.blocks]


def say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


def does(stack: str, work: Work) -> bool:
    return work.name in ONLY.get(stack, [work.name]) and work.name not in FEWER.get(stack, [])


def workers_of(stack: str, np: int, horovod_python: str) -> WorkerGroup:
    environment = {"FARANDOLE_FAST_PATH": "0"} if stack == WITHOUT_FAST_PATH else {}
    return WorkerGroup(stack, np, horovod_python if stack == "horovod" else "", environment)


def started(stacks: Iterable[str], np: int, horovod_python: str, into: Measured) -> list[WorkerGroup]:
    groups = []
    for stack in stacks:
        try:
            group = workers_of(stack, np, horovod_python)
            group.join()
            groups.append(group)
            still(group, True)
        except WorkersFailed as problem:
            into.note(problem)
    return groups


def still(group: WorkerGroup, frozen: bool) -> None:
    # Horovod's thread polls all the time, so it is stopped while other stacks are measured.
    if group.name == "horovod":
        group.freeze(frozen)


def overhead_blocks(group: WorkerGroup, count: int) -> list[Block]:
    answers = group.do("overhead", many=ON_AND_ON, one=AT_ONCE, blocks=count)
    by_block = zip(*(answer["blocks"] for answer in answers))
    return [Block(*(max(values) for values in zip(*ranks))) for ranks in by_block]


def run_rounds(groups: list[WorkerGroup], works: list[Work], rounds: int, into: Measured) -> None:
    alive = list(groups)
    for number in range(rounds):
        for work in works:
            for group in alive[number % len(alive) :] + alive[: number % len(alive)] if alive else []:
                if not does(group.name, work):
                    continue
                try:
                    still(group, False)
                    if number == 0 and not all(answer["good"] for answer in group.do("check", work=work)):
                        raise WorkersFailed(f"{group.name} at {group.np} ranks: {work.name}: the sum is wrong")
                    answers = group.do("time", work=work)
                    still(group, True)
                except WorkersFailed as problem:
                    into.note(problem)
                    group.kill()
                    alive = [other for other in alive if other is not group]
                    continue
                wall = max(answer["wall"] for answer in answers)
                cpu = sum(answer["cpu"] for answer in answers)
                into.samples.setdefault((group.name, work.name), []).append(Sample(wall, cpu))
        for group in alive:
            if group.name == OURS:
                try:
                    into.blocks += overhead_blocks(group, 1 if works is SMOKE_WORKS else OVERHEAD_BLOCKS)
                except WorkersFailed as problem:
                    into.note(problem)
        say(f"{into.np} ranks: round {number + 1} of {rounds}")
    for group in alive:
        still(group, False)
        group.stop()


def measure_extras(np: int, idle_seconds: float) -> Extras:
    """Measures Farandole alone, in new processes."""
    extras = Extras()
    group = WorkerGroup(OURS, np)
    try:
        extras.init_seconds = max(answer["seconds"] for answer in group.join())
        idle = group.do("idle", seconds=idle_seconds)
        extras.idle_cores = max(answer["cores"] for answer in idle)
        extras.idle_wakeups = max(answer["wakeups"] for answer in idle)
        extras.submit_seconds = max(a["seconds"] for a in group.do("submit", work=Work("submit", SMALL, 20)))
    finally:
        group.stop()
    largest = Work("256 MiB", (64 * MIB,), 1)
    ours, plain = WorkerGroup(OURS, np), WorkerGroup("nothing", np)
    try:
        ours.join()
        with_us, without = ours.do("memory", work=largest), plain.do("memory", work=largest)
        before = statistics.mean(answer["VmHWM"] - answer["RssShmem"] for answer in without)
        extras.private_kib = max(answer["VmHWM"] - answer["RssShmem"] for answer in with_us) - before
        extras.shared_kib = sum(answer["shared"] for answer in with_us)
    finally:
        ours.stop()
        plain.stop()
    return extras


def measure(np: int, rounds: int, horovod_python: str, smoke: bool) -> Measured:
    measured = Measured(np)
    stacks = [OURS, WITHOUT_FAST_PATH, "gloo", "mpi4py"] + (["horovod"] if horovod_python else [])
    say(f"{np} ranks: starting {', '.join(stacks)}")
    groups = started(stacks, np, horovod_python, measured)
    run_rounds(groups, SMOKE_WORKS if smoke else WORKS, rounds, measured)
    try:
        measured.extras = measure_extras(np, 1.0 if smoke else 20.0)
    except WorkersFailed as problem:
        measured.note(problem)
    return measured
