"""The rows of two processes that share a GPU, beside torch.distributed over Gloo in the same processes."""

from __future__ import annotations

from typing import Any, Dict

from benchmarks.cuda.on_driver import resnet
from benchmarks.cuda.rows import DDP, GLOO, MIB, OURS
from benchmarks.cuda.training import contestants
from benchmarks.cuda.turns import Block, GpuTime
from benchmarks.stacks import stack_named
from benchmarks.works import Work

STEPS = 3  # in a block


def beside_gloo(worker: Any, work: Work) -> Dict[str, Any]:
    device = worker.torch_device()
    worker.set_variables()
    blocks: Dict[str, Block] = {}
    for name, library in ((OURS, "farandole"), (GLOO, "gloo")):
        stack = stack_named(library)
        stack.load()
        if not worker.torch.distributed.is_initialized():  # once for all rows
            stack.start()
        step = stack.ready(work, device.tensors(work.elements))
        blocks[name] = GpuTime(device, step, STEPS, is_occupied=False)
    return {"samples": worker.turns().take(blocks)}


def large(worker: Any) -> Dict[str, Any]:
    return beside_gloo(worker, Work("64 MiB", (1000 if worker.is_tiny else 16 * MIB,), STEPS))


def gradients(worker: Any) -> Dict[str, Any]:
    return beside_gloo(worker, Work("ResNet-50", resnet(worker.is_tiny), STEPS, bucket_bytes=25 * MIB))


def training(worker: Any) -> Dict[str, Any]:
    worker.set_variables()
    return {"samples": worker.turns().take(contestants(worker, {OURS: "farandole", DDP: "own"}))}
