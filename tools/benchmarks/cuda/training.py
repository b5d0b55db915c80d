"""Training a small ResNet in bfloat16, with the trainers of `tools/bench training`."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict

from benchmarks.cuda.turns import Block, GpuTime
from benchmarks.trainers import Way
from benchmarks.trainers.with_torch import TorchTrainer

BATCH = 128
STEPS = 10  # in a block


def contestants(worker: Any, ways: Dict[str, str]) -> Dict[str, Block]:
    """A trainer for each way, which are by the names of the contestants."""
    device = worker.torch_device()
    blocks: Dict[str, Block] = {}
    for name, way in ways.items():
        batch, steps = (2, 1) if worker.is_tiny else (BATCH, STEPS)
        trainer = TorchTrainer(Way(way, batch, 1, worker.is_tiny, device.kind, is_bfloat16=True))
        trainer.load()
        trainer.join()
        blocks[name] = GpuTime(device, partial(trainer.steps, steps), 1, is_occupied=False)
    return blocks
