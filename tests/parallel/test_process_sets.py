"""Groups of ranks: every operation in them, side by side, added and removed while the job runs, and mistakes."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List

import horovod.torch as hvd
import pytest
import torch
from farandole.common import process_sets
from samples import sample

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    """A job of its own, in which sets may come and go; the next file finds one in which they may not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
        hvd.shutdown()
        hvd.init()
        yield
        if hvd.is_initialized():
            hvd.barrier()
            hvd.shutdown()
    hvd.init()


def works(size: int, name: str) -> None:
    assert hvd.allreduce(torch.ones(3), name=name, op=hvd.Sum).tolist() == [size] * 3


def without(rank: int, size: int) -> List[int]:
    """All ranks but one; the only one in a job of one."""
    return [each for each in range(size) if each != rank] or [0]


def added(ranks: List[int], size: int) -> hvd.ProcessSet:
    """A set of these ranks; the global one where they are all."""
    return hvd.global_process_set if len(ranks) == size else hvd.add_process_set(ranks)


# ---- operations ----


def each_set(size: int) -> Iterator[List[int]]:
    """With and without the leader of the job, with and without a gap, and of one."""
    yield list(range(size - 1)) or [0]
    yield without(0, size)
    yield without(size // 2, size)
    yield [size - 1]


def check_reductions(ranks: List[int], group: hvd.ProcessSet, name: str, count: int) -> None:
    own, all_of_them = sample(hvd.rank(), torch.float32), torch.stack([sample(each, torch.float32) for each in ranks])
    total = all_of_them.sum(0)
    for turn in range(4):  # in full, by id, and from then on over the fast path
        assert torch.equal(hvd.allreduce(own, name=f"{name}.sum", op=hvd.Sum, process_set=group), total), turn
    assert torch.allclose(hvd.allreduce(own, name=f"{name}.mean", process_set=group), total / count)
    assert torch.equal(hvd.allreduce(own, op=hvd.Max, process_set=group), all_of_them.max(0).values)
    in_place = own.clone()
    hvd.allreduce_(in_place, name=f"{name}.place", op=hvd.Sum, process_set=group)
    assert torch.equal(in_place, total)
    large = torch.full((300_000,), float(hvd.rank()))
    assert hvd.allreduce(large, name=f"{name}.large", op=hvd.Sum, process_set=group)[-1] == sum(ranks)
    pair = hvd.grouped_allreduce([own, own + 1], name=f"{name}.pair", op=hvd.Sum, process_set=group)
    assert torch.equal(pair[0], total) and torch.equal(pair[1], total + count)


def check_rows(ranks: List[int], group: hvd.ProcessSet, name: str, count: int) -> None:
    rank, place = hvd.rank(), ranks.index(hvd.rank())
    rows = hvd.allgather(torch.full((rank + 1, 2), rank), name=f"{name}.gather", process_set=group)
    assert rows[:, 0].tolist() == [each for each in ranks for _ in range(each + 1)]
    pair = hvd.grouped_allgather([torch.tensor([rank]), torch.tensor([-rank])], name=f"{name}.p", process_set=group)
    assert pair[0].tolist() == ranks and pair[1].tolist() == [-each for each in ranks]
    dealt = hvd.alltoall(torch.arange(count) + 10 * rank, name=f"{name}.deal", process_set=group)
    assert dealt.tolist() == [10 * each + place for each in ranks]
    splits = [to + 1 for to in range(count)]
    dealt, received = hvd.alltoall(torch.full((sum(splits),), rank), splits, name=f"{name}.deal", process_set=group)
    assert received.tolist() == [place + 1] * count
    assert dealt.tolist() == [each for each in ranks for _ in range(place + 1)]
    share = hvd.reducescatter(torch.arange(2 * count) + rank, name=f"{name}.share", op=hvd.Sum, process_set=group)
    assert share.tolist() == [count * row + sum(ranks) for row in (2 * place, 2 * place + 1)]
    shares = hvd.grouped_reducescatter([torch.ones(count)] * 2, name=f"{name}.shares", op=hvd.Sum, process_set=group)
    assert [each.tolist() for each in shares] == [[count], [count]]


def check_the_rest(ranks: List[int], group: hvd.ProcessSet, name: str, count: int) -> None:
    rank = hvd.rank()
    for root in ranks:  # a global rank, also in here
        told = hvd.broadcast(torch.tensor([rank, 7]), root, name=f"{name}.from{root}", process_set=group)
        assert told.tolist() == [root, 7]
        assert hvd.broadcast_object({"from": rank}, root, name=f"{name}.o", process_set=group) == {"from": root}
    assert hvd.allgather_object(rank, name=f"{name}.objects", process_set=group) == ranks
    sparse = torch.sparse_coo_tensor([[rank]], [2.0], (hvd.size(),))
    reduced = hvd.sparse_allreduce_async(sparse, f"{name}.sparse", hvd.Sum, group)()
    assert reduced.to_dense().tolist() == [2.0 if each in ranks else 0.0 for each in range(hvd.size())]
    hvd.barrier(process_set=group)


@pytest.mark.parametrize("check", [check_reductions, check_rows, check_the_rest])
def test_every_operation_in_a_set(
    check: Callable[[List[int], hvd.ProcessSet, str, int], None], name: str, rank: int, size: int
) -> None:
    for ranks in each_set(size):
        group = added(ranks, size)
        if rank in ranks:
            check(ranks, group, f"{name}.{ranks}", len(ranks))
        hvd.remove_process_set(group)
    works(size, name)


def test_gradients_through_a_set(name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = added(ranks, size)
    if rank in ranks:
        tensor = torch.ones(len(ranks), requires_grad=True)
        hvd.allreduce(tensor, name=name, op=hvd.Sum, process_set=group).sum().backward()
        assert tensor.grad is not None and tensor.grad.tolist() == [len(ranks)] * len(ranks)
        tensor = torch.ones(len(ranks), requires_grad=True)
        (hvd.allgather(tensor, name=f"{name}.rows", process_set=group) * 3).sum().backward()
        assert tensor.grad is not None and tensor.grad.tolist() == [3] * len(ranks)


def trained(rank: int, group: hvd.ProcessSet, name: str, **how: Any) -> torch.Tensor:
    """A weight after one step on this rank's own data."""
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0),
        named_parameters=[(f"{name}.weight", model.weight)],
        process_set=group,
        **how,
    )
    model(torch.full((1, 3), float(rank + 1))).sum().backward()
    optimizer.step()
    return model.weight.detach()


@pytest.mark.parametrize("how", [{}, {"num_groups": 1}, {"gradient_predivide_factor": 2.0}])
def test_an_optimizer_in_a_set(how: Any, name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = added(ranks, size)
    torch.manual_seed(1)
    begin = torch.nn.Linear(3, 1, bias=False).weight.detach()
    # Who is not in the set trains by itself.
    gradient = sum(each + 1 for each in ranks) / len(ranks) if rank in ranks else rank + 1
    assert torch.allclose(trained(rank, group, name, **how), begin - gradient)


def test_parameters_from_one_rank_of_a_set(name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = added(ranks, size)
    if rank in ranks:
        state = {f"{name}.weight": torch.full((3,), float(rank))}
        hvd.broadcast_parameters(state, ranks[-1], process_set=group)
        assert state[f"{name}.weight"].tolist() == [ranks[-1]] * 3


# ---- side by side ----


@several_ranks
def test_disjoint_sets_side_by_side(name: str, rank: int, size: int) -> None:
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    groups = [hvd.add_process_set(half) for half in halves]
    assert [group.process_set_id for group in groups] == [1, 2]
    mine = 0 if rank in halves[0] else 1
    # Each half goes on for itself, by another number of steps, under the same names.
    for step in range(20 + 10 * mine):
        sent = torch.full((100,), float(rank + step))
        handles = [
            hvd.allreduce_async(sent, name=f"{name}.{i}", op=hvd.Sum, process_set=groups[mine]) for i in range(5)
        ]
        for handle in handles:
            assert hvd.synchronize(handle)[0] == sum(halves[mine]) + step * len(halves[mine])
    works(size, name)


@several_ranks
def test_overlapping_sets_and_the_global_one_at_once(name: str, rank: int, size: int) -> None:
    first, last = without(size - 1, size), without(0, size)
    groups = [
        (first, added(first, size)),
        (last, hvd.add_process_set(last)),
        (list(range(size)), hvd.global_process_set),
    ]
    for step in range(10):
        handles = [
            (ranks, hvd.allreduce_async(torch.full((50_000,), float(step)), name=name, op=hvd.Sum, process_set=group))
            for ranks, group in (groups if step % 2 else groups[::-1])
            if rank in ranks
        ]
        for ranks, handle in handles:
            assert hvd.synchronize(handle)[-1] == step * len(ranks)


@several_ranks
def test_calls_without_a_name_are_counted_in_each_set(rank: int, size: int) -> None:
    group = hvd.add_process_set([0])
    if rank == 0:
        for _ in range(3):
            hvd.allreduce(torch.ones(2), process_set=group)
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size, size]
    hvd.remove_process_set(group)
    later = added([rank for rank in range(size) if rank < 2], size)
    if rank < 2:
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=later).tolist() == [2, 2]


# ---- coming and going ----


@several_ranks
def test_sets_come_and_go(name: str, rank: int, size: int) -> None:
    for cycle in range(6):
        first, second = hvd.add_process_set([size - 1]), hvd.add_process_set(hvd.ProcessSet([0]))
        assert (first.process_set_id, second.process_set_id) == ((1, 2) if cycle % 2 == 0 else (2, 1))
        for group, only in ((first, size - 1), (second, 0)):
            assert group.ranks == [only] and group.size() == 1 and group.included() is (rank == only)
            if rank == only:
                assert group.rank() == 0
                assert hvd.allreduce(torch.ones(2), name=f"{name}.{cycle}", process_set=group).tolist() == [1, 1]
            else:
                with pytest.raises(ValueError):
                    group.rank()
        assert process_sets.get_process_set_ids_and_ranks() == {
            0: list(range(size)),
            first.process_set_id: [size - 1],
            second.process_set_id: [0],
        }
        assert process_sets.process_set_included(second.process_set_id or 0) is (rank == 0)
        # Numbers are used again, the one that was given back first before the other.
        for group in (second, first):
            assert hvd.remove_process_set(group) is True
            assert group.process_set_id is None and group.size() is None
            assert hvd.remove_process_set(group) is False
        assert process_sets.get_process_set_ids_and_ranks() == {0: list(range(size))}
    works(size, name)


@several_ranks
def test_removing_a_set_fails_what_is_pending_in_it_and_nothing_else(name: str, rank: int, size: int) -> None:
    ranks = list(range(size))[-2:] if size > 2 else [0]
    group, other = hvd.add_process_set(ranks), hvd.add_process_set([size - 1])
    outside = hvd.allreduce_async(torch.ones(2), name=f"{name}.other", process_set=other) if rank == size - 1 else None
    alone = None
    if rank in ranks and size > 2:  # in a set of one, nothing stays pending
        alone = hvd.allreduce_async(torch.ones(2), name=f"{name}.{rank}", process_set=group)
    half = hvd.allreduce_async(torch.ones(2), name=name, op=hvd.Sum) if rank == 0 else None
    assert hvd.remove_process_set(group) is True
    if alone is not None:
        with pytest.raises(hvd.HorovodInternalError, match="removed") as caught:
            hvd.synchronize(alone)
        assert caught.value.kind == "aborted"
    if half is None:
        half = hvd.allreduce_async(torch.ones(2), name=name, op=hvd.Sum)
    assert hvd.synchronize(half).tolist() == [size, size]
    if outside is not None:
        assert hvd.synchronize(outside).tolist() == [1, 1]
    if rank in ranks:
        with pytest.raises(ValueError, match="not registered"):
            hvd.allreduce(torch.ones(2), name=name, process_set=group)


@several_ranks
def test_shutdown_fails_what_is_pending_in_a_set(name: str, rank: int, size: int) -> None:
    group = hvd.add_process_set(without(0, size))
    handle = None
    if rank != 0 and size > 2:
        handle = hvd.allreduce_async(torch.ones(2), name=f"{name}.{rank}", process_set=group)
    hvd.barrier()
    hvd.shutdown()
    assert group.process_set_id is None
    if handle is not None:
        with pytest.raises(hvd.HorovodInternalError):
            hvd.synchronize(handle)
    hvd.init()
    works(size, name)


# ---- at init ----


@several_ranks
def test_sets_of_init(name: str, rank: int, size: int) -> None:
    hvd.shutdown()
    first, second = hvd.ProcessSet([size - 1]), hvd.ProcessSet(range(size - 1))
    hvd.init(process_sets=[first, second] if size > 2 else [first])
    assert first.process_set_id == 1 and first.ranks == [size - 1]
    if rank == size - 1:
        assert hvd.allreduce(torch.ones(2), name=name, process_set=first).tolist() == [1, 1]
    elif size > 2:
        assert second.process_set_id == 2
        assert hvd.allreduce(torch.ones(2), name=name, op=hvd.Sum, process_set=second)[0] == size - 1
    # Again, they are only looked up.
    same = hvd.ProcessSet([size - 1])
    hvd.init(process_sets=[same])
    assert same.process_set_id == 1
    with pytest.raises(ValueError, match="does not exist"):
        hvd.init(process_sets=[hvd.ProcessSet([size + 3])])
    works(size, name)


@several_ranks
def test_equal_sets_of_init(name: str, rank: int, size: int) -> None:
    for same in ([0], list(range(size))):
        hvd.shutdown()
        first, again = hvd.ProcessSet([0]), hvd.ProcessSet(same[::-1])
        with pytest.raises(ValueError, match="exists already"):
            hvd.init(process_sets=[first, again])
        assert hvd.is_initialized() and first.process_set_id == 1 and again.process_set_id is None
        hvd.init(process_sets=[first])
        works(size, f"{name}.{len(same)}")


@several_ranks
def test_wrong_sets_of_init_fail_on_all_ranks(name: str, rank: int, size: int) -> None:
    for wrong in ([0, 0], [0, size], [-1, 0], [], [rank]):
        hvd.shutdown()
        with pytest.raises(ValueError):
            hvd.init(process_sets=[hvd.ProcessSet(wrong)])
        assert not hvd.is_initialized()
        hvd.init()
        works(size, f"{name}.{len(wrong)}")


def test_without_permission_sets_stay_as_they_are(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    hvd.barrier()
    hvd.shutdown()
    monkeypatch.delenv("HOROVOD_DYNAMIC_PROCESS_SETS")
    kept = hvd.ProcessSet([0])
    hvd.init(process_sets=[kept] if size > 1 else None)
    with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS"):
        hvd.add_process_set([0])
    if size > 1:
        with pytest.raises(ValueError, match="HOROVOD_DYNAMIC_PROCESS_SETS"):
            hvd.remove_process_set(kept)
        assert kept.process_set_id == 1
    hvd.barrier()
    hvd.shutdown()
    hvd.init(process_sets="Dynamic")
    if size > 1:
        assert hvd.add_process_set([0]).process_set_id == 1


# ---- mistakes ----


def test_the_global_set(size: int) -> None:
    everybody = hvd.global_process_set
    assert everybody.process_set_id == 0 and everybody.ranks == list(range(size))
    assert everybody.size() == size and everybody.rank() == hvd.rank() and everybody.included() is True
    stranger = hvd.ProcessSet([0])
    assert stranger.process_set_id is None and stranger.size() is None and stranger.rank() is None
    assert hvd.remove_process_set(stranger) is False
    assert hvd.remove_process_set(everybody) is False
    assert process_sets.process_set_included() is True
    with pytest.raises(ValueError):
        process_sets.process_set_included(7)


@several_ranks
def test_who_is_not_in_a_set_is_told_so(name: str, rank: int, size: int) -> None:
    group = hvd.add_process_set(without(0, size))
    if rank == 0:
        calls: List[Callable[[], Any]] = [
            lambda: hvd.allreduce(torch.ones(2), name=name, process_set=group),
            lambda: hvd.allreduce_async_(torch.ones(2), name=name, process_set=group),
            lambda: hvd.grouped_allreduce([torch.ones(2)], name=name, process_set=group),
            lambda: hvd.allgather(torch.ones(2), name=name, process_set=group),
            lambda: hvd.broadcast(torch.ones(2), 1, name=name, process_set=group),
            lambda: hvd.alltoall(torch.ones(2), name=name, process_set=group),
            lambda: hvd.reducescatter(torch.ones(2), name=name, process_set=group),
            lambda: hvd.barrier(process_set=group),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="rank 0 is not in process set 1"):
                call()
    else:
        assert hvd.allreduce(torch.ones(2), name=name, op=hvd.Sum, process_set=group)[0] == size - 1
    works(size, name)


@several_ranks
def test_a_root_outside_the_set(name: str, rank: int, size: int) -> None:
    group = hvd.add_process_set(without(0, size))
    if rank != 0:
        for root in (0, size, -1):
            with pytest.raises(ValueError, match=f"root rank {root} is not in the process set"):
                hvd.broadcast(torch.ones(2), root, name=name, process_set=group)


@several_ranks
def test_splits_and_mismatches_count_members_of_the_set(name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = hvd.add_process_set(ranks)
    if rank in ranks:
        with pytest.raises(ValueError, match=name):
            hvd.alltoall(torch.ones(size), [1] * size, name=name, process_set=group)
    if rank in ranks and len(ranks) > 1:
        with pytest.raises(hvd.HorovodInternalError, match=f"rank {ranks[-1]}"):
            hvd.allreduce(torch.ones(2 + (rank == ranks[-1])), name=name, process_set=group)
        assert hvd.allreduce(torch.ones(2), name=name, op=hvd.Sum, process_set=group)[0] == len(ranks)
    works(size, name)


@several_ranks
def test_changes_that_cannot_be_fail_on_all_ranks(name: str, rank: int, size: int) -> None:
    group, other = hvd.add_process_set([0]), hvd.add_process_set([1])
    for wrong in ([0], list(range(size)), [0, 0], [0, size], [-1], [], [0, 1, 1] if rank else [0], [rank]):
        with pytest.raises(ValueError):
            hvd.add_process_set(wrong)
    with pytest.raises(ValueError, match="alike"):
        hvd.remove_process_set(group if rank == 0 else other)
    assert (group.process_set_id, other.process_set_id) == (1, 2)
    stale = hvd.ProcessSet([0])
    stale.process_set_id = 77
    assert hvd.remove_process_set(stale) is False and stale.process_set_id is None
    if rank == 1:
        assert hvd.allreduce(torch.ones(2), name=name, process_set=other).tolist() == [1, 1]
    works(size, name)
