"""Process sets: every operation in a set, sets side by side, their addition and removal in a job, and wrong calls."""

from __future__ import annotations

import pickle
from typing import Any, Callable, Iterator, List

import horovod.torch as hvd
import pytest
import torch
from farandole.common import job, process_sets
from samples import sample

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


@pytest.fixture(autouse=True)
def dynamic() -> Iterator[None]:
    """A separate job in which sets may be added and removed; the next file gets a job in which they may not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOROVOD_DYNAMIC_PROCESS_SETS", "1")
        hvd.shutdown()
        hvd.init()
        yield
        if hvd.is_initialized():
            hvd.barrier()
            hvd.shutdown()
    hvd.init()


def check_global_sum(size: int, name: str) -> None:
    assert hvd.allreduce(torch.ones(3), name=name, op=hvd.Sum).tolist() == [size] * 3


def without(rank: int, size: int) -> List[int]:
    """All ranks but one, or rank 0 in a job of one."""
    return [other for other in range(size) if other != rank] or [0]


def added(ranks: List[int], size: int) -> hvd.ProcessSet:
    """A set of these ranks, or the global set if they are all ranks."""
    return hvd.global_process_set if len(ranks) == size else hvd.add_process_set(ranks)


# ---- operations ----


def sets_of_ranks(size: int) -> Iterator[List[int]]:
    """Ranks with and without the leader of the job, with and without a gap, and a single rank."""
    yield list(range(size - 1)) or [0]
    yield without(0, size)
    yield without(size // 2, size)
    yield [size - 1]


def check_reductions(ranks: List[int], group: hvd.ProcessSet, name: str, count: int) -> None:
    own, inputs = sample(hvd.rank(), torch.float32), torch.stack([sample(member, torch.float32) for member in ranks])
    total = inputs.sum(0)
    for turn in range(4):  # negotiated in full, by id, and from then on over the fast path
        assert torch.equal(hvd.allreduce(own, name=f"{name}.sum", op=hvd.Sum, process_set=group), total), turn
    assert torch.allclose(hvd.allreduce(own, name=f"{name}.mean", process_set=group), total / count)
    assert torch.equal(hvd.allreduce(own, op=hvd.Max, process_set=group), inputs.max(0).values)
    in_place = own.clone()
    hvd.allreduce_(in_place, name=f"{name}.place", op=hvd.Sum, process_set=group)
    assert torch.equal(in_place, total)
    large = torch.full((300_000,), float(hvd.rank()))
    assert hvd.allreduce(large, name=f"{name}.large", op=hvd.Sum, process_set=group)[-1] == sum(ranks)
    pair = hvd.grouped_allreduce([own, own + 1], name=f"{name}.pair", op=hvd.Sum, process_set=group)
    assert torch.equal(pair[0], total) and torch.equal(pair[1], total + count)


def check_rows(ranks: List[int], group: hvd.ProcessSet, name: str, count: int) -> None:
    rank, set_rank = hvd.rank(), ranks.index(hvd.rank())
    rows = hvd.allgather(torch.full((rank + 1, 2), rank), name=f"{name}.gather", process_set=group)
    assert rows[:, 0].tolist() == [member for member in ranks for _ in range(member + 1)]
    pair = hvd.grouped_allgather([torch.tensor([rank]), torch.tensor([-rank])], name=f"{name}.p", process_set=group)
    assert pair[0].tolist() == ranks and pair[1].tolist() == [-member for member in ranks]
    received = hvd.alltoall(torch.arange(count) + 10 * rank, name=f"{name}.deal", process_set=group)
    assert received.tolist() == [10 * member + set_rank for member in ranks]
    splits = [to + 1 for to in range(count)]
    received, counts = hvd.alltoall(torch.full((sum(splits),), rank), splits, name=f"{name}.deal", process_set=group)
    assert counts.tolist() == [set_rank + 1] * count
    assert received.tolist() == [member for member in ranks for _ in range(set_rank + 1)]
    share = hvd.reducescatter(torch.arange(2 * count) + rank, name=f"{name}.share", op=hvd.Sum, process_set=group)
    assert share.tolist() == [count * row + sum(ranks) for row in (2 * set_rank, 2 * set_rank + 1)]
    shares = hvd.grouped_reducescatter([torch.ones(count)] * 2, name=f"{name}.shares", op=hvd.Sum, process_set=group)
    assert [rows.tolist() for rows in shares] == [[count], [count]]


def check_broadcasts_objects_and_sparse_sums(ranks: List[int], group: hvd.ProcessSet, name: str, count: int) -> None:
    rank = hvd.rank()
    for root in ranks:  # the root is a global rank, also in a set
        received = hvd.broadcast(torch.tensor([rank, 7]), root, name=f"{name}.from{root}", process_set=group)
        assert received.tolist() == [root, 7]
        assert hvd.broadcast_object({"from": rank}, root, name=f"{name}.o", process_set=group) == {"from": root}
    assert hvd.allgather_object(rank, name=f"{name}.objects", process_set=group) == ranks
    sparse = torch.sparse_coo_tensor([[rank]], [2.0], (hvd.size(),))
    reduced = hvd.sparse_allreduce_async(sparse, f"{name}.sparse", hvd.Sum, group)()
    assert reduced.to_dense().tolist() == [2.0 if member in ranks else 0.0 for member in range(hvd.size())]
    hvd.barrier(process_set=group)


@pytest.mark.parametrize("check", [check_reductions, check_rows, check_broadcasts_objects_and_sparse_sums])
def test_every_operation_in_a_set_has_the_right_result(
    check: Callable[[List[int], hvd.ProcessSet, str, int], None], name: str, rank: int, size: int
) -> None:
    for ranks in sets_of_ranks(size):
        group = added(ranks, size)
        if rank in ranks:
            check(ranks, group, f"{name}.{ranks}", len(ranks))
        hvd.remove_process_set(group)
    check_global_sum(size, name)


def test_operations_in_a_set_have_gradients(name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = added(ranks, size)
    if rank in ranks:
        tensor = torch.ones(len(ranks), requires_grad=True)
        hvd.allreduce(tensor, name=name, op=hvd.Sum, process_set=group).sum().backward()
        assert tensor.grad is not None and tensor.grad.tolist() == [len(ranks)] * len(ranks)
        tensor = torch.ones(len(ranks), requires_grad=True)
        (hvd.allgather(tensor, name=f"{name}.rows", process_set=group) * 3).sum().backward()
        assert tensor.grad is not None and tensor.grad.tolist() == [3] * len(ranks)


def trained(rank: int, group: hvd.ProcessSet, name: str, **options: Any) -> torch.Tensor:
    """A weight after one step on this rank's own data."""
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=1.0),
        named_parameters=[(f"{name}.weight", model.weight)],
        process_set=group,
        **options,
    )
    model(torch.full((1, 3), float(rank + 1))).sum().backward()
    optimizer.step()
    return model.weight.detach()


@pytest.mark.parametrize("options", [{}, {"num_groups": 1}, {"gradient_predivide_factor": 2.0}])
def test_an_optimizer_averages_gradients_over_its_set(options: Any, name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = added(ranks, size)
    torch.manual_seed(1)
    begin = torch.nn.Linear(3, 1, bias=False).weight.detach()
    # A rank outside the set trains by itself.
    gradient = sum(member + 1 for member in ranks) / len(ranks) if rank in ranks else rank + 1
    assert torch.allclose(trained(rank, group, name, **options), begin - gradient)


def test_broadcast_parameters_in_a_set_copies_those_of_the_root(name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = added(ranks, size)
    if rank in ranks:
        state = {f"{name}.weight": torch.full((3,), float(rank))}
        hvd.broadcast_parameters(state, ranks[-1], process_set=group)
        assert state[f"{name}.weight"].tolist() == [ranks[-1]] * 3


# ---- side by side ----


@several_ranks
def test_disjoint_sets_use_the_same_names_independently(name: str, rank: int, size: int) -> None:
    halves = [list(range(size // 2)), list(range(size // 2, size))]
    groups = [hvd.add_process_set(half) for half in halves]
    assert [group.process_set_id for group in groups] == [1, 2]
    own_half = 0 if rank in halves[0] else 1
    # Each half makes its own number of steps, under the same names.
    for step in range(20 + 10 * own_half):
        sent = torch.full((100,), float(rank + step))
        handles = [
            hvd.allreduce_async(sent, name=f"{name}.{i}", op=hvd.Sum, process_set=groups[own_half]) for i in range(5)
        ]
        for handle in handles:
            assert hvd.synchronize(handle)[0] == sum(halves[own_half]) + step * len(halves[own_half])
    check_global_sum(size, name)


@several_ranks
def test_overlapping_sets_and_the_global_set_use_one_name_concurrently(name: str, rank: int, size: int) -> None:
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
def test_unnamed_calls_are_numbered_separately_in_each_set(rank: int, size: int) -> None:
    group = hvd.add_process_set([0])
    if rank == 0:
        for _ in range(3):
            hvd.allreduce(torch.ones(2), process_set=group)
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size, size]
    hvd.remove_process_set(group)
    later = added([rank for rank in range(size) if rank < 2], size)
    if rank < 2:
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=later).tolist() == [2, 2]


# ---- addition and removal ----


@several_ranks
def test_sets_can_be_added_and_removed_repeatedly(name: str, rank: int, size: int) -> None:
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
        # Ids are reused in the order of their removal.
        for group in (second, first):
            assert hvd.remove_process_set(group) is True
            assert group.process_set_id is None and group.size() is None
            assert hvd.remove_process_set(group) is False
        assert process_sets.get_process_set_ids_and_ranks() == {0: list(range(size))}
    check_global_sum(size, name)


@several_ranks
def test_removing_a_set_fails_only_its_pending_operations(name: str, rank: int, size: int) -> None:
    ranks = list(range(size))[-2:] if size > 2 else [0]
    group, other = hvd.add_process_set(ranks), hvd.add_process_set([size - 1])
    other_handle = (
        hvd.allreduce_async(torch.ones(2), name=f"{name}.other", process_set=other) if rank == size - 1 else None
    )
    pending = None
    if rank in ranks and size > 2:  # in a set of one, nothing stays pending
        pending = hvd.allreduce_async(torch.ones(2), name=f"{name}.{rank}", process_set=group)
    global_handle = hvd.allreduce_async(torch.ones(2), name=name, op=hvd.Sum) if rank == 0 else None
    assert hvd.remove_process_set(group) is True
    if pending is not None:
        with pytest.raises(hvd.HorovodInternalError, match="removed") as caught:
            hvd.synchronize(pending)
        assert caught.value.kind == "aborted"
    if global_handle is None:
        global_handle = hvd.allreduce_async(torch.ones(2), name=name, op=hvd.Sum)
    assert hvd.synchronize(global_handle).tolist() == [size, size]
    if other_handle is not None:
        assert hvd.synchronize(other_handle).tolist() == [1, 1]
    if rank in ranks:
        with pytest.raises(ValueError, match="not registered"):
            hvd.allreduce(torch.ones(2), name=name, process_set=group)


@several_ranks
def test_shutdown_fails_pending_operations_of_a_set(name: str, rank: int, size: int) -> None:
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
    check_global_sum(size, name)


# ---- at init ----


@several_ranks
def test_init_registers_its_process_sets_and_looks_up_known_ones(name: str, rank: int, size: int) -> None:
    hvd.shutdown()
    first, second = hvd.ProcessSet([size - 1]), hvd.ProcessSet(range(size - 1))
    hvd.init(process_sets=[first, second] if size > 2 else [first])
    assert first.process_set_id == 1 and first.ranks == [size - 1]
    if rank == size - 1:
        assert hvd.allreduce(torch.ones(2), name=name, process_set=first).tolist() == [1, 1]
    elif size > 2:
        assert second.process_set_id == 2
        assert hvd.allreduce(torch.ones(2), name=name, op=hvd.Sum, process_set=second)[0] == size - 1
    # A second init() only looks the sets up.
    same = hvd.ProcessSet([size - 1])
    hvd.init(process_sets=[same])
    assert same.process_set_id == 1
    with pytest.raises(ValueError, match="does not exist"):
        hvd.init(process_sets=[hvd.ProcessSet([size + 3])])
    check_global_sum(size, name)


@several_ranks
def test_init_refuses_a_set_that_exists_already(name: str, rank: int, size: int) -> None:
    for same in ([0], list(range(size))):
        hvd.shutdown()
        first, again = hvd.ProcessSet([0]), hvd.ProcessSet(same[::-1])
        with pytest.raises(ValueError, match="exists already"):
            hvd.init(process_sets=[first, again])
        assert hvd.is_initialized() and first.process_set_id == 1 and again.process_set_id is None
        hvd.init(process_sets=[first])
        check_global_sum(size, f"{name}.{len(same)}")


@several_ranks
def test_init_with_a_wrong_set_fails_on_all_ranks(name: str, rank: int, size: int) -> None:
    for wrong in ([0, 0], [0, size], [-1, 0], [], [rank]):
        hvd.shutdown()
        with pytest.raises(ValueError):
            hvd.init(process_sets=[hvd.ProcessSet(wrong)])
        assert not hvd.is_initialized()
        hvd.init()
        check_global_sum(size, f"{name}.{len(wrong)}")


def test_sets_cannot_be_changed_without_the_dynamic_setting(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
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


# ---- wrong calls ----


def test_the_global_set_has_id_0_and_cannot_be_removed(size: int) -> None:
    global_set = hvd.global_process_set
    assert global_set.process_set_id == 0 and global_set.ranks == list(range(size))
    assert global_set.size() == size and global_set.rank() == hvd.rank() and global_set.included() is True
    unregistered = hvd.ProcessSet([0])
    assert unregistered.process_set_id is None and unregistered.size() is None and unregistered.rank() is None
    assert hvd.remove_process_set(unregistered) is False
    assert hvd.remove_process_set(global_set) is False
    assert process_sets.process_set_included() is True
    with pytest.raises(ValueError):
        process_sets.process_set_included(7)


@several_ranks
def test_operations_of_a_rank_outside_the_set_are_refused(name: str, rank: int, size: int) -> None:
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
    check_global_sum(size, name)


@several_ranks
def test_a_broadcast_root_outside_the_set_is_refused(name: str, rank: int, size: int) -> None:
    group = hvd.add_process_set(without(0, size))
    if rank != 0:
        for root in (0, size, -1):
            with pytest.raises(ValueError, match=f"root rank {root} is not in the process set"):
                hvd.broadcast(torch.ones(2), root, name=name, process_set=group)


@several_ranks
def test_split_counts_and_mismatch_errors_refer_to_the_members_of_the_set(name: str, rank: int, size: int) -> None:
    ranks = without(0, size)
    group = hvd.add_process_set(ranks)
    if rank in ranks:
        with pytest.raises(ValueError, match=name):
            hvd.alltoall(torch.ones(size), [1] * size, name=name, process_set=group)
    if rank in ranks and len(ranks) > 1:
        with pytest.raises(hvd.HorovodInternalError, match=f"rank {ranks[-1]}"):
            hvd.allreduce(torch.ones(2 + (rank == ranks[-1])), name=name, process_set=group)
        assert hvd.allreduce(torch.ones(2), name=name, op=hvd.Sum, process_set=group)[0] == len(ranks)
    check_global_sum(size, name)


@several_ranks
def test_invalid_changes_of_sets_fail_on_all_ranks(name: str, rank: int, size: int) -> None:
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
    check_global_sum(size, name)


@several_ranks
def test_all_objects_for_a_set_that_is_removed_lose_its_number() -> None:
    first, other = hvd.add_process_set([0]), hvd.ProcessSet([0])
    hvd.init(process_sets=[other])  # the job runs already, so the object stands for the set that exists
    assert other.process_set_id == first.process_set_id != 0
    assert hvd.remove_process_set(first)
    assert first.process_set_id is None and other.process_set_id is None


@several_ranks
def test_a_pickled_set_is_the_one_with_its_ranks(size: int) -> None:
    group = hvd.add_process_set(without(0, size))
    saved = pickle.dumps([group, hvd.global_process_set])
    assert [a is b for a, b in zip(pickle.loads(saved), [group, hvd.global_process_set])] == [True, True]
    hvd.remove_process_set(group)
    with pytest.raises(ValueError, match=r"process set of ranks \[1.*add it"):
        pickle.loads(saved)
    number = job.runtime.add_process_set([0])  # a set without an object, as in a process that has joined later
    assert pickle.loads(pickle.dumps(process_sets.with_ranks([0]))).process_set_id == number
    again = hvd.add_process_set(without(0, size))
    assert pickle.loads(saved)[0] is again
    assert pickle.loads(pickle.dumps(hvd.ProcessSet([0]))).process_set_id is None
