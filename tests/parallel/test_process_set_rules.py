"""Process sets given by a rule, in a job whose membership does not change."""

from __future__ import annotations

from typing import Iterator

import horovod.torch as hvd
import pytest
import torch

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


@pytest.fixture(autouse=True)
def own_job(name: str, rank: int, size: int) -> Iterator[None]:
    hvd.shutdown()
    yield
    hvd.shutdown()
    hvd.init()


def check_sum(group: hvd.ProcessSet, name: str) -> None:
    total = hvd.allreduce(torch.tensor([hvd.rank() + 1]), name=name, op=hvd.Sum, process_set=group)
    assert total.tolist() == [sum(rank + 1 for rank in group.ranks or [])]


def test_a_set_by_rule_contains_the_members_that_the_rule_chooses(name: str, rank: int, size: int) -> None:
    last = hvd.ProcessSet.by_rule(lambda member: member.rank == member.size - 1)
    local = hvd.ProcessSet.by_rule(lambda member: member.local_rank < 2)
    all_ranks = hvd.ProcessSet.by_rule(lambda member: bool(member.host) and member.cross_size > member.cross_rank)
    assert last.ranks is None and last.included() is None
    hvd.init(process_sets=[last, hvd.ProcessSet([0]), local, all_ranks])
    assert last.ranks == [size - 1] and all_ranks.ranks == list(range(size))
    assert all_ranks.process_set_id != 0  # a set of its own, although it contains all ranks
    assert local.ranks is not None and local.ranks[:2] == list(range(min(size, 2)))
    for number, group in enumerate((last, local, all_ranks)):
        if group.included():
            check_sum(group, f"{name}.{number}")
    hvd.barrier()


def test_operations_in_a_set_by_rule_without_members_are_refused(name: str, rank: int) -> None:
    empty = hvd.ProcessSet.by_rule(lambda member: member.rank < 0)
    hvd.init(process_sets=[empty])
    assert empty.included() is False and empty.ranks == []
    for use in (empty.size, empty.rank, lambda: hvd.allreduce(torch.ones(1), name=name, process_set=empty)):
        with pytest.raises(ValueError, match="process set 1 has no members in this generation"):
            use()
    assert hvd.remove_process_set(empty) is False
    hvd.barrier()


@several_ranks
def test_a_rule_that_differs_between_ranks_fails_on_all_ranks(rank: int) -> None:
    own = hvd.ProcessSet.by_rule(lambda member: member.rank == hvd_rank)
    hvd_rank = rank
    with pytest.raises(ValueError, match=r"process set 1, but on rank 0 it has ranks \[0\] and on rank 1 it has"):
        hvd.init(process_sets=[own])


def test_init_fails_with_the_error_of_a_rule_that_raises() -> None:
    def failing_rule(member: object) -> bool:
        raise KeyError("no such host")

    with pytest.raises(ValueError, match="(?s)rule of a process set failed for rank 0: .*no such host"):
        hvd.init(process_sets=[hvd.ProcessSet.by_rule(failing_rule)])
    with pytest.raises(ValueError, match="a rule is a function"):
        hvd.ProcessSet.by_rule("rank == 0")  # type: ignore[arg-type]


def test_a_set_by_rule_is_refused_after_init() -> None:
    hvd.init()
    with pytest.raises(NotImplementedError, match="only to init"):
        hvd.add_process_set(hvd.ProcessSet.by_rule(lambda member: True))
    with pytest.raises(ValueError, match="first init"):
        hvd.init(process_sets=[hvd.ProcessSet.by_rule(lambda member: True)])
    hvd.barrier()
