"""Recipes of the manual: checkpoints on one rank, mixed precision, and models that load without Farandole."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import horovod.torch as hvd
import pytest
import torch
from newer_versions import needs

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def network() -> torch.nn.Module:
    torch.manual_seed(hvd.rank())
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(100 * step + rank))


def wrapped(model: torch.nn.Module) -> Any:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    return hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def train(model: torch.nn.Module, optimizer: Any, steps: range) -> None:
    for step in steps:
        optimizer.zero_grad()
        model(batch(hvd.rank(), step)).square().mean().backward()
        optimizer.step()


def start_together(model: torch.nn.Module, optimizer: Any) -> None:
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)


def weights(model: torch.nn.Module) -> List[torch.Tensor]:
    return [each.detach().clone() for each in model.parameters()]


def test_a_checkpoint_of_rank_0_is_resumed_on_all_ranks_by_broadcast(tmp_path: Path, rank: int) -> None:
    path = Path(hvd.broadcast_object(str(tmp_path), name="folder")) / "checkpoint.pt"
    model = network()
    optimizer = wrapped(model)
    start_together(model, optimizer)
    train(model, optimizer, range(3))
    if hvd.rank() == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}, path)
    train(model, optimizer, range(3, 6))

    resumed = network()
    resuming = wrapped(resumed)
    step = 0
    if hvd.rank() == 0:  # the others may not even have the file
        checkpoint = torch.load(path, weights_only=True)
        resumed.load_state_dict(checkpoint["model"])
        resuming.load_state_dict(checkpoint["optimizer"])
        step = checkpoint["step"]
    start_together(resumed, resuming)
    step = hvd.broadcast_object(step, root_rank=0, name="step")
    train(resumed, resuming, range(step, 6))
    assert all(torch.equal(each, other) for each, other in zip(weights(resumed), weights(model)))


LOADS = """
import sys
sys.modules["farandole"] = sys.modules["horovod"] = None  # importing them raises an ImportError
import torch
whole = torch.load(sys.argv[1] + "/whole.pt", weights_only=False)
parts = torch.load(sys.argv[1] + "/parts.pt", weights_only=True)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
model.load_state_dict(parts["model"])
optimizer = torch.optim.Adam(model.parameters())
optimizer.load_state_dict(parts["optimizer"])
assert len(optimizer.state) == 4 and optimizer.param_groups[0]["lr"] == 0.05
torch.testing.assert_close(model(parts["input"]), parts["output"])
torch.testing.assert_close(whole(parts["input"]), parts["output"])
model(parts["input"]).sum().backward()
optimizer.step()
print("LOADED")
"""


@pytest.mark.slow
def test_a_saved_model_and_optimizer_load_without_farandole(tmp_path: Path, rank: int) -> None:
    model = network()
    optimizer = wrapped(model)
    start_together(model, optimizer)
    train(model, optimizer, range(2))
    copied = copy.deepcopy(model)
    assert all(torch.equal(each, other) for each, other in zip(weights(copied), weights(model)))
    x = batch(0, 0)
    with torch.no_grad():
        parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "input": x, "output": model(x)}
    torch.save(parts, tmp_path / "parts.pt")
    torch.save(model, tmp_path / "whole.pt")
    if rank == 0:
        done = subprocess.run(
            [sys.executable, "-I", "-c", LOADS, str(tmp_path)], check=False, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0 and "LOADED" in done.stdout, done.stderr


@several_ranks
@needs("torch", "2.3", "torch.amp.GradScaler")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_with_a_gradient_scaler_an_overflow_on_one_rank_skips_the_step_on_all(
    dtype: torch.dtype, rank: int, size: int
) -> None:
    """Gradients are averaged while they are scaled, so if those of one rank overflow, all ranks skip the step."""
    model = network()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    reference = copy.deepcopy(model)
    optimizer: Any = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
    )
    plain = torch.optim.SGD(reference.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=100)
    for step in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = model(batch(rank, step)).float().square().mean()
        overflows = step == 2 and rank == size - 1
        scaler.scale(loss * (float("inf") if overflows else 1.0)).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        if step == 2:
            continue
        plain.zero_grad()
        (sum(reference(batch(other, step)).square().mean() for other in range(size)) / size).backward()  # type: ignore[union-attr]
        torch.nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
        plain.step()
    assert scaler.get_scale() == 512.0
    for value, other in zip(weights(model), weights(reference)):
        torch.testing.assert_close(value, other, rtol=0.05, atol=0.01)
        assert all(torch.equal(each, value) for each in hvd.allgather(value.unsqueeze(0), name="scaled"))
