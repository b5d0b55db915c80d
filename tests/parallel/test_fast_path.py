"""A mismatch, a join or a new generation withdraws a round on the fast path that one rank does not enter.

Each test first makes sure that its tensor is on the fast path. After a withdrawal, the buffer of the rank that waited
holds the values that this rank put there.
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
        reason="needs the fast path",
    ),
]


def fast_path_count() -> int:
    return int(job.runtime.counters()["on_fast_path"])


def reach_fast_path(name: str, size: int, elements: int = 8) -> None:
    """Brings a tensor onto the fast path, on all ranks."""
    for _ in range(200):
        before = fast_path_count()
        assert hvd.allreduce(torch.ones(elements), name=name, op=hvd.Sum)[0].item() == size
        # Ranks learn of the cell at different times; every rank uses it once all ranks report it.
        on_fast_path = torch.tensor([float(fast_path_count() - before >= 1)])
        if hvd.allreduce(on_fast_path, name=f"{name}.seated", op=hvd.Min).item() == 1:
            return
    pytest.fail("the tensor never reached the fast path")


def bring_barriers_to_fast_path(name: str) -> None:
    """Brings barriers onto the fast path, on all ranks."""
    for _ in range(200):
        before = fast_path_count()
        hvd.barrier()
        on_fast_path = torch.tensor([float(fast_path_count() - before == 1)])
        if hvd.allreduce(on_fast_path, name=f"{name}.seated", op=hvd.Min).item() == 1:
            return
    pytest.fail("barriers never reached the fast path")


def submit_as_broadcast(tensor: torch.Tensor, name: str) -> None:
    request = _native.Request(operations.BROADCAST, "allreduce", hvd.Sum, 0, 1.0, 1.0)
    job.runtime.submit(request, name, tensor, tensor, 0).wait()


@pytest.mark.parametrize("mismatch", ["shape", "dtype", "operation", "reduce op"])
def test_a_mismatch_fails_the_round_and_restores_the_buffers(mismatch: str, name: str, rank: int, size: int) -> None:
    reach_fast_path(name, size)
    differs = rank == size - 1
    tensor = torch.full((8,), float(rank))
    if differs and mismatch == "shape":
        tensor = torch.full((9,), float(rank))
    if differs and mismatch == "dtype":
        tensor = tensor.double()
    original = tensor.clone()
    with pytest.raises(hvd.HorovodInternalError, match="allreduce" if mismatch != "operation" else "operation"):
        if differs and mismatch == "operation":
            # A broadcast under an allreduce's full name, as from a script whose ranks take different branches.
            submit_as_broadcast(tensor, name)
        else:
            op = hvd.Max if differs and mismatch == "reduce op" else hvd.Sum
            hvd.allreduce_(tensor, name=name, op=op)
    assert torch.equal(tensor, original)
    reach_fast_path(name, size)


def test_a_join_withdraws_the_round_and_joined_ranks_contribute_zeros(name: str, rank: int, size: int) -> None:
    reach_fast_path(name, size)
    if rank == 0:
        # The other ranks may have joined already, or join while this rank waits on the fast path.
        tensor = torch.arange(8.0)
        hvd.allreduce_(tensor, name=name, op=hvd.Sum)
        assert torch.equal(tensor, torch.arange(8.0))
    assert hvd.join() in range(size)
    reach_fast_path(name, size)


def test_a_new_generation_fails_the_round_and_restores_the_buffer(name: str, rank: int, size: int) -> None:
    reach_fast_path(name, size)
    if rank == 0:
        tensor = torch.arange(8.0)
        with pytest.raises(hvd.HorovodInternalError, match=r"called shutdown\(\)|shut down"):
            # If the other ranks have left already, the call fails at once; otherwise its wait on the fast path fails.
            hvd.allreduce_(tensor, name=name, op=hvd.Sum)
        assert torch.equal(tensor, torch.arange(8.0))
    hvd.shutdown()
    hvd.init()
    assert fast_path_count() == 0
    reach_fast_path(name, size)
    assert fast_path_count() > 0


def refused_in_child(handle: int) -> bool:
    """Whether this handle has ended with an error in a forked child, which can drop it."""
    if not hvd.poll(handle):
        return False
    for call in (hvd.synchronize, lambda _: hvd.allreduce(torch.ones(1))):
        try:
            call(handle)
        except hvd.HorovodInternalError as problem:
            if "forked" in str(problem):
                continue
        return False
    return True


def test_a_forked_child_cannot_use_an_operation_in_flight(name: str, rank: int, size: int) -> None:
    reach_fast_path(name, size)
    tensor = torch.ones(8)
    if rank == 0:
        handle = hvd.allreduce_async_(tensor, name=name, op=hvd.Sum)
        child = os.fork()
        if child == 0:
            is_refused = False
            try:
                is_refused = refused_in_child(handle)
            finally:
                os._exit(not is_refused)
        assert os.waitpid(child, 0)[1] == 0
    hvd.barrier()
    if rank > 0:
        handle = hvd.allreduce_async_(tensor, name=name, op=hvd.Sum)
    assert hvd.synchronize(handle).tolist() == [size] * 8


def test_every_round_completes_when_the_shape_changes_between_rounds(name: str, rank: int, size: int) -> None:
    """A rank may be rounds ahead of the other ranks; every rank must complete each round."""
    reach_fast_path(name, size)
    for step in range(50):
        elements = 8 if step % 10 else 16 + step
        tensor = torch.full((elements,), float(rank + step))
        hvd.allreduce_(tensor, name=name, op=hvd.Sum)
        assert torch.equal(tensor, torch.full((elements,), float(sum(range(size)) + size * step)))


def test_a_barrier_on_the_fast_path_completes_only_after_all_arrive(name: str, rank: int, tmp_path: Path) -> None:
    bring_barriers_to_fast_path(name)
    folder = Path(hvd.broadcast_object(str(tmp_path), name=f"{name}.folder"))
    for step in range(100):
        if rank == step % hvd.size():
            (folder / str(step)).touch()
        hvd.barrier()
        assert (folder / str(step)).exists()


def test_a_barrier_on_the_fast_path_completes_when_the_other_ranks_join(name: str, rank: int, size: int) -> None:
    bring_barriers_to_fast_path(name)
    if rank == 0:
        hvd.barrier()
    assert hvd.join() in range(size)
    bring_barriers_to_fast_path(name)


def test_a_barrier_on_the_fast_path_fails_when_its_generation_ends(name: str, rank: int) -> None:
    bring_barriers_to_fast_path(name)
    if rank == 0:
        with pytest.raises(hvd.HorovodInternalError, match=r"called shutdown\(\)|shut down"):
            hvd.barrier()
    hvd.shutdown()
    hvd.init()
    bring_barriers_to_fast_path(name)
