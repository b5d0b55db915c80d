"""Jobs that use oneCCL if it is built in, and the error of a job if it is not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from launched import DEADLINE_S, LAUNCHER, LOSES_A_RANK, run_script

REPORT = subprocess.run(
    [LAUNCHER, "--check-build"], check=True, capture_output=True, text=True, timeout=DEADLINE_S
).stdout
BUILT = "    [X] ccl\n" in REPORT

with_ccl = pytest.mark.skipif(not BUILT, reason="oneCCL is not built in")


def run(
    ranks: int, tmp_path: Path, script: str, survivors_report: bool = False, **settings: str
) -> subprocess.CompletedProcess[str]:
    trusted = {"FARANDOLE_TRUSTED_NETWORK": "1"}
    return run_script(ranks, tmp_path, script, survivors_report=survivors_report, **trusted, **settings)


def test_the_report_of_check_build_agrees_with_ccl_built() -> None:
    assert ("    [X] CCL\n" in REPORT) == BUILT
    told = subprocess.run(
        [sys.executable, "-c", "import farandole.numpy as hvd; print(hvd.ccl_built())"],
        check=True,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert told.stdout.split() == [str(BUILT)]


@pytest.mark.skipif(BUILT, reason="oneCCL is built in")
def test_the_error_of_a_build_without_oneccl_names_the_remedy(tmp_path: Path) -> None:
    job = run(2, tmp_path, "import farandole.numpy as hvd\nhvd.init()\n", HOROVOD_CPU_OPERATIONS="ccl")
    assert job.returncode != 0
    for word in ("libfarandole_ccl.so", "tools/setup --with-ccl", "FARANDOLE_CCL_ROOT", "oneccl-devel"):
        assert word in job.stdout, job.stdout


@with_ccl
@pytest.mark.parametrize("setting, ranks", [("HOROVOD_CPU_OPERATIONS", 2), ("FARANDOLE_CPU_PATH", 3)])
def test_a_script_runs_over_oneccl(tmp_path: Path, setting: str, ranks: int) -> None:
    script = """
        import os
        import horovod.torch as hvd, torch
        pair = hvd.ProcessSet([0, 1])
        hvd.init(process_sets=[pair] if int(os.environ["HOROVOD_SIZE"]) > 2 else [])
        rank, size = hvd.rank(), hvd.size()
        model = torch.nn.Linear(8, 2)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        for step in range(5):
            optimizer.zero_grad()
            model(torch.full((4, 8), rank + 1.0)).sum().backward()
            optimizer.step()
        same = hvd.allgather(model.weight.detach().reshape(1, -1))
        assert (same == same[0]).all()
        parts = hvd.alltoall(torch.full((size,), rank), splits=torch.ones(size, dtype=torch.int32))
        assert parts[0].tolist() == list(range(size))
        half = hvd.allreduce(torch.full((1000,), rank + 1, dtype=torch.bfloat16), op=hvd.Sum)
        assert (half == size * (size + 1) / 2).all()
        assert hvd.reducescatter(torch.ones(size), op=hvd.Sum).tolist() == [size]
        if size > 2 and rank < 2:
            assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=pair).tolist() == [2, 2]
        if size == 2:
            try:
                hvd.allreduce(torch.ones(2), op=hvd.Adasum, name="adasum")
            except Exception as refused:
                assert "oneCCL has no Adasum" in str(refused), refused
            else:
                raise AssertionError("Adasum was not refused")
        assert 0 <= hvd.join() < size
        hvd.shutdown()
    """
    job = run(ranks, tmp_path, script, **{setting: "ccl"})
    assert job.returncode == 0, job.stdout
    told = re.findall(r"the path oneCCL .* moves (.*); Farandole's own paths move (.*)", job.stdout)
    assert told == [
        ("allreduce, allgather, broadcast, barrier, alltoall", "reducescatter, and all of other process sets")
    ]


@with_ccl
def test_a_killed_rank_fails_the_operations_of_the_others(tmp_path: Path) -> None:
    job = run(2, tmp_path, LOSES_A_RANK, survivors_report=True, HOROVOD_CPU_OPERATIONS="ccl")
    assert job.returncode == 128 + 9, job.stdout
    assert re.search(r"\[0\]<stdout>:LOST ", job.stdout), job.stdout
