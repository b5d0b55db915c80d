"""Steps that request the same tensors repeatedly: the buckets of relays must not change any result.

Between hosts with relays (FARANDOLE_RELAY_RANKS), ids that become ready together are requested in buckets. Each test
breaks this pattern in a way that a training script may.
"""

from __future__ import annotations

import random
from typing import List

import horovod.torch as hvd
import pytest
import torch

TENSORS = 12
WARM = 6  # steps after which the relays know the pattern


def tensor(index: int, rank: int, step: int) -> torch.Tensor:
    return torch.full((50 + 700 * (index % 3),), float(100 * step + 10 * index + rank))


def total(index: int, size: int, step: int) -> float:
    return sum(100 * step + 10 * index + rank for rank in range(size))


def submit(name: str, index: int, rank: int, step: int) -> int:
    return int(hvd.allreduce_async_(tensor(index, rank, step), name=f"{name}.{index}", op=hvd.Sum))


def check_sums(handles: List[int], indices: List[int], size: int, step: int) -> None:
    for handle, index in zip(handles, indices):
        assert bool((hvd.synchronize(handle) == total(index, size, step)).all())


def train(name: str, rank: int, size: int, step: int) -> None:
    """Each rank submits in its own order, as gradients may become ready."""
    order = list(range(TENSORS))
    random.Random(31 * step + rank).shuffle(order)
    check_sums([submit(name, index, rank, step) for index in order], order, size, step)


@pytest.fixture
def warm(name: str, rank: int, size: int) -> str:
    for step in range(WARM):
        train(name, rank, size, step)
    return name


def test_repeated_steps_have_the_right_sums(warm: str, rank: int, size: int) -> None:
    for step in range(40):
        train(warm, rank, size, step)


def test_sums_are_right_when_callers_begin_to_wait_for_each_tensor(warm: str, rank: int, size: int) -> None:
    for step in range(2):
        for index in range(TENSORS):
            check_sums([submit(warm, index, rank, step)], [index], size, step)
    for step in range(WARM):
        train(warm, rank, size, step)


def test_sums_are_right_when_one_rank_waits_for_each_tensor(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    if rank == size - 1:
        for index in order:
            check_sums([submit(warm, index, rank, 0)], [index], size, 0)
    else:
        check_sums([submit(warm, index, rank, 0) for index in order], order, size, 0)
    train(warm, rank, size, 1)


def test_sums_are_right_when_a_step_omits_tensors(warm: str, rank: int, size: int) -> None:
    for step in range(6):
        some = [index for index in range(TENSORS) if index % 6 != step]
        check_sums([submit(warm, index, rank, step) for index in some], some, size, step)
    train(warm, rank, size, 7)


def test_sums_are_right_when_a_tensor_changes_its_shape(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    handles = [submit(warm, index, rank, 0) for index in order[:-1]]
    other = hvd.allreduce_async_(torch.ones(3), name=f"{warm}.{order[-1]}", op=hvd.Sum)
    check_sums(handles, order[:-1], size, 0)
    assert hvd.synchronize(other).tolist() == [size] * 3
    train(warm, rank, size, 1)


def test_a_mismatch_in_a_repeated_step_fails_only_its_tensor(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    handles = [submit(warm, index, rank, 0) for index in order[:-1]]
    mismatched = hvd.allreduce_async_(torch.ones(3 + (rank == 0)), name=f"{warm}.{order[-1]}", op=hvd.Sum)
    with pytest.raises(hvd.HorovodInternalError, match="shape"):
        hvd.synchronize(mismatched)
    check_sums(handles, order[:-1], size, 0)
    for step in range(WARM):
        train(warm, rank, size, step)


def test_sums_are_right_while_ranks_join(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    for step in range(2 * rank):
        for index in order:
            present = sum(100 * step + 10 * index + other for other in range(size) if 2 * other > step)
            handle = submit(warm, index, rank, step)
            assert bool((hvd.synchronize(handle) == present).all())
    assert hvd.join() == size - 1
    for step in range(WARM):
        train(warm, rank, size, step)
