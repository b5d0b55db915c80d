"""The rows of the table with their targets, and the jobs that measure them."""

from __future__ import annotations

from dataclasses import dataclass, field

OURS = "farandole"
MIB = 1 << 20


class Missing(Exception):
    """A row cannot be measured here, because the machine lacks what the text names."""


@dataclass(frozen=True)
class Row:
    """Our time as a share of the best rival's, or a figure of Farandole alone if there is no rival."""

    text: str
    measure: str
    """The measurement that has it; several rows may share one."""
    limit: float
    rivals: tuple[str, ...] = ()
    ours: str = OURS
    """Our contestant, or the name of the figure."""
    unit: str = ""


@dataclass(frozen=True)
class Job:
    """Processes that measure some rows."""

    name: str
    ranks: int
    seconds: int
    """Bound for the job. All bounds together stay below 8 minutes."""
    measures: tuple[str, ...]
    needs: str = "numpy"
    """A package, `cuda` for a PyTorch that sees a GPU, or `nccl` for an NCCL."""
    settings: dict[str, str] = field(default_factory=dict)
    is_elastic: bool = False


CAT, FOREACH = "torch.cat + mul_", "torch._foreach_mul_"
COPIES, NCCL, GLOO = "copies", "torch.distributed, NCCL", "torch.distributed, gloo"
PLAIN, DDP = "without Farandole", "DistributedDataParallel, gloo"
IN_PLACE = "farandole in place"

SCALED = "1 rank, × 0.5, out of place"
SMALL_NET = "training step of a small ResNet in bf16"
KILLED = "SIGKILL of 1 of 3 in a collective, to the others' next step"
ROWS = (
    Row(f"allreduce of ResNet-50's 161 gradients as a group, {SCALED}", "gradients", 1.18, (COPIES,)),
    Row(f"ResNet-50's gradients, {SCALED}, fp32 → bf16", "compressed", 1.25, (COPIES,)),
    Row(f"allreduce of 1,000 tensors of 1 KiB as a group, {SCALED}", "small", 0.3, (CAT, FOREACH)),
    Row("host time of allreduce_async_ + synchronize, 1 rank, × 0.5", "host", 0.8, (NCCL,)),
    Row("host time of them, 1 rank, unscaled", "host", 0.3, (NCCL,), IN_PLACE),
    Row("allreduce of 64 MiB, 2 ranks on one GPU", "64 MiB", 0.5, (GLOO,)),
    Row("ResNet-50's gradients one by one, 2 ranks on one GPU", "ResNet-50", 0.5, (GLOO,)),
    Row(f"{SMALL_NET}, 1 rank", "training", 1.02, (PLAIN,)),
    Row(f"{SMALL_NET}, 2 ranks on one GPU", "training 2", 1.0, (DDP,)),
    Row(f"{KILLED}, by nccl", "killed nccl", 2.0, ours="killed", unit="s"),
    Row(f"{KILLED}, staged", "killed staged", 0.5, ours="killed", unit="s"),
    Row("GPU memory of Farandole before the first GPU tensor", "memory", 0.0, ours="before", unit="MiB"),
    Row("GPU memory of Farandole after it, 1 rank", "memory", 64.0, ours="after", unit="MiB"),
    Row("growth of it over 50 shutdown() and init()", "memory", 0.0, ours="growth", unit="MiB"),
)

JOBS = (
    Job("driver", 1, 50, ("gradients",)),
    Job("memory", 1, 50, ("memory",)),
    Job("one rank", 1, 130, ("compressed", "small", "host", "training"), needs="cuda"),
    Job("two ranks", 2, 130, ("64 MiB", "ResNet-50", "training 2"), needs="cuda"),
    Job("killed nccl", 3, 45, ("killed nccl",), "nccl", {"FARANDOLE_GPU_PATH": "nccl"}, is_elastic=True),
    Job("killed staged", 3, 45, ("killed staged",), settings={"FARANDOLE_GPU_PATH": "staged"}, is_elastic=True),
)
ALL_SECONDS = 450
"""Bound for all jobs together."""
