"""Ranks with less data call join() and take part in the later operations of the other ranks."""

from __future__ import annotations

import copy
from typing import Any, Callable, Dict, Iterable

import horovod.torch as hvd
import pytest
import torch

pytestmark = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def test_joined_ranks_contribute_zeros_to_a_sum(name: str, rank: int, size: int) -> None:
    # Rank r has r + 1 batches.
    for step in range(rank + 1):
        reduced = hvd.allreduce(torch.ones(5), name=f"{name}.{step}", op=hvd.Sum)
        assert torch.equal(reduced, torch.full((5,), float(size - step)))
    assert hvd.join() == size - 1


def test_an_average_divides_by_all_ranks_including_joined_ones(name: str, rank: int, size: int) -> None:
    if rank == 0:
        reduced = hvd.allreduce(torch.full((3,), float(size)), name=name)
        assert torch.equal(reduced, torch.ones(3))
    assert hvd.join() in range(size)


@pytest.mark.parametrize("op, expected", [("Min", 7.0), ("Max", 7.0), ("Product", 7.0)])
def test_joined_ranks_do_not_change_min_max_and_product(
    op: str, expected: float, name: str, rank: int, size: int
) -> None:
    if rank == size - 1:
        for dtype in (torch.float32, torch.int32, torch.bfloat16):
            tensor = torch.full((4,), 7, dtype=dtype)
            assert torch.equal(hvd.allreduce(tensor, name=f"{name}.{dtype}", op=getattr(hvd, op)), tensor)
    hvd.join()


def test_a_cached_name_is_reduced_with_joined_ranks(name: str, rank: int, size: int) -> None:
    for _ in range(5):
        assert hvd.allreduce(torch.ones(8), name=name, op=hvd.Sum)[0].item() == size
    if rank == 0:
        for _ in range(5):
            assert hvd.allreduce(torch.ones(8), name=name, op=hvd.Sum)[0].item() == 1
        for _ in range(2):
            assert hvd.allreduce(torch.ones(80_000), name=f"{name}.large", op=hvd.Sum)[0].item() == 1
    hvd.join()
    for _ in range(5):
        assert hvd.allreduce(torch.ones(8), name=name, op=hvd.Sum)[0].item() == size


REFUSED: Dict[str, Callable[[str], Any]] = {
    "allgather": lambda name: hvd.allgather(torch.ones(2), name=name),
    "broadcast": lambda name: hvd.broadcast(torch.ones(2), 0, name=name),
    "alltoall": lambda name: hvd.alltoall(torch.ones(hvd.size()), name=name),
    "alltoall with splits": lambda name: hvd.alltoall(torch.ones(hvd.size()), [1] * hvd.size(), name=name),
    "reducescatter": lambda name: hvd.reducescatter(torch.ones(2), name=name),
    "grouped_reducescatter": lambda name: hvd.grouped_reducescatter([torch.ones(2), torch.ones(3)], name=name),
    "product with a prescale factor": lambda name: hvd.allreduce(
        torch.ones(2), name=name, op=hvd.Product, prescale_factor=2.0
    ),
}


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("operation", list(REFUSED))
def test_other_operations_fail_while_a_rank_has_joined(
    operation: str, cached: bool, name: str, rank: int, size: int
) -> None:
    for _ in range(3 if cached else 0):
        REFUSED[operation](name)
    if rank == 0:
        # A sum of this rank's part alone shows that the other ranks have joined.
        while hvd.allreduce(torch.ones(1), name=f"{name}.probe", op=hvd.Sum).item() != 1:
            pass
        with pytest.raises(hvd.HorovodInternalError, match="join"):
            REFUSED[operation](name)
    hvd.join()
    REFUSED[operation](name)


def test_join_may_be_called_repeatedly(rank: int, size: int) -> None:
    for _ in range(5):
        assert hvd.join() in range(size)


def test_a_group_is_reduced_with_joined_ranks(name: str, rank: int, size: int) -> None:
    if rank == 0:
        reduced = hvd.grouped_allreduce([torch.ones(2), torch.ones(3, dtype=torch.float64)], name=name, op=hvd.Sum)
        assert [tensor.tolist() for tensor in reduced] == [[1, 1], [1, 1, 1]]
    hvd.join()


UNNAMED: Dict[str, Callable[[torch.Tensor], Any]] = {
    "allreduce": lambda tensor: hvd.allreduce(tensor, op=hvd.Sum),
    "grouped_allreduce": lambda tensor: hvd.grouped_allreduce([tensor, 2 * tensor], op=hvd.Sum)[1],
    "allgather": hvd.allgather,
    "broadcast": lambda tensor: hvd.broadcast(tensor, 0),
    "alltoall": hvd.alltoall,
    "reducescatter": lambda tensor: hvd.reducescatter(tensor, op=hvd.Sum),
}


@pytest.mark.parametrize("first_again", [False, True])
def test_unnamed_operations_match_after_a_join(first_again: bool, rank: int, size: int) -> None:
    """A rank that joined early has made fewer unnamed calls, and some calls of the other ranks failed."""
    joiners = [0, 0] if first_again else [0, size - 1]
    for first in joiners:
        pending = None
        if rank != first:
            assert hvd.allreduce(torch.ones(3), op=hvd.Sum)[0].item() == size - 1
            for kind, call in UNNAMED.items():
                if kind in ("allreduce", "grouped_allreduce"):
                    call(torch.ones(size))
                    continue
                with pytest.raises(hvd.HorovodInternalError, match="join"):
                    call(torch.ones(size))
            pending = hvd.allreduce_async(torch.ones(70_000), op=hvd.Sum)
        assert hvd.join() in range(size)
        own = torch.full((size,), float(rank))
        for _ in range(2):
            total = size * (size - 1) / 2
            outcome = {kind: call(own)[-1].item() for kind, call in UNNAMED.items()}
            assert outcome == {
                "allreduce": total,
                "grouped_allreduce": 2 * total,
                "allgather": size - 1,
                "broadcast": 0,
                "alltoall": size - 1,
                "reducescatter": total,
            }
        if pending is not None:
            assert hvd.synchronize(pending)[0].item() == size - 1


def start_allreduce(name: str, rank: int) -> Any:
    return hvd.allreduce_async(torch.full((8,), rank + 1.0), name=name, op=hvd.Sum)


def start_grouped_allreduce(name: str, rank: int) -> Any:
    return hvd.grouped_allreduce_async([torch.full((8,), rank + 1.0), torch.ones(2)], name=name, op=hvd.Sum)


def start_broadcast(name: str, rank: int) -> Any:
    return hvd.broadcast_async(torch.full((8,), rank + 1.0), 0, name=name)


def start_allgather(name: str, rank: int) -> Any:
    return hvd.allgather_async(torch.full((1,), rank + 1.0), name=name)


def start_alltoall(name: str, rank: int) -> Any:
    return hvd.alltoall_async(torch.full((hvd.size(),), rank + 1.0), name=name)


STARTED = [start_allreduce, start_grouped_allreduce, start_broadcast, start_allgather, start_alltoall]


def first_element(outcome: Any) -> float:
    while not isinstance(outcome, torch.Tensor):
        outcome = outcome[0]
    return float(outcome.flatten()[0])


def wait_until_others_joined(name: str) -> None:
    """Returns once a sum holds the part of this rank alone."""
    while hvd.allreduce(torch.ones(1), name=f"{name}.probe", op=hvd.Sum).item() != 1:
        pass


@pytest.mark.parametrize("names", [1, 2])
@pytest.mark.parametrize("start", STARTED)
def test_operations_started_before_a_join_complete_after_it(
    start: Callable[[str, int], Any], names: int, name: str, rank: int, size: int
) -> None:
    """The repeated small tensors take the fast path, on which other ranks cannot see a submission."""
    tensors = [f"{name}.{number}" for number in range(names)]
    for _ in range(6):
        expected = [first_element(hvd.synchronize(start(tensor, rank))) for tensor in tensors]
    if rank == 0:
        wait_until_others_joined(name)
        outcomes = [hvd.synchronize(start(tensor, rank)) for tensor in tensors]
        assert hvd.join() == 0
    else:
        pending = [start(tensor, rank) for tensor in tensors]
        assert hvd.join() == 0
        outcomes = [hvd.synchronize(handle) for handle in pending]
    assert [first_element(outcome) for outcome in outcomes] == expected
    for tensor in tensors:
        assert first_element(hvd.synchronize(start(tensor, rank))) == expected[0]


def test_the_last_rank_completes_operations_that_joined_ranks_had_submitted(name: str, rank: int, size: int) -> None:
    for _ in range(6):
        hvd.allreduce(torch.ones(8), name=name, op=hvd.Sum)
    if rank == size - 1:
        wait_until_others_joined(name)
    pending = hvd.allreduce_async(torch.ones(8), name=name, op=hvd.Sum)
    assert hvd.join() == size - 1
    assert hvd.synchronize(pending)[0].item() == size


@pytest.mark.parametrize("as_dense", [True, False], ids=["as dense", "sparse"])
def test_sparse_gradients_of_an_optimizer_while_ranks_have_joined(as_dense: bool, rank: int, size: int) -> None:
    """As dense ones, they are those of one process on the rows that are left; sparse ones cannot be gathered."""
    torch.manual_seed(3)
    shared = torch.nn.Sequential(torch.nn.Embedding(5, 3, sparse=True), torch.nn.Linear(3, 2))
    alone = copy.deepcopy(shared)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(shared.parameters(), lr=0.1), shared.named_parameters(), sparse_as_dense=as_dense
    )
    reference = torch.optim.SGD(alone.parameters(), lr=0.1)

    def train(model: Any, own: Any, batches: Iterable[torch.Tensor], share: int = 1) -> None:
        own.zero_grad()
        (sum(model(each).square().sum() for each in batches) / share).backward()
        own.step()

    def batch(step: int, of: int) -> torch.Tensor:
        return torch.tensor([step % 5, (step + of) % 5])

    def assert_alike() -> None:
        for value, other in zip(shared.parameters(), alone.parameters()):
            torch.testing.assert_close(value, other)

    def train_together(step: int) -> None:
        train(shared, optimizer, [batch(step, rank)])
        train(alone, reference, [batch(step, each) for each in range(size)], size)
        assert_alike()

    for step in range(3):
        train_together(step)
    for step in range(3, 5) if rank == 0 else ():
        if as_dense:
            train(shared, optimizer, [batch(step, rank)])
            train(alone, reference, [batch(step, rank)], size)
        else:
            with pytest.raises(hvd.HorovodInternalError, match="0.weight.* is not supported with join"):
                train(shared, optimizer, [batch(step, rank)])
        assert_alike()
    last = hvd.join()
    for each in (shared, alone):
        hvd.broadcast_parameters(each.state_dict(), root_rank=last)
    train_together(5)


def test_synchronized_batch_normalization_while_ranks_have_joined_is_an_error(name: str, rank: int, size: int) -> None:
    layer, alone = hvd.SyncBatchNorm(3), torch.nn.BatchNorm1d(3)
    rows = torch.randn(4 * size, 3, generator=torch.Generator().manual_seed(1))

    def normalize() -> None:
        torch.testing.assert_close(layer(rows[4 * rank : 4 * rank + 4]), alone(rows)[4 * rank : 4 * rank + 4])

    for _ in range(3):
        normalize()
    for _ in range(2 if rank == 0 else 0):
        wait_until_others_joined(name)
        with pytest.raises(hvd.HorovodInternalError, match="sync_batch_norm.* is not supported with join"):
            layer(rows[:4])
    hvd.join()
    normalize()
