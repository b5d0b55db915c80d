"""What the runtime holds on to: results go when the caller lets them go, not when their names come again."""

import pathlib
import resource

import horovod.torch as hvd
import torch

MIB = 1024 * 1024


def resident() -> int:
    """Bytes of this process in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_results_go_with_their_last_user() -> None:
    mine = torch.ones(MIB)  # 4 MiB
    whole = 4 * MIB * hvd.size()
    hvd.allgather(mine)
    before = resident()
    for _ in range(30):
        assert hvd.allgather(mine).numel() == hvd.size() * MIB  # each has a name of its own
    assert resident() - before < 5 * whole


def test_a_result_outlives_later_ones_of_its_name() -> None:
    mine = torch.full((MIB,), float(hvd.rank()))
    first = hvd.allgather(mine, name="outlived")
    for round in range(3):
        hvd.allgather(mine + 100 + round, name="outlived")
    for rank in range(hvd.size()):
        assert bool((first[rank * MIB : (rank + 1) * MIB] == rank).all())
