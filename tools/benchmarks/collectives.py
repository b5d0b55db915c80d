"""Measures collectives of Farandole and its rivals. In each round the crews take turns, so that drift of the machine
affects all alike."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Optional

from benchmarks.crew import Crew, CrewFailed
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
WITHOUT_BOARD = "farandole without board"
FEWER = {
    # Works that are left out for a stack: buckets where the library fuses by itself, single tensors where it cannot.
    OURS: ["1000 × 1 KiB, buckets"],
    "horovod": ["1000 × 1 KiB, buckets"],
    "mpi4py": ["1000 × 1 KiB"],
}
ONLY = {WITHOUT_BOARD: ["4 B", "64 KiB"]}


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


def crew_of(stack: str, np: int, horovod_python: str) -> Crew:
    environment = {"FARANDOLE_FAST_PATH": "0"} if stack == WITHOUT_BOARD else {}
    return Crew(stack, np, horovod_python if stack == "horovod" else "", environment)


def started(stacks: Iterable[str], np: int, horovod_python: str, into: Measured) -> list[Crew]:
    crews = []
    for stack in stacks:
        try:
            crew = crew_of(stack, np, horovod_python)
            crew.join()
            crews.append(crew)
            still(crew, True)
        except CrewFailed as problem:
            into.note(problem)
    return crews


def still(crew: Crew, frozen: bool) -> None:
    # Horovod's thread polls all the time, so it is stopped while other stacks are measured.
    if crew.name == "horovod":
        crew.freeze(frozen)


def overhead_blocks(crew: Crew, count: int) -> list[Block]:
    answers = crew.do("overhead", many=ON_AND_ON, one=AT_ONCE, blocks=count)
    by_block = zip(*(answer["blocks"] for answer in answers))
    return [Block(*(max(values) for values in zip(*ranks))) for ranks in by_block]


def run_rounds(crews: list[Crew], works: list[Work], rounds: int, into: Measured) -> None:
    alive = list(crews)
    for number in range(rounds):
        for work in works:
            for crew in alive[number % len(alive) :] + alive[: number % len(alive)] if alive else []:
                if not does(crew.name, work):
                    continue
                try:
                    still(crew, False)
                    if number == 0 and not all(answer["good"] for answer in crew.do("check", work=work)):
                        raise CrewFailed(f"{crew.name} at {crew.np} ranks: {work.name}: the sum is wrong")
                    answers = crew.do("time", work=work)
                    still(crew, True)
                except CrewFailed as problem:
                    into.note(problem)
                    crew.kill()
                    alive = [other for other in alive if other is not crew]
                    continue
                wall = max(answer["wall"] for answer in answers)
                cpu = sum(answer["cpu"] for answer in answers)
                into.samples.setdefault((crew.name, work.name), []).append(Sample(wall, cpu))
        for crew in alive:
            if crew.name == OURS:
                try:
                    into.blocks += overhead_blocks(crew, 1 if works is SMOKE_WORKS else OVERHEAD_BLOCKS)
                except CrewFailed as problem:
                    into.note(problem)
        say(f"{into.np} ranks: round {number + 1} of {rounds}")
    for crew in alive:
        still(crew, False)
        crew.stop()


def measure_extras(np: int, idle_seconds: float) -> Extras:
    """Measures Farandole alone, in new processes."""
    extras = Extras()
    crew = Crew(OURS, np)
    try:
        extras.init_seconds = max(answer["seconds"] for answer in crew.join())
        idle = crew.do("idle", seconds=idle_seconds)
        extras.idle_cores = max(answer["cores"] for answer in idle)
        extras.idle_wakeups = max(answer["wakeups"] for answer in idle)
        extras.submit_seconds = max(a["seconds"] for a in crew.do("submit", work=Work("submit", SMALL, 20)))
    finally:
        crew.stop()
    largest = Work("256 MiB", (64 * MIB,), 1)
    ours, plain = Crew(OURS, np), Crew("nothing", np)
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
    stacks = [OURS, WITHOUT_BOARD, "gloo", "mpi4py"] + (["horovod"] if horovod_python else [])
    say(f"{np} ranks: starting {', '.join(stacks)}")
    crews = started(stacks, np, horovod_python, measured)
    run_rounds(crews, SMOKE_WORKS if smoke else WORKS, rounds, measured)
    try:
        measured.extras = measure_extras(np, 1.0 if smoke else 20.0)
    except CrewFailed as problem:
        measured.note(problem)
    return measured
