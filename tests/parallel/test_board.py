"""A round on the fast path that one rank does not join is taken back: by a mismatch, by a join, by a new generation.

Each test first makes sure that its tensor is on the fast path. After a round was taken back, the buffer of the rank
that waited holds the values that this rank put there.
"""

from __future__ import annotations

import os
from pathlib import Path

import horovod.torch as hvd
import pytest
import torch
from farandole import _native
from farandole.common import job, operations

pytestmark = [
    pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks"),
    pytest.mark.skipif(
        os.environ.get("FARANDOLE_FAST_PATH") == "0" or os.environ.get("FARANDOLE_CPU_PATH", "") not in ("", "local"),
        reason="needs the board",
    ),
]


def on_board() -> int:
    return int(job.runtime.counters()["on_fast_path"])


def sit_down(name: str, size: int, elements: int = 8) -> None:
    """Brings a tensor onto the fast path, on all ranks."""
    for _ in range(200):
        before = on_board()
        assert hvd.allreduce(torch.ones(elements), name=name, op=hvd.Sum)[0].item() == size
        # Ranks learn of the cell at their own pace; all are there when all say so.
        seated = torch.tensor([float(on_board() - before >= 1)])
        if hvd.allreduce(seated, name=f"{name}.seated", op=hvd.Min).item() == 1:
            return
    pytest.fail("the tensor never came to the board")


def seat_barriers(name: str) -> None:
    """Brings barriers onto the fast path, on all ranks."""
    for _ in range(200):
        before = on_board()
        hvd.barrier()
        seated = torch.tensor([float(on_board() - before == 1)])
        if hvd.allreduce(seated, name=f"{name}.seated", op=hvd.Min).item() == 1:
            return
    pytest.fail("barriers never came to the board")


def submit_as_broadcast(tensor: torch.Tensor, name: str) -> None:
    request = _native.Request(operations.BROADCAST, "allreduce", hvd.Sum, 0, 1.0, 1.0)
    job.runtime.submit(request, name, tensor, tensor, 0).wait()


@pytest.mark.parametrize("what", ["shape", "dtype", "operation", "reduce op"])
def test_a_mismatch_takes_the_round_back(what: str, name: str, rank: int, size: int) -> None:
    sit_down(name, size)
    odd = rank == size - 1
    tensor = torch.full((8,), float(rank))
    if odd and what == "shape":
        tensor = torch.full((9,), float(rank))
    if odd and what == "dtype":
        tensor = tensor.double()
    kept = tensor.clone()
    with pytest.raises(hvd.HorovodInternalError, match="allreduce" if what != "operation" else "operation"):
        if odd and what == "operation":
            # An allreduce's full name under a broadcast: what a script with a branch too many would do.
            submit_as_broadcast(tensor, name)
        else:
            op = hvd.Max if odd and what == "reduce op" else hvd.Sum
            hvd.allreduce_(tensor, name=name, op=op)
    assert torch.equal(tensor, kept)
    sit_down(name, size)


def test_a_join_takes_the_round_back_and_zeros_stand_in(name: str, rank: int, size: int) -> None:
    sit_down(name, size)
    if rank == 0:
        # The others may have joined already, or join while this rank waits on the fast path.
        tensor = torch.arange(8.0)
        hvd.allreduce_(tensor, name=name, op=hvd.Sum)
        assert torch.equal(tensor, torch.arange(8.0))
    assert hvd.join() in range(size)
    sit_down(name, size)


def test_a_new_generation_takes_the_round_back(name: str, rank: int, size: int) -> None:
    sit_down(name, size)
    if rank == 0:
        tensor = torch.arange(8.0)
        with pytest.raises(hvd.HorovodInternalError, match=r"called shutdown\(\)|shut down"):
            # Where the others have left already the call itself fails, else the wait on the fast path.
            hvd.allreduce_(tensor, name=name, op=hvd.Sum)
        assert torch.equal(tensor, torch.arange(8.0))
    hvd.shutdown()
    hvd.init()
    assert on_board() == 0
    sit_down(name, size)
    assert on_board() > 0


def test_every_round_is_complete_when_one_rank_changes_its_mind(name: str, rank: int, size: int) -> None:
    """Rank 0 is rounds ahead of what the others see: nobody may be left with half of a round."""
    sit_down(name, size)
    for step in range(50):
        elements = 8 if step % 10 else 16 + step
        tensor = torch.full((elements,), float(rank + step))
        hvd.allreduce_(tensor, name=name, op=hvd.Sum)
        assert torch.equal(tensor, torch.full((elements,), float(sum(range(size)) + size * step)))


def test_nobody_leaves_a_barrier_on_the_board_before_all_have_come(name: str, rank: int, tmp_path: Path) -> None:
    seat_barriers(name)
    folder = Path(hvd.broadcast_object(str(tmp_path), name=f"{name}.folder"))
    for step in range(100):
        if rank == step % hvd.size():
            (folder / str(step)).touch()
        hvd.barrier()
        assert (folder / str(step)).exists()


def test_a_barrier_on_the_board_ends_when_the_others_join(name: str, rank: int, size: int) -> None:
    seat_barriers(name)
    if rank == 0:
        hvd.barrier()
    assert hvd.join() in range(size)
    seat_barriers(name)


def test_a_barrier_on_the_board_fails_with_its_generation(name: str, rank: int) -> None:
    seat_barriers(name)
    if rank == 0:
        with pytest.raises(hvd.HorovodInternalError, match=r"called shutdown\(\)|shut down"):
            hvd.barrier()
    hvd.shutdown()
    hvd.init()
    seat_barriers(name)
