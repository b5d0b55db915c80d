"""Collectives that waiting callers run themselves, once their names are known.

Each test first makes sure that its tensor is on the fast path, on which callers agree on a collective.
"""

from __future__ import annotations

import functools
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
        reason="needs the fast path",
    ),
]


def fast_path_count() -> int:
    return int(job.runtime.counters()["on_fast_path"])


def reach_fast_path(call: Callable[..., object], name: str, *arguments: object) -> None:
    """Repeats the call until it takes the fast path on all ranks."""
    for _ in range(200):
        before = fast_path_count()
        call(*arguments)
        on_fast_path = torch.tensor([float(fast_path_count() - before >= 1)])
        if hvd.allreduce(on_fast_path, name=f"{name}.seated", op=hvd.Min).item() == 1:
            return
    pytest.fail("the tensor never reached the fast path")


def assert_on_fast_path(call: Callable[..., object], *arguments: object) -> None:
    before = fast_path_count()
    call(*arguments)
    assert fast_path_count() == before + 1


def splits_of(rank: int, size: int, step: int) -> List[int]:
    return [(rank + 2 * target + step) % 4 for target in range(size)]


def labelled_rows(rank: int, size: int, step: int, rows: int) -> torch.Tensor:
    """Every row holds its source, target and step; the rows beyond the splits go to the last rank."""
    splits = splits_of(rank, size, step)
    splits[-1] += rows - sum(splits)
    targets = torch.arange(size).repeat_interleave(torch.tensor(splits))
    return (rank * 10_000 + targets * 100 + step).to(torch.float64).unsqueeze(1).expand(-1, 3).contiguous()


SIZES = [20_000, 70_001, 600_000, 3_000_000]
"""Elements: more than a cell holds, one chunk, several chunks, and more than is staged at a time."""


@functools.lru_cache
def pattern(size: int) -> torch.Tensor:
    return torch.arange(size, dtype=torch.float64) % 97


def values(rank: int, size: int, step: int) -> torch.Tensor:
    return pattern(size) * (rank + 1) + step


def total(ranks: int, size: int, step: int) -> torch.Tensor:
    """The sum of the values of all ranks."""
    return pattern(size) * (ranks * (ranks + 1) // 2) + ranks * step


@pytest.mark.parametrize("elements", SIZES)
def test_an_allreduce_of_any_size_stays_on_the_fast_path(elements: int, name: str, rank: int, size: int) -> None:
    def reduce(step: int) -> None:
        own = values(rank, elements, step)
        assert torch.equal(hvd.allreduce(own, name=name, op=hvd.Sum), total(size, elements, step))
        assert torch.equal(own, values(rank, elements, step))

    reach_fast_path(reduce, name, 0)
    for step in range(6):
        assert_on_fast_path(reduce, step)


@pytest.mark.parametrize("elements", SIZES)
def test_an_in_place_allreduce_stays_on_the_fast_path(elements: int, name: str, rank: int, size: int) -> None:
    def reduce(step: int) -> None:
        own = values(rank, elements, step)
        hvd.allreduce_(own, name=name, op=hvd.Sum)
        assert torch.equal(own, total(size, elements, step))

    reach_fast_path(reduce, name, 0)
    for step in range(6):
        assert_on_fast_path(reduce, step)


@pytest.mark.parametrize("elements", SIZES)
def test_a_broadcast_of_any_size_stays_on_the_fast_path(elements: int, name: str, rank: int, size: int) -> None:
    root = size - 1

    def spread(step: int) -> None:
        own = values(rank, elements, step)
        hvd.broadcast_(own, root, name=name)
        assert torch.equal(own, values(root, elements, step))

    reach_fast_path(spread, name, 0)
    for step in range(6):
        assert_on_fast_path(spread, step)


@pytest.mark.parametrize("rows", [1, 7, 5_001, 90_000])
def test_a_reducescatter_of_any_size_stays_on_the_fast_path(rows: int, name: str, rank: int, size: int) -> None:
    counts = [rows // size + (other < rows % size) for other in range(size)]
    begin = sum(counts[:rank])

    def scatter(step: int) -> None:
        own = values(rank, 8 * rows, step).reshape(rows, 8)
        wanted = total(size, 8 * rows, step).reshape(rows, 8)[begin : begin + counts[rank]]
        assert torch.equal(hvd.reducescatter(own, name=name, op=hvd.Sum), wanted)

    reach_fast_path(scatter, name, 0)
    for step in range(6):
        assert_on_fast_path(scatter, step)


def test_the_tensors_of_a_group_take_the_fast_path_together(name: str, rank: int, size: int) -> None:
    sizes = [3, 100_000, 129, 60_000]

    def reduce(step: int) -> None:
        tensors = [values(rank, count, step) for count in sizes]
        for count, result in zip(sizes, hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum)):
            assert torch.equal(result, total(size, count, step))

    for step in range(4):
        reduce(step)
    before = fast_path_count()
    for step in range(10):
        reduce(step)
    assert fast_path_count() == before + 10 * len(sizes)


def test_a_group_with_one_mismatched_tensor_fails_with_its_mismatch(name: str, rank: int, size: int) -> None:
    tensors = [torch.ones(5), torch.ones(70_000)]
    for _ in range(4):
        hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum)
    differing = [tensors[0], torch.ones(70_000, dtype=torch.float64) if rank == 0 else tensors[1]]
    with pytest.raises(hvd.HorovodInternalError, match="float64"):
        hvd.grouped_allreduce(differing, name=name, op=hvd.Sum)
    for _ in range(4):
        result = hvd.grouped_allreduce(tensors, name=name, op=hvd.Sum)
        assert all(bool((tensor == size).all()) for tensor in result)


def test_an_asynchronous_allreduce_on_one_rank_leaves_the_fast_path(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(50_000)
    reach_fast_path(lambda: hvd.allreduce(tensor, name=name, op=hvd.Sum), name)
    for late in (0, size - 1, None):
        if rank == late or late is None:
            result = hvd.synchronize(hvd.allreduce_async(tensor, name=name, op=hvd.Sum))
        else:
            result = hvd.allreduce(tensor, name=name, op=hvd.Sum)
        assert bool((result == size).all())


def test_alltoall_splits_may_change_at_every_step(name: str, rank: int, size: int) -> None:
    rows = 4 * size

    def exchange(step: int) -> None:
        tensor = labelled_rows(rank, size, step, rows)
        splits = splits_of(rank, size, step)
        splits[-1] += rows - sum(splits)
        result, received = hvd.alltoall(tensor, splits=torch.tensor(splits, dtype=torch.int32), name=name)
        tensor.fill_(-1)  # the other ranks have read their rows
        wanted = torch.cat([sent[sent[:, 0] % 10_000 // 100 == rank] for sent in map(sent_at(step), range(size))])
        assert torch.equal(result, wanted)
        assert sum(received.tolist()) == len(result)

    def sent_at(step: int) -> Callable[[int], torch.Tensor]:
        return lambda source: labelled_rows(source, size, step, rows)

    reach_fast_path(exchange, name, 0)
    for step in range(100):
        assert_on_fast_path(exchange, step)


@pytest.mark.parametrize("megabytes", [0, 1, 9])
def test_an_alltoall_input_may_be_overwritten_after_the_call(megabytes: int, name: str, rank: int, size: int) -> None:
    tensor = torch.zeros(size * max(4, megabytes << 18))

    def exchange(step: int) -> None:
        tensor.fill_(rank + 10 * step)
        result = hvd.alltoall(tensor, name=name)
        tensor.fill_(-1)
        for source, piece in enumerate(result.chunk(size)):
            assert bool((piece == source + 10 * step).all())

    reach_fast_path(exchange, name, 0)
    for step in range(8):
        assert_on_fast_path(exchange, step)


def test_alltoall_results_of_changing_size_stay_intact(name: str, rank: int, size: int) -> None:
    """The other ranks write large results into memory that is as large as the previous result."""
    rows = 4 * size

    def splits(source: int, step: int) -> List[int]:
        some = splits_of(source, size, step)
        some[-1] += rows - sum(some)
        return some

    def exchange(step: int) -> torch.Tensor:
        own = torch.tensor(splits(rank, step), dtype=torch.int32)
        targets = torch.arange(float(size)).repeat_interleave(own)
        tensor = (targets + 10 * rank + 100 * step).unsqueeze(1).expand(-1, 40_000).contiguous()
        result, received = hvd.alltoall(tensor, splits=own, name=name)
        tensor.fill_(-1)
        assert received.tolist() == [splits(source, step)[rank] for source in range(size)]
        return result

    def wanted(step: int) -> torch.Tensor:
        received = torch.tensor([splits(source, step)[rank] for source in range(size)])
        numbers = (torch.arange(float(size)) * 10 + rank + 100 * step).repeat_interleave(received)
        return numbers.unsqueeze(1).expand(-1, 40_000)

    reach_fast_path(exchange, name, 0)
    kept: List[torch.Tensor] = []
    for step in range(30):
        assert_on_fast_path(lambda now=step: kept.append(exchange(now)))  # type: ignore[misc]
    for step, result in enumerate(kept):
        assert torch.equal(result, wanted(step))


def test_large_allgather_results_stay_intact(name: str, rank: int, size: int) -> None:
    def gather(step: int) -> torch.Tensor:
        return hvd.allgather(torch.full((1 + rank % 3, 50_000), float(rank + 10 * step)), name=name)

    reach_fast_path(gather, name, 0)
    kept: List[torch.Tensor] = []
    for step in range(12):
        assert_on_fast_path(lambda now=step: kept.append(gather(now)))  # type: ignore[misc]
    rows = torch.tensor([1 + source % 3 for source in range(size)])
    for step, result in enumerate(kept):
        wanted = (torch.arange(float(size)) + 10 * step).repeat_interleave(rows)
        assert torch.equal(result, wanted.unsqueeze(1).expand(-1, 50_000))


def test_ranks_may_contribute_different_row_counts_to_allgather(name: str, rank: int, size: int) -> None:
    def gather(step: int) -> None:
        result = hvd.allgather(torch.full((3 * rank, 2), float(rank + 10 * step)), name=name)
        counts = torch.arange(size) * 3
        wanted = (torch.arange(size) + 10 * step).repeat_interleave(counts)
        assert torch.equal(result, wanted.float().unsqueeze(1).expand(-1, 2))

    reach_fast_path(gather, name, 0)
    for step in range(50):
        assert_on_fast_path(gather, step)


def test_alltoall_results_outlive_later_steps(name: str, rank: int, size: int) -> None:
    tensor = torch.zeros(size, 4)
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)
    kept = [hvd.alltoall(tensor + step, name=name) for step in range(20)]
    assert all(bool((result == step).all()) for step, result in enumerate(kept))


def test_an_asynchronous_alltoall_on_one_rank_leaves_the_fast_path(name: str, rank: int, size: int) -> None:
    tensor = torch.full((size, 2), float(rank))
    wanted = torch.arange(float(size)).unsqueeze(1).expand(-1, 2)
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)
    for late in (0, size - 1, None):
        if rank == late or late is None:
            result, _ = hvd.synchronize(hvd.alltoall_async(tensor, name=name))
        else:
            result = hvd.alltoall(tensor, name=name)
        assert torch.equal(result, wanted)
    for _ in range(5):
        assert torch.equal(hvd.alltoall(tensor, name=name), wanted)


def test_a_mismatch_fails_on_all_ranks_and_the_next_calls_succeed(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(size, 2)
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)
    differing = tensor.double() if rank == size - 1 else tensor
    with pytest.raises(hvd.HorovodInternalError, match="float64"):
        hvd.alltoall(differing, name=name)
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)


def test_a_changed_shape_is_negotiated_again(name: str, rank: int, size: int) -> None:
    def exchange(rows: int) -> None:
        result = hvd.alltoall(torch.full((rows * size, 2), float(rank)), name=name)
        assert torch.equal(result[:, 0], torch.arange(float(size)).repeat_interleave(rows))

    for rows in (1, 2, 1):
        reach_fast_path(exchange, name, rows)


def test_an_alltoall_fails_when_another_rank_joins(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(size, 2)
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)
    if rank == 0:
        with pytest.raises(hvd.HorovodInternalError, match="join"):
            hvd.alltoall(tensor, name=name)
    assert hvd.join() in range(size)
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)


def test_a_shutdown_of_one_rank_fails_the_round_on_the_others(name: str, rank: int, size: int) -> None:
    tensor = torch.ones(size, 2)
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)
    if rank == size - 1:
        hvd.shutdown()
    else:
        with pytest.raises(hvd.HorovodInternalError):
            hvd.alltoall(tensor, name=name)
        hvd.shutdown()
    hvd.init()
    reach_fast_path(lambda: hvd.alltoall(tensor, name=name), name)


@pytest.fixture
def dynamic() -> Iterator[None]:
    """A job with dynamic process sets."""
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
            result = hvd.alltoall(tensor, name=name, process_set=some)
            assert torch.equal(result[:, 0], torch.tensor(members, dtype=torch.float))
    hvd.remove_process_set(some)
    hvd.barrier()  # no rank ends the job before all ranks have removed the set


def test_a_gradient_returns_to_the_rank_that_sent_its_row(name: str, rank: int, size: int) -> None:
    for _ in range(6):
        tensor = torch.full((size, 2), float(rank), requires_grad=True)
        result = hvd.alltoall(tensor, name=name)
        (result * (rank + 1)).sum().backward()
        assert tensor.grad is not None
        assert torch.equal(tensor.grad[:, 0], torch.arange(1.0, size + 1))
