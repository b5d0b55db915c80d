"""More rows from one rank than int32 counts."""

from __future__ import annotations

from pathlib import Path

import horovod.torch as hvd
import pytest
import torch

MANY = 2**31 + 8
NEEDED_KIB = 16 << 20


def available_kib() -> int:
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(lines["MemAvailable"].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("as_tensor", [False, True], ids=["list", "tensor"])
def test_all_rows_arrive_in_their_order(as_tensor: bool, name: str, rank: int, size: int) -> None:
    if hvd.allreduce(torch.tensor(available_kib()), op=hvd.Min, name=f"{name}.memory") < NEEDED_KIB:
        pytest.skip("less than 16 GiB of memory are available")
    splits = [0] * size
    splits[-1] = MANY if rank == 0 else 0
    sent = torch.ones(sum(splits), dtype=torch.int8)
    marks = torch.arange(2, 18, dtype=torch.int8)
    if rank == 0:
        sent[-16:] = marks  # on both sides of row 2^31
    received, counts = hvd.alltoall(sent, torch.tensor(splits) if as_tensor else splits, name=name)
    assert counts.tolist() == ([MANY] if rank == size - 1 else [0]) + [0] * (size - 1)
    assert len(received) == sum(counts)
    if rank == size - 1:
        assert torch.equal(received[-16:], marks)
        assert bool((received[:-16] == 1).all())
