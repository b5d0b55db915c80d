"""The script of the README, and the examples: plain, resumed, and elastic ones that lose a worker."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from elastic_jobs import losing_a_worker
from launched import Job, needs_launcher, run_script, write_script

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"

pytestmark = needs_launcher

# Small enough for a processor that other tests use as well.
SYNTHETIC = "--no-cuda --model resnet18 --image-size 32 --batch-size 2 --num-warmup-batches 1 --num-batches-per-iter 1"
IMAGENET = "--no-cuda --images 8 --image-size 32 --batch-size 2 --warmup-epochs 1"

# Runs scripts one after the other and keeps the sum of the first batch that each script's model is given in training.
RUNNER = """
import json, runpy, sys
import torch
import horovod.torch as hvd

first = []

def keep(module, inputs):
    if not first and module.training and inputs and isinstance(inputs[0], torch.Tensor):
        first.append(inputs[0].double().sum().item())

torch.nn.modules.module.register_module_forward_pre_hook(keep)
for script, *arguments in {scripts}:
    first.clear()
    sys.argv = [script, *arguments]
    sys.path[0] = script.rpartition("/")[0]
    runpy.run_path(script, run_name="__main__")
    sums = hvd.allgather_object(first[0], name="first batches")
    if hvd.rank() == 0:
        print("FIRST", json.dumps([script.rpartition("/")[2], sums]), flush=True)
"""


def readme_script() -> str:
    found = re.search(r"^## A script\n+```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.S | re.M)
    assert found is not None
    return found[1]


MNIST = {
    "pytorch_mnist.py": "--epochs 1 --batch-size 200 --use-adasum",
    "pytorch_mnist_short.py": "--steps 2",
    "pytorch_mnist_elastic.py": "--epochs 1 --batch-size 200",
}
RESNET = {
    "pytorch_synthetic_benchmark.py": f"{SYNTHETIC} --num-iters 1",
    "pytorch_synthetic_benchmark_elastic.py": f"{SYNTHETIC} --num-iters 1",
    "pytorch_imagenet_resnet50_elastic.py": f"{IMAGENET} --epochs 1 --checkpoint-format {{folder}}/{{{{epoch}}}}.pt",
}


@pytest.mark.slow
@pytest.mark.parametrize("examples", [MNIST, RESNET], ids=["mnist", "resnet"])
def test_the_workers_of_each_script_train_on_different_batches(examples: Dict[str, str], tmp_path: Path) -> None:
    """PyTorch uses the same default seed in all processes, so a script can get this wrong without ``manual_seed``."""
    readme = tmp_path / "readme.py"
    readme.write_text(readme_script())
    scripts = [[str(readme)]]
    for name, arguments in examples.items():
        scripts.append([str(EXAMPLES / name), *arguments.format(folder=tmp_path).split()])
    done = run_script(2, tmp_path, RUNNER.format(scripts=scripts))
    assert done.returncode == 0, done.stdout
    loss = re.search(r"loss (\d\.\d+) on 2 workers", done.stdout)
    assert loss and float(loss[1]) < 10.0, done.stdout
    found: List[List] = [json.loads(each) for each in re.findall(r"FIRST (.*)", done.stdout)]
    assert [name for name, _ in found] == [Path(script[0]).name for script in scripts]
    for name, sums in found:
        assert len(set(sums)) == 2, f"{name}: the first batches of both workers add up to {sums}"


@pytest.mark.slow
def test_resnet50_resumes_from_the_last_checkpoint(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint-{epoch}.pt"

    def run(epochs: int, *options: str) -> str:
        script = str(EXAMPLES / "pytorch_imagenet_resnet50.py")
        job = Job(
            ["-np", "2", sys.executable, script, *IMAGENET.split(), "--checkpoint-format", str(checkpoint)]
            + ["--epochs", str(epochs), *options]
        )
        assert job.end() == 0, job.text
        return job.text

    first = run(1, "--batches-per-allreduce", "2")
    assert "epoch 1: 2 workers" in first and "resumed" not in first
    second = run(2, "--fp16-allreduce")
    assert second.count("resumed from checkpoint-1.pt") == 1
    assert "epoch 2: 2 workers" in second and "epoch 1:" not in second
    assert sorted(each.name for each in tmp_path.glob("*.pt")) == ["checkpoint-1.pt", "checkpoint-2.pt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "commits", "end"),
    [
        (
            "pytorch_mnist_elastic.py",
            "--epochs 1 --batch-size 100 --use-adasum",
            2,
            r"epoch 1: 1 workers, step 30, accuracy",
        ),
        (
            "pytorch_synthetic_benchmark_elastic.py",
            f"{SYNTHETIC} --num-iters 4",
            2,
            r"Iter #3: .*\n(.*\n)*.*Total img/sec on 1 worker\(s\)",
        ),
        (
            "pytorch_imagenet_resnet50_elastic.py",
            f"{IMAGENET} --images 16 --epochs 2 --batches-per-commit 2",
            1,
            r"epoch 2: 1 workers, step 14,",
        ),
    ],
    ids=["adasum", "synthetic", "imagenet"],
)
def test_an_elastic_example_continues_after_a_worker_is_lost(
    name: str, arguments: str, commits: int, end: str, tmp_path: Path, jobs: List[Job]
) -> None:
    if "imagenet" in name:
        arguments += f" --checkpoint-format {tmp_path}/{{epoch}}.pt"
    script = write_script(tmp_path, losing_a_worker(EXAMPLES / name, arguments, commits))
    jobs.append(Job(["-np", "2", "--min-np", "1", "-H", "localhost:2", sys.executable, script]))
    assert jobs[-1].end() == 0, jobs[-1].text
    assert re.search(end, jobs[-1].text), jobs[-1].text
