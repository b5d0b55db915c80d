"""Jobs on this host."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Iterator

from namespaces import FARANDOLE

from benchmarks.launch.measurement import DEADLINE_S, OURS, Failed, Options, Row, Target, seconds_of
from benchmarks.launch.other_launchers import AS_ROOT, HYDRA, OPEN_MPI, hydra, open_mpi
from benchmarks.worker_group import ROOT

RANKS = 4
# Debian's mpirun can hang with many processes, so it gets less time than the others.
HANGING_S = 20.0

IMPORTS = "import {module}"
INITIALISES = "import {module} as hvd; hvd.init()"
SIMULATION = ROOT / "build" / "tests" / "world" / "world_test"
SIMULATED_LAUNCH = r"a launch of 4\,096 workers on 512 hosts starts and ends"  # a comma separates names of tests
INTERPRETERS = "interpreters that only import"
HOROVOD = "Horovod"


@contextlib.contextmanager
def true_on_4(options: Options, folder: Path) -> Iterator[Row]:
    yield _true(RANKS, [Target(OPEN_MPI, 0.5), Target(HYDRA)])


@contextlib.contextmanager
def true_on_64(options: Options, folder: Path) -> Iterator[Row]:
    yield _true(8 if options.smoke else 64, [Target(HYDRA, 1.0), Target(OPEN_MPI)])


def _true(processes: int, targets: list[Target]) -> Row:
    return Row(
        f"{processes} × `true` on this host",
        {
            OURS: partial(seconds_of, [FARANDOLE, "run", "-np", str(processes), "true"]),
            OPEN_MPI: partial(seconds_of, open_mpi().run(processes, ["true"]), settings=AS_ROOT, deadline_s=HANGING_S),
            HYDRA: partial(seconds_of, hydra().run(processes, ["true"])),
        },
        targets,
    )


@contextlib.contextmanager
def python_that_initialises(options: Options, folder: Path) -> Iterator[Row]:
    """Beside Horovod, the workers import PyTorch, which it needs."""
    module = "horovod.torch" if options.horovod_python else "farandole.numpy"
    only_imports = [sys.executable, "-c", IMPORTS.format(module=module)]
    initialises = ["-c", INITIALISES.format(module=module)]
    launch = ["run", "-np", str(RANKS)]
    contenders = {
        OURS: partial(seconds_of, [FARANDOLE, *launch, sys.executable, *initialises]),
        INTERPRETERS: partial(seconds_of, *[only_imports] * RANKS),
    }
    targets = [Target(INTERPRETERS, 1.1, allowance_ms=50)]
    if options.horovod_python:
        python = options.horovod_python
        command = [python, "-m", "horovod.runner.launch", "-np", str(RANKS), python, *initialises]
        contenders[HOROVOD] = partial(seconds_of, command)
        targets.append(Target(HOROVOD, 0.5))
    yield Row(f"{RANKS} × Python that only initialises (`{module}`) and exits", contenders, targets)


@contextlib.contextmanager
def simulated_hosts(options: Options, folder: Path) -> Iterator[Row]:
    """The launcher and all agents run in one thread of the simulation, so that the time is more than the launcher's."""
    yield Row(
        "512 simulated hosts, 4,096 workers: processor time of the launcher and the agents",
        {OURS: _processor_seconds_of_simulation},
        limit_ms=1000,
    )


def _processor_seconds_of_simulation() -> float:
    if not SIMULATION.exists():
        raise Failed(f"{SIMULATION} is not there; tools/setup builds it")
    before = os.times()
    done = subprocess.run(
        [SIMULATION, SIMULATED_LAUNCH], capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    after = os.times()
    if done.returncode != 0 or "1 test case" not in done.stdout:
        raise Failed(f"the simulation failed: {done.stdout}")
    return after.children_user + after.children_system - before.children_user - before.children_system
