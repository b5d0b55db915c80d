"""The example of a path plugin: the command in its first lines builds it, and FARANDOLE_PATH_LIBRARY loads it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from launched import LOSES_A_RANK, run_script

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "path_plugin" / "star.c"

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = re.search(r"^ \*\s+(cc .*)$", EXAMPLE.read_text(), re.M)
    assert found, "the example contains no command that builds it"
    folder = tmp_path_factory.mktemp("path")
    shutil.copy(EXAMPLE, folder)
    shutil.copytree(ROOT / "bindings" / "include", folder / "include")
    subprocess.run([*found.group(1).split(), "-Wall", "-Wextra", "-Werror"], cwd=folder, check=True)
    return folder / "libstar.so"


def run(
    ranks: int, library: str, tmp_path: Path, script: str, survivors_report: bool = False
) -> subprocess.CompletedProcess[str]:
    settings = {"FARANDOLE_CPU_PATH": "plugin", "FARANDOLE_PATH_LIBRARY": library}
    return run_script(ranks, tmp_path, script, survivors_report=survivors_report, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_training_script_runs_over_the_example_plugin(library: Path, tmp_path: Path, ranks: int) -> None:
    script = """
        import horovod.torch as hvd, torch
        hvd.init()
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
        assert hvd.allgather(torch.tensor([rank])).tolist() == list(range(size))
        assert hvd.alltoall(torch.arange(size)).tolist() == [rank] * size
        half = hvd.allreduce(torch.full((1000,), rank + 1, dtype=torch.bfloat16), op=hvd.Sum)
        assert (half == size * (size + 1) / 2).all()
        assert 0 <= hvd.join() < size
        hvd.shutdown()
    """
    job = run(ranks, str(library), tmp_path, script)
    assert job.returncode == 0, job.stdout
    operations = re.findall(r"the path star .* moves (.*); Farandole's own paths move (.*)", job.stdout)
    assert operations == [("allreduce, broadcast, barrier", "allgather, alltoall, reducescatter")]


def test_operations_over_the_plugin_fail_with_the_number_of_a_lost_rank(library: Path, tmp_path: Path) -> None:
    job = run(2, str(library), tmp_path, LOSES_A_RANK, survivors_report=True)
    assert job.returncode == 128 + 9, job.stdout
    assert re.search(r"\[0\]<stdout>:LOST .*rank 1", job.stdout), job.stdout


@pytest.mark.parametrize("file, reason", [("", "none is named"), ("libstar.so", "give its full path")])
def test_a_wrong_plugin_library_is_refused_with_the_remedy(tmp_path: Path, file: str, reason: str) -> None:
    job = run(2, file, tmp_path, "import farandole.numpy as hvd\nhvd.init()\n")
    assert job.returncode != 0
    assert f"FARANDOLE_PATH_LIBRARY={file}" in job.stdout and reason in job.stdout
