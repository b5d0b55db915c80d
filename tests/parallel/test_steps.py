"""Steps that ask for the same tensors again and again: what relays learn by heart must change no result.

Between hosts with relays (FARANDOLE_RELAY_RANKS) ids that come together are asked for in buckets; what follows then
breaks the pattern in every way that a training script may.
"""

from __future__ import annotations

import random
from typing import List

import horovod.torch as hvd
import pytest
import torch

TENSORS = 12
WARM = 6  # steps, after which the pattern is known


def tensor(index: int, rank: int, step: int) -> torch.Tensor:
    return torch.full((50 + 700 * (index % 3),), float(100 * step + 10 * index + rank))


def total(index: int, size: int, step: int) -> float:
    return sum(100 * step + 10 * index + rank for rank in range(size))


def submit(name: str, index: int, rank: int, step: int) -> int:
    return int(hvd.allreduce_async_(tensor(index, rank, step), name=f"{name}.{index}", op=hvd.Sum))


def settle(handles: List[int], indices: List[int], size: int, step: int) -> None:
    for handle, index in zip(handles, indices):
        assert bool((hvd.synchronize(handle) == total(index, size, step)).all())


def train(name: str, rank: int, size: int, step: int) -> None:
    """Each rank in an order of its own, as gradients may become ready."""
    order = list(range(TENSORS))
    random.Random(31 * step + rank).shuffle(order)
    settle([submit(name, index, rank, step) for index in order], order, size, step)


@pytest.fixture
def warm(name: str, rank: int, size: int) -> str:
    for step in range(WARM):
        train(name, rank, size, step)
    return name


def test_steps_go_on_as_they_began(warm: str, rank: int, size: int) -> None:
    for step in range(40):
        train(warm, rank, size, step)


def test_a_caller_begins_to_wait_in_between(warm: str, rank: int, size: int) -> None:
    for step in range(2):
        for index in range(TENSORS):
            settle([submit(warm, index, rank, step)], [index], size, step)
    for step in range(WARM):
        train(warm, rank, size, step)


def test_one_rank_waits_where_the_others_do_not(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    if rank == size - 1:
        for index in order:
            settle([submit(warm, index, rank, 0)], [index], size, 0)
    else:
        settle([submit(warm, index, rank, 0) for index in order], order, size, 0)
    train(warm, rank, size, 1)


def test_a_step_leaves_some_out(warm: str, rank: int, size: int) -> None:
    for step in range(6):
        some = [index for index in range(TENSORS) if index % 6 != step]
        settle([submit(warm, index, rank, step) for index in some], some, size, step)
    train(warm, rank, size, 7)


def test_a_tensor_changes_its_shape_in_the_midst(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    handles = [submit(warm, index, rank, 0) for index in order[:-1]]
    other = hvd.allreduce_async_(torch.ones(3), name=f"{warm}.{order[-1]}", op=hvd.Sum)
    settle(handles, order[:-1], size, 0)
    assert hvd.synchronize(other).tolist() == [size] * 3
    train(warm, rank, size, 1)


def test_a_mismatch_in_the_midst_fails_alone(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    handles = [submit(warm, index, rank, 0) for index in order[:-1]]
    odd = hvd.allreduce_async_(torch.ones(3 + (rank == 0)), name=f"{warm}.{order[-1]}", op=hvd.Sum)
    with pytest.raises(hvd.HorovodInternalError, match="shape"):
        hvd.synchronize(odd)
    settle(handles, order[:-1], size, 0)
    for step in range(WARM):
        train(warm, rank, size, step)


def test_ranks_join_in_the_midst(warm: str, rank: int, size: int) -> None:
    order = list(range(TENSORS))
    for step in range(2 * rank):
        for index in order:
            present = sum(100 * step + 10 * index + one for one in range(size) if 2 * one > step)
            handle = submit(warm, index, rank, step)
            assert bool((hvd.synchronize(handle) == present).all())
    assert hvd.join() == size - 1
    for step in range(WARM):
        train(warm, rank, size, step)
