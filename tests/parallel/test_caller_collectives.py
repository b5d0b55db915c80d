"""Collectives that all ranks wait for are run by their callers, once their names are known.

Each test first makes sure that its tensor is on the fast path, where callers agree on a collective.
"""

from __future__ import annotations

import os
from typing import Callable, Iterator, List

import horovod.torch as hvd
import pytest
import torch
from farandole.common import job

pytestmark = [
    pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks"),
    pytest.mark.skipif(
        os.environ.get("FARANDOLE_FAST_PATH") == "0" or os.environ.get("FARANDOLE_CPU_PATH", "") not in ("", "local"),
        reason="needs the board",
    ),
]


def on_board() -> int:
    return int(job.runtime.counters()["on_fast_path"])


def sit_down(call: Callable[..., object], name: str, *arguments: object) -> None:
    """Calls until it has been on the fast path, on all ranks."""
    for _ in range(200):
        before = on_board()
        call(*arguments)
        seated = torch.tensor([float(on_board() - before >= 1)])
        if hvd.allreduce(seated, name=f"{name}.seated", op=hvd.Min).item() == 1:
            return
    pytest.fail("the tensor never came to the board")


def stays(call: Callable[..., object], *arguments: object) -> None:
    before = on_board()
    call(*arguments)
    assert on_board() == before + 1


def splits_of(rank: int, size: int, step: int) -> List[int]:
    return [(rank + 2 * target + step) % 4 for target in range(size)]


def dealt(rank: int, size: int, step: int, rows: int) -> torch.Tensor:
    """Every row tells where it comes from, where it goes and when; those that are left go to the last rank."""
    splits = splits_of(rank, size, step)
    splits[-1] += rows - sum(splits)
    targets = torch.arange(size).repeat_interleave(torch.tensor(splits))
    return (rank * 10_000 + targets * 100 + step).to(torch.float64).unsqueeze(1).expand(-1, 3).contiguous()


SIZES = [20_000, 70_001, 600_000, 3_000_000]
"""Floats: more than a cell holds whole, one chunk, several chunks, more than is staged at a time."""


def values(rank: int, size: int, step: int) -> torch.Tensor:
    return torch.arange(size, dtype=torch.float64) % 97 * (rank + 1) + step


def total(ranks: int, size: int, step: int) -> torch.Tensor:
    return sum((values(rank, size, step) for rank in range(ranks)), torch.zeros(1, dtype=torch.float64))


@pytest.mark.parametrize("elements", SIZES)
def test_sums_of_any_size(elements: int, name: str, rank: int, size: int) -> None:
    def reduce(step: int) -> None:
        own = values(rank, elements, step)
        assert torch.equal(hvd.allreduce(own, name=name, op=hvd.Sum), total(size, elements, step))
        assert torch.equal(own, values(rank, elements, step))

    sit_down(reduce, name, 0)
    for step in range(6):
        stays(reduce, step)


@pytest.mark.parametrize("elements", SIZES)
def test_sums_in_place(elements: int, name: str, rank: int, size: int) -> None:
    def reduce(step: int) -> None:
        own = values(rank, elements, step)
        hvd.allreduce_(own, name=name, op=hvd.Sum)
        assert torch.equal(own, total(size, elements, step))

    sit_down(reduce, name, 0)
    for step in range(6):
        stays(reduce, step)


@pytest.mark.parametrize("elements", SIZES)
def test_broadcasts_of_any_size(elements: int, name: str, rank: int, size: int) -> None:
    root = size - 1

    def spread(step: int) -> None:
        own = values(rank, elements, step)
        hvd.broadcast_(own, root, name=name)
        assert torch.equal(own, values(root, elements, step))

    sit_down(spread, name, 0)
    for step in range(6):
        stays(spread, step)


@pytest.mark.parametrize("rows", [1, 7, 5_001, 90_000])
def test_segments_of_any_size(rows: int, name: str, rank: int, size: int) -> None:
    counts = [rows // size + (each < rows % size) for each in range(size)]
    begin = sum(counts[:rank])

    def scatter(step: int) -> None:
        own = values(rank, 8 * rows, step).reshape(rows, 8)
        wanted = total(size, 8 * rows, step).reshape(rows, 8)[begin : begin + counts[rank]]
        assert torch.equal(hvd.reducescatter(own, name=name, op=hvd.Sum), wanted)

    sit_down(scatter, name, 0)
    for step in range(6):
        stays(scatter, step)


def test_tensors_of_a_group_take_the_board_together(name: str, rank: int, size: int) -> None:
    sizes = [3, 100_000, 129, 60_000]

    def reduce(step: int) -> None:
        tensors = [values(rank, each, step) for each in sizes]
        for each, came in zip(sizes, hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum)):
            assert torch.equal(came, total(size, each, step))

    for step in range(4):
        reduce(step)
    before = on_board()
    for step in range(10):
        reduce(step)
    assert on_board() == before + 10 * len(sizes)


def test_a_group_with_a_tensor_that_differs_fails_for_that_one(name: str, rank: int, size: int) -> None:
    tensors = [torch.ones(5), torch.ones(70_000)]
    for _ in range(4):
        hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum)
    odd = [tensors[0], torch.ones(70_000, dtype=torch.float64) if rank == 0 else tensors[1]]
    with pytest.raises(hvd.HorovodInternalError, match="float64"):
        hvd.grouped_allreduce(odd, name=name, op=hvd.Sum)
    for _ in range(4):
        came = hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum)
        assert all(bool((each == size).all()) for each in came)


def test_an_asynchronous_sum_of_one_rank_leaves_the_board(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(50_000)
    sit_down(lambda: hvd.allreduce(tensor, name=name, op=hvd.Sum), name)
    for late in (0, size - 1, None):
        if rank == late or late is None:
            came = hvd.synchronize(hvd.allreduce_async(tensor, name=name, op=hvd.Sum))
        else:
            came = hvd.allreduce(tensor, name=name, op=hvd.Sum)
        assert bool((came == size).all())


def test_rows_are_dealt_anew_at_every_step(name: str, rank: int, size: int) -> None:
    rows = 4 * size

    def exchange(step: int) -> None:
        tensor = dealt(rank, size, step, rows)
        splits = splits_of(rank, size, step)
        splits[-1] += rows - sum(splits)
        came, received = hvd.alltoall(tensor, splits=torch.tensor(splits, dtype=torch.int32), name=name)
        tensor.fill_(-1)  # the others have what they need of it
        wanted = torch.cat([each[each[:, 0] % 10_000 // 100 == rank] for each in map(brought(step), range(size))])
        assert torch.equal(came, wanted)
        assert sum(received.tolist()) == len(came)

    def brought(step: int) -> Callable[[int], torch.Tensor]:
        return lambda source: dealt(source, size, step, rows)

    sit_down(exchange, name, 0)
    for step in range(100):
        stays(exchange, step)


@pytest.mark.parametrize("megabytes", [0, 1, 9])
def test_an_input_may_be_overwritten_at_once(megabytes: int, name: str, rank: int, size: int) -> None:
    tensor = torch.zeros(size * max(4, megabytes << 18))

    def exchange(step: int) -> None:
        tensor.fill_(rank + 10 * step)
        came = hvd.alltoall(tensor, name=name)
        tensor.fill_(-1)
        for source, piece in enumerate(came.chunk(size)):
            assert bool((piece == source + 10 * step).all())

    sit_down(exchange, name, 0)
    for step in range(8):
        stays(exchange, step)


def test_results_of_changing_size_are_kept_whole(name: str, rank: int, size: int) -> None:
    """Large ones are written by the other ranks, into a place as large as what came before."""
    rows = 4 * size

    def splits(source: int, step: int) -> List[int]:
        some = splits_of(source, size, step)
        some[-1] += rows - sum(some)
        return some

    def exchange(step: int) -> torch.Tensor:
        own = torch.tensor(splits(rank, step), dtype=torch.int32)
        targets = torch.arange(float(size)).repeat_interleave(own)
        tensor = (targets + 10 * rank + 100 * step).unsqueeze(1).expand(-1, 40_000).contiguous()
        came, received = hvd.alltoall(tensor, splits=own, name=name)
        tensor.fill_(-1)
        assert received.tolist() == [splits(source, step)[rank] for source in range(size)]
        return came

    def wanted(step: int) -> torch.Tensor:
        received = torch.tensor([splits(source, step)[rank] for source in range(size)])
        each = (torch.arange(float(size)) * 10 + rank + 100 * step).repeat_interleave(received)
        return each.unsqueeze(1).expand(-1, 40_000)

    sit_down(exchange, name, 0)
    kept: List[torch.Tensor] = []
    for step in range(30):
        stays(lambda now=step: kept.append(exchange(now)))  # type: ignore[misc]
    for step, came in enumerate(kept):
        assert torch.equal(came, wanted(step))


def test_large_gathered_results_are_kept_whole(name: str, rank: int, size: int) -> None:
    def gather(step: int) -> torch.Tensor:
        return hvd.allgather(torch.full((1 + rank % 3, 50_000), float(rank + 10 * step)), name=name)

    sit_down(gather, name, 0)
    kept: List[torch.Tensor] = []
    for step in range(12):
        stays(lambda now=step: kept.append(gather(now)))  # type: ignore[misc]
    rows = torch.tensor([1 + source % 3 for source in range(size)])
    for step, came in enumerate(kept):
        wanted = (torch.arange(float(size)) + 10 * step).repeat_interleave(rows)
        assert torch.equal(came, wanted.unsqueeze(1).expand(-1, 50_000))


def test_every_rank_gathers_its_own_number_of_rows(name: str, rank: int, size: int) -> None:
    def gather(step: int) -> None:
        came = hvd.allgather(torch.full((3 * rank, 2), float(rank + 10 * step)), name=name)
        counts = torch.arange(size) * 3
        wanted = (torch.arange(size) + 10 * step).repeat_interleave(counts)
        assert torch.equal(came, wanted.float().unsqueeze(1).expand(-1, 2))

    sit_down(gather, name, 0)
    for step in range(50):
        stays(gather, step)


def test_results_outlive_later_steps(name: str, rank: int, size: int) -> None:
    tensor = torch.zeros(size, 4)
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)
    kept = [hvd.alltoall(tensor + step, name=name) for step in range(20)]
    assert all(bool((each == step).all()) for step, each in enumerate(kept))


def test_an_asynchronous_call_of_one_rank_leaves_the_board(name: str, rank: int, size: int) -> None:
    tensor = torch.full((size, 2), float(rank))
    wanted = torch.arange(float(size)).unsqueeze(1).expand(-1, 2)
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)
    for late in (0, size - 1, None):
        if rank == late or late is None:
            came, _ = hvd.synchronize(hvd.alltoall_async(tensor, name=name))
        else:
            came = hvd.alltoall(tensor, name=name)
        assert torch.equal(came, wanted)
    for _ in range(5):
        assert torch.equal(hvd.alltoall(tensor, name=name), wanted)


def test_a_mismatch_is_told_to_all_and_the_job_goes_on(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(size, 2)
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)
    odd = tensor.double() if rank == size - 1 else tensor
    with pytest.raises(hvd.HorovodInternalError, match="float64"):
        hvd.alltoall(odd, name=name)
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)


def test_a_shape_that_changes_is_negotiated_again(name: str, rank: int, size: int) -> None:
    def exchange(each: int) -> None:
        came = hvd.alltoall(torch.full((each * size, 2), float(rank)), name=name)
        assert torch.equal(came[:, 0], torch.arange(float(size)).repeat_interleave(each))

    for each in (1, 2, 1):
        sit_down(exchange, name, each)


def test_who_joins_makes_the_others_refuse(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(size, 2)
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)
    if rank == 0:
        with pytest.raises(hvd.HorovodInternalError, match="join"):
            hvd.alltoall(tensor, name=name)
    assert hvd.join() in range(size)
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)


def test_a_new_generation_takes_the_round_back(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(size, 2)
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)
    if rank == size - 1:
        hvd.shutdown()
    else:
        with pytest.raises(hvd.HorovodInternalError):
            hvd.alltoall(tensor, name=name)
        hvd.shutdown()
    hvd.init()
    sit_down(lambda: hvd.alltoall(tensor, name=name), name)


@pytest.fixture
def dynamic() -> Iterator[None]:
    """A job whose process sets come and go."""
    hvd.shutdown()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
        hvd.init()
        yield
    hvd.shutdown()
    hvd.init()


@pytest.mark.usefixtures("dynamic")
def test_callers_of_a_process_set_run_its_collectives(name: str, rank: int, size: int) -> None:
    members = list(range(size // 2, size))
    some = hvd.add_process_set(members)
    if rank in members:
        tensor = torch.full((len(members), 2), float(rank))
        for _ in range(20):
            came = hvd.alltoall(tensor, name=name, process_set=some)
            assert torch.equal(came[:, 0], torch.tensor(members, dtype=torch.float))
    hvd.remove_process_set(some)
    hvd.barrier()  # nobody ends the job before all have removed it


def test_gradients_come_back_to_where_rows_came_from(name: str, rank: int, size: int) -> None:
    for _ in range(6):
        tensor = torch.full((size, 2), float(rank), requires_grad=True)
        came = hvd.alltoall(tensor, name=name)
        (came * (rank + 1)).sum().backward()
        assert tensor.grad is not None
        assert torch.equal(tensor.grad[:, 0], torch.arange(1.0, size + 1))
