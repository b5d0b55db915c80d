"""Processes that another launcher started: each joins the job of its launcher or init() fails; none trains alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from launched import DEADLINE_S, needs_launcher, run_script, write_script
from namespaces.ports import free_ports

# One process acts as a process of each launcher in turn. Each entry holds the variables, then the words of the error.
REFUSALS = """
import json, os, sys
import horovod.numpy as hvd
for variables, expected in json.loads(sys.argv[1]):
    os.environ.update(variables)
    try:
        hvd.init()
    except ValueError as problem:
        text = str(problem)
        missing = [words for words in (*expected, "HOROVOD_SIZE=1") if words not in text]
        print("MISSING" if missing else "REFUSED", missing, text, flush=True)
    else:
        print("STARTED", hvd.rank(), "of", hvd.size(), variables, flush=True)
        hvd.shutdown()
    for name in variables:
        del os.environ[name]
os.environ.update(PMI_SIZE="2", PMI_RANK="1", WORLD_SIZE="2", RANK="1", HOROVOD_SIZE="1")
hvd.init()
print("ALONE", hvd.rank(), hvd.size(), flush=True)
"""

ONE_OF_TWO = ("rank 1 of 2", "rank 0 of 1", "horovodrun -np N")
CASES = [
    ({"PMIX_RANK": "1"}, ("rank 1 of a job of unknown size", "rank 0 of 1", "horovodrun -np N")),
    ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}, ONE_OF_TWO),
    ({"RANK": "1", "WORLD_SIZE": "2"}, (*ONE_OF_TWO, "MASTER_ADDR")),
    ({"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_STEP_ID": "0"}, (*ONE_OF_TWO, "srun (", "srun --mpi=pmi2")),
]
# These launchers tell their processes how to reach the process manager, and here they have not.
MPI_CASES = [
    ({"PMI_SIZE": "2", "PMI_RANK": "1"}, (*ONE_OF_TWO, "MPICH")),
    ({"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}, (*ONE_OF_TWO, "Open MPI")),
    ({"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": "1"}, (*ONE_OF_TWO, "MVAPICH")),
    ({"JSM_NAMESPACE_SIZE": "2", "JSM_NAMESPACE_RANK": "1"}, (*ONE_OF_TWO, "jsrun")),
]

TORCH_JOB = """
import os
import torch
import torch.distributed as dist
import horovod.torch as hvd

def train():
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for step in range(3):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    weights = hvd.allgather(model.weight.detach())
    assert torch.equal(weights[0], weights[1])

hvd.init()
assert (hvd.rank(), hvd.size()) == (int(os.environ["RANK"]), 2)
assert (hvd.local_rank(), hvd.local_size(), hvd.cross_size()) == (hvd.rank(), 2, 1)
train()
if [os.environ.get(f"TORCHELASTIC_{name}") for name in ("MAX_RESTARTS", "RESTART_COUNT")] == ["1", "0"]:
    if hvd.rank() == 1:
        os._exit(3)
    hvd.barrier()  # fails: torchrun starts both ranks again
hvd.shutdown()
hvd.init()
train()
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
print(f"rank {hvd.rank()} trained, {total.item():.0f} in torch's group\\n", end="", flush=True)
dist.barrier()
dist.destroy_process_group()
"""


def environment(**variables: str) -> Dict[str, str]:
    """The environment of this process without the variables of its own job, plus the given variables."""
    job_prefixes = ("HOROVOD_", "PYTEST_", "FARANDOLE_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(job_prefixes)}
    return {**kept, "OMP_NUM_THREADS": "1", **variables}


def run(command: List[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        check=False,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        start_new_session=True,
    )


def test_init_fails_in_a_process_of_another_launcher_that_would_train_alone(tmp_path: Path) -> None:
    cases = CASES + MPI_CASES
    job = run([sys.executable, write_script(tmp_path, REFUSALS), json.dumps(cases)])
    assert job.returncode == 0, job.stdout
    assert job.stdout.count("REFUSED []") == len(cases), job.stdout
    assert "ALONE 0 1" in job.stdout, job.stdout


@needs_launcher
def test_a_horovodrun_job_ignores_the_variables_of_surrounding_launchers(tmp_path: Path) -> None:
    script = """
    import horovod.numpy as hvd
    hvd.init()
    assert hvd.size() == 2, hvd.size()
    """
    step = {"SLURM_NTASKS": "4", "SLURM_PROCID": "3", "SLURM_STEP_ID": "0", "PMI_SIZE": "4", "PMI_RANK": "3"}
    torchrun = {"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "9", "PMIX_RANK": "3"}
    variables = {**step, **torchrun, "TORCHELASTIC_RUN_ID": "none"}
    job = run_script(2, tmp_path, script, DEADLINE_S, **variables)
    assert job.returncode == 0, job.stdout


@pytest.mark.parametrize("restarts", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_torchrun_starts_a_job_and_restarts_it_if_it_may(tmp_path: Path, restarts: int) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job = run([*torchrun, "--max-restarts", str(restarts), write_script(tmp_path, TORCH_JOB)])
    assert job.returncode == 0, job.stdout
    for rank in range(2):
        assert f"rank {rank} trained, 2 in torch's group" in job.stdout, job.stdout


@pytest.mark.slow
def test_torch_variables_set_by_hand_start_a_job(tmp_path: Path, unused_port: int) -> None:
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port)}
    command = [sys.executable, write_script(tmp_path, TORCH_JOB)]
    rank_1 = subprocess.Popen(command, env=environment(RANK="1", **place), start_new_session=True)
    try:
        job = run(command, RANK="0", **place)
        assert job.returncode == 0, job.stdout
        assert "rank 0 trained, 2 in torch's group" in job.stdout, job.stdout
        assert rank_1.wait(DEADLINE_S) == 0
    finally:
        rank_1.kill()
        rank_1.wait()


@pytest.mark.parametrize("missing", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_init_of_a_torch_job_times_out_and_names_the_rank_that_is_missing(
    tmp_path: Path, unused_port: int, missing: int
) -> None:
    script = write_script(tmp_path, "import horovod.numpy as hvd\nhvd.init()\n")
    place = {"RANK": str(1 - missing), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unused_port)}
    job = run([sys.executable, script], HOROVOD_START_TIMEOUT="1", **place)
    assert job.returncode != 0
    announced = ("the job", "its host")[missing]
    assert f"rank {missing} of 2 did not announce {announced} in torch's store" in job.stdout, job.stdout
    assert "HOROVOD_START_TIMEOUT" in job.stdout, job.stdout


@pytest.fixture
def unused_port() -> int:
    return free_ports(1)[0]
