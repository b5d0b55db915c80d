"""The row of ResNet-50's gradients, with arrays over the driver's interface."""

from __future__ import annotations

from typing import Any, Dict

from farandole import _native
from farandole.common import job, operations

from benchmarks.cuda.devices import DriverDevice
from benchmarks.cuda.rows import COPIES, OURS
from benchmarks.cuda.turns import GpuTime, remark
from benchmarks.works import RESNET

SUM = 1
NO_ROOT = -1
STEPS = 2  # in a block: as many bundles as the fusion scheduler has in progress


def resnet(is_tiny: bool) -> tuple[int, ...]:
    return tuple(elements // 512 + 1 for elements in RESNET) if is_tiny else RESNET


def gradients(worker: Any) -> Dict[str, Any]:
    device = DriverDevice(worker.link_bytes)
    sizes = resnet(worker.is_tiny)
    inputs, outputs = ([device.tensor(elements) for elements in sizes] for _ in range(2))
    one_way, other_way = (device.tensor(sum(sizes)) for _ in range(2))
    request = _native.Request(operations.ALLREDUCE, "allreduce", SUM, NO_ROOT, 0.5)

    def reduce() -> None:
        _native.wait_all(list(job.runtime.submit_group(request, "gradients", inputs, outputs, 0)))

    def copy() -> None:
        device.copy(one_way, other_way)
        device.copy(other_way, one_way)

    blocks = {OURS: GpuTime(device, reduce, STEPS), COPIES: GpuTime(device, copy, STEPS)}
    return {"samples": worker.turns().take(dict(blocks)), "remark": remark(blocks)}
