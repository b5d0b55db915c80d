"""Jobs on this host."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import Iterator

from namespaces import FARANDOLE

from benchmarks.launch.measurement import OURS, Options, Row, Target, seconds_of
from benchmarks.launch.other_launchers import AS_ROOT, HYDRA, OPEN_MPI, hydra, open_mpi

RANKS = 4
# Debian's mpirun can hang with many processes, so it gets less time than the others.
HANGING_S = 20.0

IMPORTS = "import {module}"
INITIALISES = "import {module} as hvd; hvd.init()"
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
