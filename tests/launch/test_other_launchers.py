"""Jobs that mpirun and srun start: each process finds its job without MPI, or init() fails; none trains alone.

Debian has Open MPI 4.1. `tools/setup --launch` installs Open MPI 5, MPICH, Intel MPI and Slurm in .setup/launchers.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
from ctypes.util import find_library
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import pytest
import slurm_cluster

DEADLINE_S = 240.0
AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


class Launcher(NamedTuple):
    program: str
    options: List[str]
    environment: Dict[str, str]
    variables: str
    """How init() names the launcher's variables."""
    count: str = "-np"
    """The option with the number of processes."""


def installed(name: str) -> Path:
    return slurm_cluster.INSTALLED / name


LAUNCHERS = {
    "open-mpi-4": Launcher(
        "/usr/bin/mpirun", ["--oversubscribe"], AS_ROOT, "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE"
    ),
    "open-mpi-5": Launcher(
        str(installed("openmpi") / "bin" / "mpirun"),
        ["--oversubscribe"],
        AS_ROOT,
        "OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE",
    ),
    "mpich": Launcher(str(installed("mpich") / "bin" / "mpirun"), [], {}, "PMI_RANK, PMI_SIZE"),
    "intel-mpi": Launcher(
        str(installed("impi-rt") / "bin" / "mpirun"),
        [],
        {
            "I_MPI_ROOT": str(installed("impi-rt")),
            "I_MPI_HYDRA_BOOTSTRAP": "fork",
            "PATH": f"{installed('impi-rt') / 'bin'}:{os.environ['PATH']}",
        },
        "PMI_RANK, PMI_SIZE",
    ),
}


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dict[str, str]]:
    """A cluster of one node in this test's folder; the environment in which srun reaches it."""
    if reason := slurm_cluster.why_not():
        pytest.skip(reason)
    node = slurm_cluster.Node("n1", socket.gethostname().split(".")[0], "127.0.0.1")
    folder = tmp_path_factory.mktemp("slurm")
    with slurm_cluster.slurm_cluster(folder, [node], os.cpu_count() or 1, f"{folder}/spool") as environment:
        yield environment


def srun(slurm: Dict[str, str], kind: str) -> Launcher:
    options = ["--overlap", "--overcommit", *([f"--mpi={kind}"] if kind else [])]
    return Launcher(str(installed("slurm") / "usr" / "bin" / "srun"), options, slurm, "SLURM_PROCID", "-n")


def standard(*names: str) -> List[Any]:
    """The launchers as parameters; those without a name here belong to `tools/test all`."""
    return [pytest.param(name, marks=[] if name in names else pytest.mark.slow) for name in LAUNCHERS]


@pytest.fixture(params=standard("open-mpi-4"))
def launcher(request: pytest.FixtureRequest) -> Launcher:
    found = LAUNCHERS[request.param]
    if shutil.which(found.program) is None:
        pytest.skip(f"{found.program} is not installed; tools/setup --launch installs it")
    return found


PRELUDE = """
import os, sys
import numpy as np
import horovod.numpy as hvd
folder = sys.argv[1]

def say(*words):
    # Each rank writes into a file of its own: mpirun mixes the output of ranks that print at the same time.
    with open(f"{folder}/{os.getpid()}.out", "a") as file:
        print(*words, file=file)

def has_loaded_mpi():
    with open("/proc/self/maps") as maps:
        return any("/libmpi." in line or "libfarandole_mpi" in line for line in maps)
"""

SUMS = """
hvd.init()
total = hvd.allreduce(np.full(70000, hvd.rank() + 1.0), op=hvd.Sum)
place = f"rank {hvd.rank()} of {hvd.size()} local {hvd.local_rank()} {hvd.local_size()}"
say(place, "sum", total[-1], has_loaded_mpi())
"""

TWICE = """
for turn in range(2):
    hvd.init()
    assert hvd.allreduce(np.ones(3), op=hvd.Sum)[0] == hvd.size()
    say("turn", turn, "rank", hvd.rank(), "of", hvd.size())
    hvd.shutdown()
"""

DIES = """
import signal
hvd.init()
hvd.barrier()
if hvd.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
hvd.allreduce(np.ones(3))
say("went on")
"""

ENDS_LATER = """
import subprocess
hvd.init()
rank = hvd.rank()
hvd.shutdown()
if rank == 0:
    os.open(f"{folder}/pipe", os.O_WRONLY)  # the end of the process closes it
    sys.exit(0)
with open(f"{folder}/pipe") as pipe:
    assert pipe.read() == ""
subprocess.run([sys.executable, "-c", "pass"], check=True)
say("rank 1 ended in order")
"""

FAILS = """
try:
    hvd.init()
except ValueError as problem:
    say("REFUSED", problem)
else:
    say("STARTED", hvd.rank(), "of", hvd.size())
"""


def environment(launcher: Launcher, **settings: str) -> Dict[str, str]:
    prefixes = ("HOROVOD_", "PYTEST_", "FARANDOLE_", "OMPI_", "PMI", "PRTE_", "SLURM_", "I_MPI_", "HYDRA_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(prefixes)}
    return {**kept, "OMP_NUM_THREADS": "1", **launcher.environment, **settings}


def run(launcher: Launcher, ranks: int, folder: Path, script: str, *options: str, **settings: str) -> Ended:
    path = folder / "script.py"
    path.write_text(textwrap.dedent(PRELUDE + script))
    command = [
        launcher.program,
        *launcher.options,
        launcher.count,
        str(ranks),
        *options,
        sys.executable,
        str(path),
        str(folder),
    ]
    with subprocess.Popen(
        command,
        env=environment(launcher, **settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            printed, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            pytest.fail(f"{' '.join(command)} did not end within {DEADLINE_S} s:\n{printed}")
    lines = sorted(line for each in folder.glob("*.out") for line in each.read_text().splitlines())
    return Ended(process.returncode, lines, printed)


class Ended(NamedTuple):
    code: int
    lines: List[str]
    """What the ranks said, sorted."""
    printed: str


@pytest.mark.parametrize("launcher", standard("open-mpi-4", "mpich"), indirect=True)
def test_the_processes_of_mpirun_form_one_job_and_load_no_mpi(launcher: Launcher, tmp_path: Path) -> None:
    job = run(launcher, 3, tmp_path, SUMS)
    assert job.code == 0, job.printed
    assert job.lines == [f"rank {rank} of 3 local {rank} 3 sum 6.0 False" for rank in range(3)], job.printed


def test_init_works_again_after_shutdown(launcher: Launcher, tmp_path: Path) -> None:
    job = run(launcher, 2, tmp_path, TWICE)
    assert job.code == 0, job.printed
    assert job.lines == [f"turn {turn} rank {rank} of 2" for turn in range(2) for rank in range(2)], job.printed


def test_ranks_on_two_hosts_meet_at_an_address_of_rank_0(launcher: Launcher, tmp_path: Path) -> None:
    rank = "os.environ.get('PMI_RANK', os.environ.get('OMPI_COMM_WORLD_RANK'))"
    job = run(launcher, 2, tmp_path, f"os.environ['FARANDOLE_HOST_ID'] = 'host' + {rank}\n" + SUMS)
    if job.code != 0 and "no interface" in job.printed:
        pytest.skip("this machine has no network interface besides the loopback interface")
    assert job.code == 0, job.printed
    assert job.lines == [f"rank {rank} of 2 local 0 1 sum 3.0 False" for rank in range(2)], job.printed


def test_a_rank_that_ends_first_does_not_end_the_others(launcher: Launcher, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    job = run(launcher, 2, tmp_path, ENDS_LATER)
    assert job.code == 0, job.printed
    assert job.lines == ["rank 1 ended in order"], job.printed


def test_a_killed_rank_fails_the_job(launcher: Launcher, tmp_path: Path) -> None:
    job = run(launcher, 2, tmp_path, DIES)
    assert job.code != 0, job.printed
    assert "went on" not in job.lines, job.printed


def test_horovod_size_1_makes_every_process_a_job_of_its_own(launcher: Launcher, tmp_path: Path) -> None:
    job = run(launcher, 2, tmp_path, SUMS, HOROVOD_SIZE="1")
    assert job.code == 0, job.printed
    assert job.lines == ["rank 0 of 1 local 0 1 sum 1.0 False"] * 2, job.printed


def test_a_job_of_one_process_needs_no_process_manager(launcher: Launcher, tmp_path: Path) -> None:
    job = run(launcher, 1, tmp_path, SUMS)
    assert job.code == 0, job.printed
    assert job.lines == ["rank 0 of 1 local 0 1 sum 1.0 False"], job.printed


def test_without_the_process_manager_init_fails_with_both_sizes_and_the_remedy(
    launcher: Launcher, tmp_path: Path
) -> None:
    hidden = "for name in ('PMI_FD', 'PMIX_NAMESPACE'):\n    os.environ.pop(name, None)\n"
    job = run(launcher, 2, tmp_path, hidden + FAILS)
    assert len(job.lines) == 2, job.printed
    for line in job.lines:
        assert re.match(r"REFUSED .*this process is rank [01] of 2, but Farandole found .*rank 0 of 1", line), line
        assert launcher.variables in line and "HOROVOD_SIZE=1" in line and "mpirun -np N" in line, line


@pytest.mark.slow
def test_the_mpi_library_of_another_mpirun_is_refused_with_both_sizes(tmp_path: Path) -> None:
    """Farandole uses the library of Open MPI, to which each process of MPICH's mpirun is alone."""
    if shutil.which(LAUNCHERS["mpich"].program) is None:
        pytest.skip("MPICH is not installed; tools/setup --launch installs it")
    job = run(LAUNCHERS["mpich"], 2, tmp_path, FAILS, FARANDOLE_CPU_PATH="mpi")
    assert len(job.lines) == 2, job.printed
    for line in job.lines:
        assert re.match(r"REFUSED .*this process is rank [01] of 2, but .*rank 0 of 1", line), line


@pytest.mark.slow
def test_init_fails_when_another_rank_never_calls_it(launcher: Launcher, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    never_calls_it = """
if os.environ.get("PMI_RANK", os.environ.get("OMPI_COMM_WORLD_RANK")) == "1":
    open(f"{folder}/pipe").close()  # waits until rank 0 opens it
    sys.exit(0)
"""
    script = never_calls_it + FAILS + "open(f'{folder}/pipe', 'w').close()\n"
    job = run(launcher, 2, tmp_path, script, HOROVOD_START_TIMEOUT="10")
    assert len(job.lines) == 1, job.printed
    assert "not all processes of that job called init() within the start timeout" in job.lines[0], job.lines
    assert "HOROVOD_START_TIMEOUT" in job.lines[0] and "rank 0 of 2" in job.lines[0], job.lines


@pytest.mark.slow
def test_a_secret_of_rank_0_alone_is_refused_by_the_others(launcher: Launcher, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("0f1e2d3c4b5a69788796a5b4c3d2e1f0")
    rank = "os.environ.get('PMI_RANK', os.environ.get('OMPI_COMM_WORLD_RANK'))"
    only_rank_0 = f"if {rank} == '0':\n    os.environ['FARANDOLE_SECRET_FILE'] = {str(secret)!r}\n"
    job = run(launcher, 2, tmp_path, only_rank_0 + FAILS, HOROVOD_START_TIMEOUT="20")
    assert any("rank 0 was given a secret, and this process was not" in line for line in job.lines), job.printed
    assert not any(line.startswith("STARTED") for line in job.lines), job.lines


def test_a_secret_that_all_ranks_have_is_used(launcher: Launcher, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.touch(mode=0o600)
    secret.write_text("0f1e2d3c4b5a69788796a5b4c3d2e1f0")
    job = run(launcher, 2, tmp_path, SUMS, FARANDOLE_SECRET_FILE=str(secret))
    assert job.code == 0, job.printed
    assert len(job.lines) == 2 and all("of 2" in line for line in job.lines), job.lines


def test_mpi_threads_are_supported_beside_a_job_that_does_not_use_mpi(launcher: Launcher, tmp_path: Path) -> None:
    script = """
    hvd.init()
    assert hvd.mpi_built() == hvd.mpi_enabled()
    if hvd.mpi_built():
        say("supported", hvd.mpi_threads_supported(), has_loaded_mpi())
    else:
        say("no MPI")
    """
    job = run(launcher, 2, tmp_path, textwrap.dedent(script))
    assert job.code == 0, job.printed
    assert job.lines in (["supported True False"] * 2, ["no MPI"] * 2), job.printed
    disabled = tmp_path / "disabled"
    disabled.mkdir()
    job = run(launcher, 2, disabled, textwrap.dedent(script), HOROVOD_MPI_THREADS_DISABLE="1")
    assert job.lines in (["supported False False"] * 2, ["no MPI"] * 2), job.printed


@pytest.mark.parametrize("name", ["open-mpi-4", pytest.param("mpich", marks=pytest.mark.slow)])
def test_mpi_can_be_initialized_after_init(name: str, tmp_path: Path) -> None:
    found = LAUNCHERS[name]
    libraries = {"open-mpi-4": "libmpi.so.40", "mpich": str(installed("mpich") / "lib" / "libmpi.so.12")}
    if shutil.which(found.program) is None:
        pytest.skip(f"{found.program} is not installed; tools/setup --launch installs it")
    script = f"""
    import ctypes
    hvd.init()
    mpi = ctypes.CDLL({libraries[name]!r}, ctypes.RTLD_GLOBAL)
    assert mpi.MPI_Init(None, None) == 0
    assert hvd.allreduce(np.ones(3), op=hvd.Sum)[0] == 2
    hvd.shutdown()
    assert mpi.MPI_Finalize() == 0
    say("both worked")
    """
    job = run(found, 2, tmp_path, textwrap.dedent(script))
    assert job.code == 0, job.printed
    assert job.lines == ["both worked"] * 2, job.printed


@pytest.mark.parametrize("kind", ["pmi2", "pmix"])
def test_the_processes_of_a_step_of_srun_form_one_job_and_load_no_mpi(
    slurm: Dict[str, str], kind: str, tmp_path: Path
) -> None:
    if kind == "pmix" and not find_library("pmix"):
        pytest.skip("libpmix is not installed")
    job = run(srun(slurm, kind), 3, tmp_path, SUMS)
    assert job.code == 0, job.printed
    assert job.lines == [f"rank {rank} of 3 local {rank} 3 sum 6.0 False" for rank in range(3)], job.printed


def test_init_works_again_after_shutdown_in_a_step_of_srun(slurm: Dict[str, str], tmp_path: Path) -> None:
    job = run(srun(slurm, "pmi2"), 2, tmp_path, TWICE)
    assert job.code == 0, job.printed
    assert job.lines == [f"turn {turn} rank {rank} of 2" for turn in range(2) for rank in range(2)], job.printed


@pytest.mark.parametrize("kind", ["", "none"])
def test_plain_srun_is_refused_with_both_sizes_and_the_option_that_helps(
    slurm: Dict[str, str], kind: str, tmp_path: Path
) -> None:
    job = run(srun(slurm, kind), 2, tmp_path, FAILS)
    assert len(job.lines) == 2, job.printed
    for line in job.lines:
        assert re.match(r"REFUSED .*\(SLURM_PROCID, .*this process is rank [01] of 2, .* rank 0 of 1", line), line
        assert "srun --mpi=pmi2" in line and "HOROVOD_SIZE=1" in line, line


def test_horovod_size_1_makes_every_task_of_srun_a_job_of_its_own(slurm: Dict[str, str], tmp_path: Path) -> None:
    job = run(srun(slurm, ""), 2, tmp_path, SUMS, HOROVOD_SIZE="1")
    assert job.code == 0, job.printed
    assert job.lines == ["rank 0 of 1 local 0 1 sum 1.0 False"] * 2, job.printed
