"""The rows of one rank on PyTorch's tensors."""

from __future__ import annotations

from typing import Any, Dict

from benchmarks.cuda.on_driver import STEPS, resnet
from benchmarks.cuda.rows import CAT, COPIES, FOREACH, IN_PLACE, NCCL, OURS, PLAIN, Missing
from benchmarks.cuda.training import contestants
from benchmarks.cuda.turns import Block, GpuTime, HostTime, remark
from benchmarks.works import SMALL

SCALE = 0.5
HOST_ELEMENTS = 256
HOST_STEPS = 100


def measured(worker: Any, blocks: Dict[str, GpuTime]) -> Dict[str, Any]:
    contestants: Dict[str, Block] = dict(blocks)
    return {"samples": worker.turns().take(contestants), "remark": remark(blocks)}


def compressed(worker: Any) -> Dict[str, Any]:
    """The rival copies as many bytes as are read and written: 4 bytes become 2, and 2 become 4, so 3 each way."""
    device, hvd = worker.torch_device(), worker.hvd
    sizes = resnet(worker.is_tiny)
    inputs = device.tensors(sizes)
    one_way, other_way = (device.tensor(sum(sizes) * 3 // 4) for _ in range(2))

    def reduce() -> None:
        hvd.grouped_allreduce(
            inputs, name="compressed", op=hvd.Sum, prescale_factor=SCALE, compression=hvd.Compression.bf16
        )

    def copy() -> None:
        device.copy(one_way, other_way)
        device.copy(other_way, one_way)

    return measured(worker, {OURS: GpuTime(device, reduce, STEPS), COPIES: GpuTime(device, copy, STEPS)})


def small(worker: Any) -> Dict[str, Any]:
    torch, device, hvd = worker.torch, worker.torch_device(), worker.hvd
    inputs = device.tensors(SMALL[:50] if worker.is_tiny else SMALL)

    def reduce() -> None:
        hvd.grouped_allreduce(inputs, name="small", op=hvd.Sum, prescale_factor=SCALE)

    blocks = {
        OURS: GpuTime(device, reduce, STEPS),
        CAT: GpuTime(device, lambda: torch.cat(inputs).mul_(SCALE), STEPS),
        FOREACH: GpuTime(device, lambda: torch._foreach_mul_(inputs, SCALE), STEPS),
    }
    return measured(worker, blocks)


def host(worker: Any) -> Dict[str, Any]:
    device, hvd, dist = worker.torch_device(), worker.hvd, worker.torch.distributed
    tensor = device.tensor(HOST_ELEMENTS)
    steps = 5 if worker.is_tiny else HOST_STEPS
    backend = worker.own_backend()
    if not dist.is_backend_available(backend):
        raise Missing(f"PyTorch {worker.torch.__version__} has no {backend}")
    dist.init_process_group(backend, init_method=worker.address(), rank=0, world_size=1)

    def scaled() -> None:
        hvd.synchronize(hvd.allreduce_async_(tensor, name="scaled", op=hvd.Sum, prescale_factor=SCALE))

    def in_place() -> None:
        hvd.synchronize(hvd.allreduce_async_(tensor, name="in place", op=hvd.Sum))

    def rival() -> None:
        dist.all_reduce(tensor, async_op=True).wait()

    try:
        steps_of = {OURS: scaled, IN_PLACE: in_place, NCCL: rival}
        blocks: Dict[str, Block] = {name: HostTime(device, step, steps) for name, step in steps_of.items()}
        return {"samples": worker.turns().take(blocks)}
    finally:
        dist.destroy_process_group()


def training(worker: Any) -> Dict[str, Any]:
    return {"samples": worker.turns().take(contestants(worker, {OURS: "farandole", PLAIN: "plain"}))}
