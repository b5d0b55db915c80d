"""Ray Train: its present trainer with ``FarandoleConfig``, and its own trainer for Horovod."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict

import numpy
import pytest
import ray
import ray.train
from conftest import processes, wait_until
from horovod.ray.train import FarandoleConfig
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

EXAMPLE = Path(ray.train.__file__).parent / "examples" / "horovod" / "horovod_tune_example.py"


def train(config: Dict[str, Any]) -> None:
    """Reports a sum over the ranks. At its first start, rank 1 dies in a step, if the configuration says so."""
    import farandole.numpy as hvd

    hvd.init()
    context = ray.train.get_context()
    assert (hvd.rank(), hvd.size()) == (context.get_world_rank(), context.get_world_size())
    assert (hvd.local_rank(), hvd.local_size()) == (context.get_local_rank(), context.get_local_world_size())
    started = Path(config["folder"], "started")
    hvd.barrier()
    is_first = not started.exists()
    hvd.barrier()
    if is_first and hvd.rank() == 1:
        started.touch()
        if config["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
    total = hvd.allreduce(numpy.full(1, hvd.rank() + 1.0), op=hvd.Sum)[0]
    metrics = {"total": float(total), "cache": os.environ["HOROVOD_CACHE_CAPACITY"]}
    with tempfile.TemporaryDirectory() as folder:  # the result has the metrics of the last checkpoint
        checkpoint = ray.train.Checkpoint.from_directory(folder) if hvd.rank() == 0 else None
        ray.train.report(metrics, checkpoint=checkpoint)


@pytest.mark.slow
@pytest.mark.usefixtures("two")
@pytest.mark.parametrize("dies", [False, True], ids=["trains", "dies"])
def test_the_trainer_starts_a_group_and_again_when_a_worker_dies(tmp_path: Path, dies: bool) -> None:
    before = processes("farandole rendezvous")
    trainer = DataParallelTrainer(
        train,
        train_loop_config={"folder": str(tmp_path), "dies": dies},
        backend_config=FarandoleConfig(extra_env_vars={"HOROVOD_CACHE_CAPACITY": 77}),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(tmp_path), name="run", failure_config=FailureConfig(max_failures=1)),
    )
    result = trainer.fit()
    assert result.error is None
    assert (tmp_path / "started").exists()
    assert (result.metrics["total"], result.metrics["cache"]) == (3.0, "77")
    wait_until(lambda: processes("farandole rendezvous") == before, lambda: "\n".join(processes("farandole")))


@pytest.mark.slow
def test_the_example_of_rays_own_trainer_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "RAY_TRAIN_V2_ENABLED": "0", "RAY_ADDRESS": "local", "HOME": str(tmp_path)}
    words = [sys.executable, str(EXAMPLE), "--smoke-test"]
    ran = subprocess.run(words, env=environment, check=False, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    errors = [path.read_text() for path in tmp_path.rglob("error.txt")]
    assert "Trial status: 2 TERMINATED" in ran.stdout, "\n".join(errors) or ran.stdout
    assert "Best hyperparameters found were:" in ran.stdout
