"""Jobs that mpirun starts: how their ranks connect, which settings they refuse, and how they end."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from launched import run_script

TRUSTED = {"FARANDOLE_TRUSTED_NETWORK": "1"}
MPIRUN = ("mpirun", "--oversubscribe", "--allow-run-as-root")

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of mpirun and its daemons. All jobs of the machine would share one, and the last of them removes it."""
    monkeypatch.setenv("OMPI_MCA_orte_tmpdir_base", str(tmp_path))


PRELUDE = """
import os, signal, sys
import numpy as np
import horovod.numpy as hvd
hvd.init()
"""


def test_mpirun_starts_a_job_without_horovodrun(tmp_path: Path) -> None:
    # The ranks write into files, because mpirun mixes the output of ranks that print at the same time.
    script = PRELUDE + (
        f"with open(f'{tmp_path}/{{hvd.rank()}}', 'w') as file:\n"
        "    print(hvd.allreduce(np.ones(3), op=hvd.Sum)[0], file=file)\n"
    )
    job = run_script(3, tmp_path, script, launcher=MPIRUN)
    assert job.returncode == 0, job.stdout
    assert [(tmp_path / str(rank)).read_text() for rank in range(3)] == ["3.0\n"] * 3


def test_ranks_on_two_hosts_that_mpi_brings_together_meet_at_an_address_of_rank_0(tmp_path: Path) -> None:
    hosts = "import os\nos.environ['FARANDOLE_HOST_ID'] = 'host' + os.environ['OMPI_COMM_WORLD_RANK']\n"
    script = hosts + PRELUDE + "assert (hvd.local_size(), hvd.allreduce(np.ones(9), op=hvd.Sum)[0]) == (1, 2)\n"
    job = run_script(2, tmp_path, script, launcher=MPIRUN, HOROVOD_CONTROLLER="mpi")
    if "no interface" in job.stdout:
        pytest.skip("this machine has no network interface besides the loopback interface")
    assert job.returncode == 0, job.stdout


def test_init_uses_the_mpi_that_mpi4py_has_initialized(tmp_path: Path) -> None:
    script = """
    from mpi4py import MPI
    import numpy as np
    import horovod.numpy as hvd
    hvd.init()
    assert hvd.mpi_threads_supported()
    for step in range(10):
        assert hvd.allreduce(np.ones(70000), op=hvd.Sum, name="a")[-1] == MPI.COMM_WORLD.allreduce(1)
    hvd.shutdown()
    MPI.COMM_WORLD.Barrier()
    """
    job = run_script(2, tmp_path, script, launcher=MPIRUN, FARANDOLE_CPU_PATH="mpi", **TRUSTED)
    assert job.returncode == 0, job.stdout


def test_operations_work_with_mpi_threads_disabled(tmp_path: Path) -> None:
    script = PRELUDE + "assert not hvd.mpi_threads_supported()\nassert hvd.allreduce(np.ones(9), op=hvd.Sum)[0] == 2\n"
    job = run_script(
        *(2, tmp_path, script),
        launcher=MPIRUN,
        HOROVOD_CPU_OPERATIONS="mpi",
        HOROVOD_MPI_THREADS_DISABLE="1",
        **TRUSTED,
    )
    assert job.returncode == 0, job.stdout


def test_a_killed_rank_ends_the_job_with_its_signal(tmp_path: Path) -> None:
    script = PRELUDE + (
        "hvd.barrier()\n"
        "if hvd.rank() == 1:\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "hvd.allreduce(np.ones(1 << 20), op=hvd.Sum)\n"
        "print('went on', flush=True)\n"
    )
    job = run_script(2, tmp_path, script, launcher=MPIRUN, FARANDOLE_CPU_PATH="mpi", **TRUSTED)
    assert job.returncode == 128 + signal.SIGKILL, job.stdout
    assert "went on" not in job.stdout


@pytest.mark.parametrize("name", ["FARANDOLE_CPU_PATH", "HOROVOD_CPU_OPERATIONS"])
def test_the_mpi_path_is_refused_by_its_setting_without_mpirun(tmp_path: Path, name: str) -> None:
    job = run_script(2, tmp_path, PRELUDE, **{name: "mpi"}, **TRUSTED)
    assert job.returncode != 0
    assert f"{name}=mpi needs processes that mpirun or mpiexec started" in job.stdout, job.stdout
    assert "mpirun -np N" in job.stdout, job.stdout
