"""The measured operations, and the targets: the maximum share of each rival's time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

MIB = 1 << 20


def resnet50_gradients() -> list[int]:
    """Elements of ResNet-50's 161 gradients, in the order of the backward pass: last layer first."""
    sizes = [64 * 3 * 7 * 7, 64, 64]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            reduce, middle, expand = before * width, width * width * 9, width * 4 * width
            sizes += [reduce, width, width, middle, width, width, expand, 4 * width, 4 * width]
            if block == 0:
                sizes += [before * 4 * width, 4 * width, 4 * width]
            before = 4 * width
    sizes += [2048 * 1000, 1000]
    return sizes[::-1]


@dataclass(frozen=True)
class Work:
    """One measured operation of all ranks on float32 tensors.

    A work with one tensor is a synchronous call. Several tensors are summed in place: they are submitted one by one,
    and then all are waited for.
    """

    name: str
    elements: tuple[int, ...]
    count: int  # repetitions in one block
    bucket_bytes: int = 0  # size of the buckets into which rivals without fusion pack tensors; 0 for no packing
    operation: str = "allreduce"  # it and broadcast (from rank 0) are in place; others allocate each result
    # Repetitions before the block. A name is negotiated in its first operation, and gets its fast-path cell when it is
    # repeated. Large tensors need more repetitions until the last-level cache holds the memory: some machines need 20.
    warm: int = 2

    @property
    def bytes(self) -> int:
        return 4 * sum(self.elements)

    @property
    def result(self) -> str:
        """Where the result is written, in Farandole and in all rivals: "in place" or "allocated"."""
        return "in place" if self.operation in ("allreduce", "broadcast") else "allocated"


def named_tensors(work: Work, tensors: list[Any]) -> list[tuple[Any, str]]:
    """Tensors with names like those of a model's gradients. Names are ASCII, and the same in every block."""
    prefix = work.name.replace(" × ", "x").replace(" ", "_")
    return [(tensor, f"{prefix}.{index}.weight") for index, tensor in enumerate(tensors)]


RESNET = tuple(resnet50_gradients())
SMALL = (256,) * 1000
OTHERS = ("allgather", "alltoall", "broadcast", "reducescatter")

WORKS = [
    Work("4 B", (1,), 200),
    Work("64 KiB", (16 * 1024,), 100),
    Work("128 KiB", (MIB // 32,), 100, warm=8),
    Work("256 KiB", (MIB // 16,), 80, warm=8),
    Work("512 KiB", (MIB // 8,), 60, warm=8),
    Work("1 MiB", (MIB // 4,), 40, warm=8),
    Work("2 MiB", (MIB // 2,), 30, warm=8),
    Work("4 MiB", (MIB,), 20, warm=8),
    Work("16 MiB", (4 * MIB,), 8, warm=8),
    Work("64 MiB", (16 * MIB,), 3),
    Work("256 MiB", (64 * MIB,), 1),
    Work("ResNet-50", RESNET, 2, bucket_bytes=25 * MIB),
    Work("1000 × 1 KiB", SMALL, 5, warm=3),
    Work("1000 × 1 KiB, buckets", SMALL, 10, bucket_bytes=25 * MIB),
    Work("allgather 16 MiB a rank", (4 * MIB,), 8, operation="allgather", warm=8),
    Work("alltoall 16 MiB a rank", (4 * MIB,), 8, operation="alltoall", warm=8),
    Work("broadcast 64 MiB", (16 * MIB,), 8, operation="broadcast", warm=8),
    Work("reducescatter 64 MiB", (16 * MIB,), 8, operation="reducescatter", warm=8),
]

# The overhead of an operation beyond moving its bytes is the time of the first less the time of the second.
ON_AND_ON = Work("1000 × 1 KiB, on and on", SMALL, 10, warm=10)
AT_ONCE = Work("1000 KiB at once", (256 * 1000,), 10)

SMOKE_WORKS = [
    Work("4 B", (1,), 5),
    Work("64 KiB", (16 * 1024,), 5),
    Work("ResNet-50", tuple(n // 64 + 1 for n in RESNET), 1, bucket_bytes=25 * MIB // 64),
    Work("1000 × 1 KiB", SMALL[:50], 1),
    Work("1000 × 1 KiB, buckets", SMALL[:50], 1, bucket_bytes=25 * MIB),
    *(Work(f"{operation} 48 KiB", (12 * 1024,), 2, operation=operation) for operation in OTHERS),
]
RESULTS = {work.name: work.result for work in (*WORKS, *SMOKE_WORKS)}


@dataclass(frozen=True)
class Wanted:
    """A target: the maximum share of a rival's time."""

    work: str
    stack: str  # ours
    rival: str
    share: Optional[float]  # None: report only
    rival_work: str = ""  # if the rival's work has another name

    @property
    def of(self) -> str:
        return self.rival_work or self.work


WANTED = [
    Wanted("4 B", "farandole", "horovod", 0.03),
    Wanted("4 B", "farandole", "gloo", 0.1),
    Wanted("4 B", "farandole", "mpi4py", 1.2),
    Wanted("64 KiB", "farandole", "horovod", 0.05),
    Wanted("64 KiB", "farandole", "gloo", 0.15),
    Wanted("64 KiB", "farandole", "mpi4py", 0.8),
    Wanted("128 KiB", "farandole", "mpi4py", 0.8),
    Wanted("256 KiB", "farandole", "mpi4py", 0.8),
    Wanted("512 KiB", "farandole", "mpi4py", 0.8),
    Wanted("1 MiB", "farandole", "mpi4py", 0.8),
    Wanted("2 MiB", "farandole", "mpi4py", 0.8),
    Wanted("4 MiB", "farandole", "mpi4py", 1.0),
    Wanted("16 MiB", "farandole", "mpi4py", 1.0),
    Wanted("4 B", "farandole without fast path", "horovod", 0.15),
    Wanted("4 B", "farandole without fast path", "gloo", 0.8),
    Wanted("64 MiB", "farandole", "horovod", 0.5),
    Wanted("64 MiB", "farandole", "gloo", 0.5),
    Wanted("64 MiB", "farandole", "mpi4py", 0.7),
    Wanted("256 MiB", "farandole", "horovod", 0.5),
    Wanted("256 MiB", "farandole", "gloo", 0.5),
    Wanted("256 MiB", "farandole", "mpi4py", 0.7),
    Wanted("ResNet-50", "farandole", "horovod", 0.7),
    Wanted("ResNet-50", "farandole", "gloo", 0.5),
    Wanted("ResNet-50", "farandole", "mpi4py", 0.9),
    Wanted("1000 × 1 KiB", "farandole", "horovod", 0.4),
    Wanted("1000 × 1 KiB", "farandole", "gloo", 0.1),
    Wanted("1000 × 1 KiB", "farandole", "gloo", 1.0, "1000 × 1 KiB, buckets"),
    *(
        Wanted(work.name, "farandole", rival, share)
        for work in WORKS
        if work.operation in OTHERS
        for rival, share in (("horovod", 0.3), ("gloo", 0.5), ("mpi4py", 1.0))
    ),
]

# Targets other than shares of a rival's time.
OVERHEAD_WANTED_US = 3.0
OVERHEAD_BLOCKS = 20  # a round
FULL_SPEED = 1.15  # times the fastest yardstick of the run: up to this the machine counts as at full speed
MEMORY_WANTED_MIB = 48.0
IDLE_CORE_SHARE_WANTED = 0.001
IDLE_WAKEUPS_WANTED = 5.0
INIT_WANTED_MS = 100.0
