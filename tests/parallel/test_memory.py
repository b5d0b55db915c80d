"""Memory of results: the runtime frees a result when the caller drops it, not when its name is used again."""

import pathlib
import resource

import horovod.torch as hvd
import torch

MIB = 1024 * 1024


def resident() -> int:
    """Bytes of this process in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_result_is_freed_when_the_caller_drops_it() -> None:
    tensor = torch.ones(MIB)  # 4 MiB
    result_bytes = 4 * MIB * hvd.size()
    hvd.allgather(tensor)
    before = resident()
    for _ in range(30):
        assert hvd.allgather(tensor).numel() == hvd.size() * MIB  # each unnamed call has its own name
    assert resident() - before < 5 * result_bytes


def test_a_result_outlives_later_results_of_the_same_name() -> None:
    tensor = torch.full((MIB,), float(hvd.rank()))
    first = hvd.allgather(tensor, name="outlived")
    for round in range(3):
        hvd.allgather(tensor + 100 + round, name="outlived")
    for rank in range(hvd.size()):
        assert bool((first[rank * MIB : (rank + 1) * MIB] == rank).all())
