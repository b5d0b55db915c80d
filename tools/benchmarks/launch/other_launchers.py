"""The launchers of MPI libraries that jobs are compared with, as `tools/setup --launch` installs them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from benchmarks.launch.measurement import Failed
from benchmarks.worker_group import ROOT

MPICH = ROOT / ".setup" / "launchers" / "mpich"
HYDRA = "Hydra (MPICH)"
OPEN_MPI = "mpirun (Open MPI)"
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Launcher(NamedTuple):
    command: list[str]
    hosts_option: str

    def run(self, processes: int, command: list[str], hosts: str = "") -> list[str]:
        """The command line of a job; `hosts` as in "a:2,b:2"."""
        placed = [self.hosts_option, hosts] if hosts else []
        return [*self.command, "-np", str(processes), *placed, *command]


def hydra() -> Launcher:
    program = MPICH / "bin" / "mpiexec.hydra"
    if not program.exists():
        raise Failed(f"{program} is not there; tools/setup --launch installs it")
    return Launcher([str(program)], "-hosts")


def open_mpi() -> Launcher:
    program = shutil.which("mpirun")
    if program is None:
        raise Failed("mpirun of Open MPI (Debian package openmpi-bin) is not on PATH")
    return Launcher([program, "--oversubscribe"], "-H")


def compile_with_mpich(source: Path, program: Path) -> list[str]:
    """The command that compiles a program of C with MPICH."""
    return [str(MPICH / "bin" / "mpicc"), "-O2", str(source), "-o", str(program)]
