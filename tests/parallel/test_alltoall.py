"""alltoall distributes rows to all ranks; each rank chooses its splits, and may change them at every call."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import horovod.torch as hvd
import numpy
import pytest
import torch
from samples import ALL_TYPES, sample

RowCounts = Callable[[int, int], int]
"""How many rows a source rank sends to a target rank."""

ROW_COUNTS: Dict[str, RowCounts] = {
    "one row each": lambda source, target: 1,
    "uneven, zeros too": lambda source, target: (source + 2 * target) % 4,
    "more to later ranks": lambda source, target: 5 * target + source,
    "no rows": lambda source, target: 0,
    "all to rank 0": lambda source, target: 0 if target else source + 3,
    "all from rank 0": lambda source, target: 0 if source else target + 3,
    "only to itself": lambda source, target: 4 if source == target else 0,
    "none to itself": lambda source, target: 0 if source == target else 3,
    "many to later ranks": lambda source, target: 20_011 if target > source else 7,
}


def splits_of(row_counts: RowCounts, rank: int, size: int) -> List[int]:
    return [row_counts(rank, target) for target in range(size)]


def rows_of(
    row_counts: RowCounts, rank: int, size: int, dtype: torch.dtype, row: Tuple[int, ...] = (3,)
) -> torch.Tensor:
    return sample(rank, dtype, (sum(splits_of(row_counts, rank, size)), *row))


def as_numpy(tensor: torch.Tensor) -> numpy.ndarray:  # type: ignore[type-arg]
    return (tensor.to(torch.float32) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def expected_at(
    rank: int, row_counts: RowCounts, size: int, dtype: torch.dtype, row: Tuple[int, ...] = (3,)
) -> numpy.ndarray:  # type: ignore[type-arg]
    pieces = []
    for source in range(size):
        sent = as_numpy(rows_of(row_counts, source, size, dtype, row))
        pieces.append(numpy.split(sent, numpy.cumsum(splits_of(row_counts, source, size))[:-1])[rank])
    return numpy.concatenate(pieces)


def check(received: torch.Tensor, rank: int, row_counts: RowCounts, size: int, row: Tuple[int, ...] = (3,)) -> None:
    expected = expected_at(rank, row_counts, size, received.dtype, row)
    assert received.shape == expected.shape
    numpy.testing.assert_array_equal(as_numpy(received), expected)


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
def test_rows_are_distributed_evenly_without_splits(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    own = rows_of(lambda source, target: 2, rank, size, dtype)
    before = own.clone()
    received = hvd.alltoall(own, name=name)
    assert isinstance(received, torch.Tensor) and received.dtype == dtype
    check(received, rank, lambda source, target: 2, size)
    assert torch.equal(own, before)


@pytest.mark.parametrize("dtype", ALL_TYPES, ids=str)
def test_rows_are_distributed_by_the_splits(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    row_counts = ROW_COUNTS["uneven, zeros too"]
    splits = torch.tensor(splits_of(row_counts, rank, size), dtype=torch.int32)
    received, counts = hvd.alltoall(rows_of(row_counts, rank, size, dtype), splits, name=name)
    assert received.dtype == dtype and counts.dtype == torch.int32 and counts.device == splits.device
    assert counts.tolist() == [row_counts(source, rank) for source in range(size)]
    check(received, rank, row_counts, size)


@pytest.mark.parametrize("kind", list(ROW_COUNTS))
def test_any_row_counts_are_exchanged(kind: str, name: str, rank: int, size: int) -> None:
    row_counts = ROW_COUNTS[kind]
    for _ in range(3):
        received, counts = hvd.alltoall(
            rows_of(row_counts, rank, size, torch.float32), splits_of(row_counts, rank, size), name=name
        )
        assert counts.tolist() == [row_counts(source, rank) for source in range(size)]
        check(received, rank, row_counts, size)


@pytest.mark.parametrize("row", [(), (1,), (0,), (2, 0), (7,), (2, 3, 5), (1001,)], ids=str)
def test_rows_of_any_shape_are_exchanged(row: Tuple[int, ...], name: str, rank: int, size: int) -> None:
    row_counts = ROW_COUNTS["more to later ranks"]
    received, counts = hvd.alltoall(
        rows_of(row_counts, rank, size, torch.int16, row), splits_of(row_counts, rank, size), name=name
    )
    assert counts.tolist() == [row_counts(source, rank) for source in range(size)]
    check(received, rank, row_counts, size, row)


@pytest.mark.parametrize("as_tensor", [False, True], ids=["list", "tensor"])
def test_more_rows_than_int32_holds_are_counted_in_int64(as_tensor: bool, name: str, rank: int, size: int) -> None:
    # Rows without elements take no memory.
    splits = [2**31 + rank] + [1] * (size - 1)
    x = torch.empty(sum(splits), 0, requires_grad=as_tensor)
    received, counts = hvd.alltoall(x, torch.tensor(splits) if as_tensor else splits, name=name)
    wanted = [1 if rank else 2**31 + source for source in range(size)]
    assert counts.tolist() == wanted and counts.dtype == (torch.int32 if rank else torch.int64)
    assert received.shape == (sum(wanted), 0)
    if as_tensor:
        received.sum().backward()
        assert x.grad is not None and x.grad.shape == x.shape


def test_splits_may_change_between_calls_under_the_same_name(name: str, rank: int, size: int) -> None:
    for step in range(30):
        # The number of rows stays the same for four steps, in which only the splits differ.
        def row_counts(source: int, target: int, step: int = step) -> int:
            return (source + target + step // 2) % size + (step // 4) % 3

        received, counts = hvd.alltoall(
            rows_of(row_counts, rank, size, torch.float64), splits_of(row_counts, rank, size), name=name
        )
        assert counts.tolist() == [row_counts(source, rank) for source in range(size)], step
        check(received, rank, row_counts, size)


def test_calls_with_and_without_splits_may_alternate(name: str, rank: int, size: int) -> None:
    rows = torch.arange(float(size))
    for _ in range(5):
        assert torch.equal(hvd.alltoall(rows, name=name), torch.full((size,), float(rank)))
        received, counts = hvd.alltoall(rows, [size] + [0] * (size - 1), name=name)
        assert counts.tolist() == [0 if rank else size] * size
        assert torch.equal(received, rows.repeat(0 if rank else size))


def test_a_name_may_change_row_shape_and_type_on_all_ranks(name: str, rank: int, size: int) -> None:
    row_counts = ROW_COUNTS["uneven, zeros too"]
    kinds: Tuple[Tuple[torch.dtype, Tuple[int, ...]], ...] = (
        (torch.float32, (3,)),
        (torch.int8, (3,)),
        (torch.int8, (4, 2)),
        (torch.float64, ()),
    )
    for dtype, row in kinds:
        for _ in range(3):
            received, _ = hvd.alltoall(
                rows_of(row_counts, rank, size, dtype, row), splits_of(row_counts, rank, size), name=name
            )
            check(received, rank, row_counts, size, row)


@pytest.mark.parametrize("form", ["tensor", "list", "tuple", "numpy"])
def test_splits_may_be_a_tensor_list_tuple_or_array(form: str, name: str, rank: int, size: int) -> None:
    row_counts = ROW_COUNTS["more to later ranks"]
    plain = splits_of(row_counts, rank, size)
    splits: Any = {
        "tensor": torch.tensor(plain, dtype=torch.int32),
        "list": plain,
        "tuple": tuple(plain),
        "numpy": numpy.array(plain),
    }[form]
    received, counts = hvd.alltoall(rows_of(row_counts, rank, size, torch.float32), splits, name=name)
    assert counts.dtype == torch.int32 and counts.device.type == "cpu"
    check(received, rank, row_counts, size)


def test_empty_splits_distribute_evenly_and_return_the_counts_too(name: str, rank: int, size: int) -> None:
    for splits in (torch.empty(0, dtype=torch.int32), []):
        received, counts = hvd.alltoall(torch.arange(2.0 * size), splits, name=name)
        assert counts.tolist() == [2] * size
        assert torch.equal(received, torch.tensor([2.0 * rank, 2.0 * rank + 1]).repeat(size))


def test_the_asynchronous_call_always_returns_the_counts_too(name: str, rank: int, size: int) -> None:
    rows = torch.arange(size)
    plain = hvd.alltoall_async(rows, name=f"{name}.plain")
    split = hvd.alltoall_async(rows, [1] * size, name=f"{name}.split")
    for handle in (split, plain):
        received, counts = hvd.synchronize(handle)
        assert received.tolist() == [rank] * size and counts.tolist() == [1] * size
        assert counts.dtype == torch.int32
        assert hvd.synchronize(handle) is None


def test_many_exchanges_in_flight_complete_among_other_operations(name: str, rank: int, size: int) -> None:
    row_counts = ROW_COUNTS["uneven, zeros too"]
    own = rows_of(row_counts, rank, size, torch.float32)
    splits = splits_of(row_counts, rank, size)
    order = list(range(20))
    if rank % 2:
        order.reverse()
    for _ in range(3):
        exchanges, sums = {}, {}
        for i in order:
            exchanges[i] = hvd.alltoall_async(own + i, splits, name=f"{name}.{i}")
            sums[i] = hvd.allreduce_async(torch.full((i + 1,), float(rank)), name=f"{name}.{i}", op=hvd.Sum)
        for i in range(20):
            check(hvd.synchronize(exchanges[i])[0] - i, rank, row_counts, size)
            assert torch.equal(hvd.synchronize(sums[i]), torch.full((i + 1,), size * (size - 1) / 2))


def test_unnamed_calls_match_by_their_order(rank: int, size: int) -> None:
    first = hvd.alltoall_async(torch.full((size,), rank))
    second = hvd.alltoall_async(torch.full((2 * size,), rank + 100))
    assert hvd.synchronize(second)[0].tolist() == [100 + source for source in range(size) for _ in range(2)]
    assert hvd.synchronize(first)[0].tolist() == list(range(size))


def test_a_received_tensor_outlives_its_handle_and_is_writable(name: str, rank: int, size: int) -> None:
    received, _ = hvd.synchronize(hvd.alltoall_async(torch.full((size,), rank), name=name))
    more = [hvd.alltoall(torch.full((100 * size,), i), name=f"{name}.{i}") for i in range(10)]
    assert received.tolist() == list(range(size))
    received += 1
    assert received.tolist() == list(range(1, size + 1))
    assert all(torch.equal(tensor, torch.full((100 * size,), i)) for i, tensor in enumerate(more))


# ---- gradients ----


def test_a_gradient_returns_to_the_rank_that_sent_its_row(name: str, rank: int, size: int) -> None:
    row_counts = ROW_COUNTS["uneven, zeros too"]
    x = rows_of(row_counts, rank, size, torch.float32).requires_grad_()
    received, counts = hvd.alltoall(x, splits_of(row_counts, rank, size), name=name)
    assert received.requires_grad and not counts.requires_grad
    (received * (rank + 1)).sum().backward()
    wanted = [float(target + 1) for target in range(size) for _ in range(row_counts(rank, target))]
    assert x.grad is not None
    assert torch.equal(x.grad, torch.tensor(wanted).reshape(-1, 1).expand(-1, 3))


def test_a_gradient_passes_through_an_even_distribution(name: str, rank: int, size: int) -> None:
    x = torch.ones(2 * size, requires_grad=True)
    received = hvd.alltoall(x, name=name)
    assert isinstance(received, torch.Tensor)
    (received * (rank + 1)).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [float(target + 1) for target in range(size) for _ in range(2)]


def test_no_gradient_is_recorded_under_no_grad_or_for_detached_tensors(name: str, size: int) -> None:
    x = torch.ones(size, requires_grad=True)
    with torch.no_grad():
        assert not hvd.alltoall(x, name=name).requires_grad
    assert not hvd.synchronize(hvd.alltoall_async(x.detach(), name=name))[0].requires_grad
