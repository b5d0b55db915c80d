"""`horovodrun --mpi`: mpirun starts the workers, on two hosts, and they find their job by themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple

import pytest
import slurm_cluster
from farandole.runner import mpi_run, program
from farandole.runner.common.util.settings import Settings
from launched import DEADLINE_S
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from workers import exit_code, python

# A worker finds its job without the launcher's variables, and writes its place, a setting and a sum.
WORKER = """
import os, sys
import numpy, farandole.numpy as hvd

assert "HOROVOD_RANK" not in os.environ
hvd.init()
total = hvd.allreduce(numpy.full(1000, hvd.rank() + 1.0), op=hvd.Sum)
with open(f"{sys.argv[1]}/rank{hvd.rank()}", "w") as file:
    place = f"{os.uname().nodename} {hvd.size()} {hvd.local_rank()} {hvd.local_size()}"
    file.write(f"{place} {total[-1]} {os.environ.get('HOROVOD_CACHE_CAPACITY')} {os.environ.get('OWN')}")
hvd.shutdown()
"""

# A script calls a function on the workers of mpirun; rank 1 fails if the argument says so.
FUNCTION = """
import sys
import horovod

def work(fails):
    import os
    import numpy, farandole.numpy as hvd
    hvd.init()
    total = hvd.allreduce(numpy.ones(3), op=hvd.Sum)
    if fails and hvd.rank() == 1:
        raise KeyError("labels")
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK"))
    return hvd.rank(), int(rank), os.uname().nodename, float(total[0])

if __name__ == "__main__":
    try:
        print("RESULT", horovod.run(work, args=(len(sys.argv) > 1,), num_proc=4, hosts="a:2,b:2", use_mpi=True))
    except RuntimeError as problem:
        print("FAILED", problem)
"""


class Mpi(NamedTuple):
    folder: Path
    """Of the program mpirun."""
    environment: Dict[str, str]
    arguments: List[str]
    """Options of `farandole run` that this test needs on this machine."""


AS_ROOT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
OPEN_MPI_5 = slurm_cluster.INSTALLED / "openmpi"
INTEL = slurm_cluster.INSTALLED / "impi-rt"
KINDS = {
    "open-mpi-4": Mpi(Path("/usr/bin"), AS_ROOT, []),
    "open-mpi-5": Mpi(OPEN_MPI_5 / "bin", AS_ROOT, [f"--mpi-args=--prefix '{OPEN_MPI_5}'"]),
    "mpich": Mpi(slurm_cluster.INSTALLED / "mpich" / "bin", {}, []),
    "intel-mpi": Mpi(INTEL / "bin", {"I_MPI_ROOT": str(INTEL)}, []),
}


@pytest.fixture(params=["open-mpi-4", *(pytest.param(name, marks=pytest.mark.slow) for name in list(KINDS)[1:])])
def mpi(request: pytest.FixtureRequest) -> Mpi:
    found = KINDS[request.param]
    if shutil.which("mpirun", path=str(found.folder)) is None:
        pytest.skip(f"{found.folder}/mpirun is not installed; tools/setup --launch installs it")
    return found


def environment(mpi: Mpi, **settings: str) -> Dict[str, str]:
    return {**mpi.environment, "PATH": f"{mpi.folder}:{os.environ['PATH']}", **settings}


def test_mpirun_starts_the_workers_of_two_hosts_with_the_settings_and_the_environment(
    launch: Callable[..., Process], hosts: SshHosts, mpi: Mpi
) -> None:
    options = ["--mpi", "-np", "4", "-H", "a:2,b:2", "--cache-capacity", "77", *mpi.arguments]
    command = python(hosts.shared, WORKER, str(hosts.shared))
    job = launch(*options, *command, rsh="", settings=environment(mpi, OWN="two words"))
    assert exit_code(job) == 0, job.text
    said = [(hosts.shared / f"rank{rank}").read_text() for rank in range(4)]
    expected = [f"{host} 4 {local} 2 10.0 77 two words" for host in "ab" for local in range(2)]
    assert said == expected, job.text

    # One process: Hydra, which ends the others when one fails, may report how one of its own processes ended instead.
    # Open MPI 5 gets one on host a as well: it sometimes hangs if all processes are on one host that is not its own.
    places = ["-np", "1", "-H", "b:1"] if mpi.folder != OPEN_MPI_5 / "bin" else ["-np", "2", "-H", "a:1,b:1"]
    fails = ["sh", "-c", "exit 5"]
    job = launch("--mpi", *places, *mpi.arguments, *fails, settings=environment(mpi))  # with FARANDOLE_RSH
    assert exit_code(job) == 5, job.text


@pytest.mark.slow
def test_functions_run_on_the_workers_of_mpirun(hosts: SshHosts, mpi: Mpi) -> None:
    script = python(hosts.shared, FUNCTION)
    settings = environment(mpi, HOME=str(hosts.home), XDG_RUNTIME_DIR=RUNTIME, FARANDOLE_RSH=hosts.rsh)
    if mpi.arguments:
        settings["OPAL_PREFIX"] = str(OPEN_MPI_5)
    # The workers of a function get a secret of their own, and not that of a file.
    job = hosts.start(0, script, {**settings, "FARANDOLE_SECRET_FILE": str(hosts.secret)})
    assert exit_code(job) == 0, job.text
    expected = [(rank, rank, "ab"[rank // 2], 4.0) for rank in range(4)]
    assert f"RESULT {expected}" in job.text, job.text

    job = hosts.start(0, [*script, "fails"], settings)
    assert exit_code(job) == 0, job.text
    assert "FAILED mpirun failed with exit code 1" in job.text and "KeyError: 'labels'" in job.text, job.text


def run_launcher(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD_", "FARANDOLE_"))}
    return subprocess.run(
        [FARANDOLE, "run", *words],
        check=False,
        capture_output=True,
        env={**kept, **settings},
        text=True,
        timeout=DEADLINE_S,
    )


def test_without_a_known_mpirun_the_launcher_says_what_is_missing(launcher_command: None, tmp_path: Path) -> None:
    ended = run_launcher("--mpi", "-np", "1", "true", PATH=str(tmp_path))
    assert ended.returncode == 2, ended.stderr
    assert "put the mpirun of Open MPI, MPICH, Intel MPI or Spectrum MPI on PATH" in ended.stderr

    stub = tmp_path / "mpirun"
    stub.write_text("#!/bin/sh\necho 'Some MPI 1.0'\n")
    stub.chmod(0o755)
    ended = run_launcher("--mpi", "-np", "1", "true", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert ended.returncode == 2, ended.stderr
    assert "'mpirun --version' printed 'Some MPI 1.0'" in ended.stderr


def test_the_printed_command_line_is_the_one_that_is_run(launcher_command: None, tmp_path: Path) -> None:
    stub = tmp_path / "mpirun"
    stub.write_text(
        '#!/bin/sh\nif test "$1" = --version; then echo "HYDRA build details"; exit; fi\n'
        f'printf "%s\\n" "$HYDRA_LAUNCHER_EXTRA_ARGS" "$@" >"{tmp_path}/said"\nexit 3\n'
    )
    stub.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    words = ["--mpi", "-np", "2", "-H", "a:2", "-p", "2222", "echo", "two words"]
    assert run_launcher(*words, PATH=path).returncode == 3
    said = (tmp_path / "said").read_text()
    assert said.splitlines() == [
        *("-p 2222", "-l", "-np", "2", "-ppn", "2", "-hosts", "a", "-bind-to", "none", "-map-by", "slot"),
        *("-bootstrap=ssh", "echo", "two words"),
    ]
    (tmp_path / "said").unlink()
    printed = run_launcher("--print-command", *words, PATH=path)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.startswith("# MPICH\n"), printed.stdout
    assert not (tmp_path / "said").exists()
    repeated = subprocess.run(
        ["sh", "-c", printed.stdout], check=False, env={**os.environ, "PATH": path}, timeout=DEADLINE_S
    )
    assert repeated.returncode == 3
    assert (tmp_path / "said").read_text() == said


def test_a_text_for_the_shell_is_run_by_a_shell_on_the_workers(
    launcher_command: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text comes from a tool that calls `mpi_run`, whose environment is that of the workers."""
    stub = tmp_path / "mpirun"
    stub.write_text(
        '#!/bin/sh\nif test "$1" = --version; then echo "HYDRA build details"; exit; fi\n'
        'while test "$1" != sh; do shift; done\nexec "$@"\n'
    )
    stub.chmod(0o755)
    monkeypatch.setattr(program, "path_of_launcher", lambda: FARANDOLE)
    settings = Settings(hosts="localhost:1", num_proc=1, run_func_mode=True)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "X": "two  words"}
    mpi_run.mpi_run(settings, None, variables, "echo \"$X\" | cat && echo '$X'")
    assert capfd.readouterr().out == "two  words\n$X\n"
    with pytest.raises(RuntimeError, match="mpirun failed with exit code 3"):
        mpi_run.mpi_run(settings, None, variables, "false || exit 3")
