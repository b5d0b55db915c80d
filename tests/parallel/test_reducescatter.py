"""reducescatter reduces like allreduce and leaves each rank its share of the rows."""

from __future__ import annotations

from typing import List, Tuple

import horovod.torch as hvd
import numpy
import pytest
import torch
from samples import EXACT, FLOATS, INTEGERS, REDUCIBLE, sample, samples, wide


def share(rows: torch.Tensor, rank: int, size: int) -> torch.Tensor:
    """The rows of one rank; the first ranks have one row more if the rows cannot be divided evenly."""
    return torch.from_numpy(numpy.array_split(rows.numpy(), size)[rank])


def rows_for(size: int) -> List[int]:
    return [0, 1, size - 1, size, size + 1, 2 * size, 3 * size + 2]


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
@pytest.mark.parametrize("op", list(EXACT))
def test_reducescatter_reduces_exactly(op: str, dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    shape = (2 * size + 1, 3)
    tensor = sample(rank, dtype, shape)
    before = tensor.clone()
    reduced = hvd.reducescatter(tensor, name=name, op=getattr(hvd, op))
    assert reduced.dtype == dtype
    expected = EXACT[op](wide(samples(size, dtype, shape))).to(dtype)
    assert torch.equal(wide(reduced), share(wide(expected), rank, size))
    assert torch.equal(tensor, before)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_reducescatter_averages_by_default(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    shape = (size + 1, 4)
    reduced = hvd.reducescatter(sample(rank, dtype, shape), name=name)
    expected = share(wide(samples(size, dtype, shape)).sum(0) / size, rank, size)
    torch.testing.assert_close(reduced, expected.to(dtype))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_average_of_integers_truncates_toward_zero(dtype: torch.dtype, name: str, rank: int, size: int) -> None:
    shape = (size + 1, 4)
    reduced = hvd.reducescatter(sample(rank, dtype, shape), name=name, op=hvd.Average)
    total = share(wide(samples(size, dtype, shape)).sum(0), rank, size)
    assert torch.equal(wide(reduced), torch.div(total, size, rounding_mode="trunc"))


@pytest.mark.parametrize("dtype", REDUCIBLE, ids=str)
def test_reducescatter_applies_the_prescale_before_and_the_postscale_after(
    dtype: torch.dtype, name: str, rank: int, size: int
) -> None:
    shape = (2 * size + 1, 3)
    reduced = hvd.reducescatter(
        sample(rank, dtype, shape), name=name, op=hvd.Sum, prescale_factor=2.5, postscale_factor=0.5
    )
    inputs = wide(samples(size, dtype, shape))
    if dtype.is_floating_point:
        expected = share((inputs * 2.5).sum(0) * 0.5, rank, size)
        torch.testing.assert_close(reduced, expected.to(dtype))
        return
    # Integers are scaled in double and truncated, separately before and after.
    scaled = numpy.trunc(inputs.numpy() * 2.5).astype(numpy.int64)
    summed = torch.from_numpy(scaled).to(dtype).sum(0, dtype=dtype)
    expected = torch.from_numpy(numpy.trunc(wide(summed).numpy() * 0.5).astype(numpy.int64))
    assert torch.equal(wide(reduced), share(expected, rank, size))


@pytest.mark.parametrize("row", [(), (1,), (0,), (3, 2), (257,)], ids=str)
def test_reducescatter_accepts_every_number_of_rows(row: Tuple[int, ...], name: str, rank: int, size: int) -> None:
    for rows in rows_for(size):
        shape = (rows, *row)
        for _ in range(2):
            reduced = hvd.reducescatter(sample(rank, torch.float32, shape), name=f"{name}.{rows}", op=hvd.Sum)
            assert torch.equal(reduced, share(samples(size, torch.float32, shape).sum(0), rank, size)), rows


def test_a_share_has_the_same_bits_as_those_rows_of_an_allreduce(name: str, rank: int, size: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    for rows in (13, 5_003, 300_007):
        tensor = torch.randn(rows, 3, generator=generator)
        whole = hvd.allreduce(tensor, name=f"{name}.{rows}", op=hvd.Sum)
        part = hvd.reducescatter(tensor, name=f"{name}.{rows}", op=hvd.Sum)
        assert torch.equal(part, share(whole, rank, size)), rows


def test_a_repeated_reducescatter_has_the_same_bits(name: str, rank: int) -> None:
    tensor = torch.randn(50_021, generator=torch.Generator().manual_seed(rank))
    first = hvd.reducescatter(tensor, name=name)
    for _ in range(5):
        assert torch.equal(hvd.reducescatter(tensor, name=name), first)


def test_the_tensor_of_a_name_may_change_shape_and_type_on_all_ranks(name: str, rank: int, size: int) -> None:
    for dtype, rows in ((torch.float32, 5), (torch.float32, 6), (torch.int64, 6), (torch.float64, 70_000)):
        for _ in range(3):
            reduced = hvd.reducescatter(torch.ones(rows, dtype=dtype), name=name, op=hvd.Sum)
            assert torch.equal(reduced, share(torch.full((rows,), size, dtype=dtype), rank, size))


def test_many_operations_in_flight_may_be_synchronized_in_reverse_order(name: str, rank: int, size: int) -> None:
    order = list(range(40))
    if rank % 2:
        order.reverse()
    for _ in range(3):
        handles = {}
        for i in order:
            tensor = torch.full((size + i, 3), float(rank + i))
            handles[i] = hvd.reducescatter_async(tensor, name=f"{name}.{i}", op=hvd.Sum)
        for i in reversed(range(40)):
            whole = torch.full((size + i, 3), float(size * i) + size * (size - 1) / 2)
            assert torch.equal(hvd.synchronize(handles[i]), share(whole, rank, size)), i


def test_unnamed_calls_match_by_their_order(rank: int, size: int) -> None:
    first = hvd.reducescatter_async(torch.full((size,), float(rank)), op=hvd.Sum)
    second = hvd.reducescatter_async(torch.ones(2 * size), op=hvd.Sum)
    assert hvd.synchronize(second).tolist() == [size] * 2
    assert hvd.synchronize(first).tolist() == [size * (size - 1) / 2]


@pytest.mark.parametrize("compression", ["none", "fp16", "bf16"])
def test_a_compressed_reducescatter_keeps_the_dtype(compression: str, name: str, rank: int, size: int) -> None:
    compressor = getattr(hvd.Compression, compression)
    for dtype in (torch.float32, torch.float64, torch.int32):
        tensor = torch.full((size, 2), rank, dtype=dtype)
        reduced = hvd.reducescatter(tensor, name=f"{name}.{dtype}", op=hvd.Sum, compression=compressor)
        assert reduced.dtype == dtype and reduced.tolist() == [[size * (size - 1) / 2] * 2]
    grouped = hvd.grouped_reducescatter(
        [torch.ones(size), torch.ones(2 * size)], name=name, op=hvd.Sum, compression=compressor
    )
    assert [rows.tolist() for rows in grouped] == [[size], [size] * 2]


# ---- groups ----


def test_grouped_reducescatter_scatters_each_tensor_of_the_group(name: str, rank: int, size: int) -> None:
    tensors = [sample(rank, dtype, (size + i, i + 1)) for i, dtype in enumerate(REDUCIBLE)]
    expected = [
        share(EXACT["Sum"](wide(samples(size, dtype, (size + i, i + 1)))), rank, size)
        for i, dtype in enumerate(REDUCIBLE)
    ]
    for _ in range(3):
        reduced = hvd.grouped_reducescatter(tensors, name=name, op=hvd.Sum)
        assert isinstance(reduced, list)
        assert [rows.dtype for rows in reduced] == REDUCIBLE
        assert all(torch.equal(wide(a), b) for a, b in zip(reduced, expected))
    again = hvd.synchronize(hvd.grouped_reducescatter_async(tensors, name=name, op=hvd.Sum))
    assert all(torch.equal(a, b) for a, b in zip(again, reduced))


def test_grouped_reducescatter_applies_the_scales(name: str, rank: int, size: int) -> None:
    reduced = hvd.grouped_reducescatter(
        [torch.ones(size), torch.ones(2 * size)], name=name, prescale_factor=4.0, postscale_factor=0.5
    )
    assert [rows.tolist() for rows in reduced] == [[2.0], [2.0, 2.0]]


def test_an_empty_group_returns_an_empty_list_and_is_refused_asynchronously() -> None:
    assert hvd.grouped_reducescatter([]) == []
    with pytest.raises(ValueError):
        hvd.grouped_reducescatter_async([])


# ---- gradients ----


@pytest.mark.parametrize("op, factor_per_rank", [("Sum", 1.0), ("Average", 0.0)])
def test_gradients_of_reducescatter_are_gathered(
    op: str, factor_per_rank: float, name: str, rank: int, size: int
) -> None:
    rows = 2 * size + 1
    x = torch.ones(rows, 3, requires_grad=True)
    reduced = hvd.reducescatter(x, name=name, op=getattr(hvd, op))
    (reduced * (rank + 1)).sum().backward()
    owners = [owner + 1.0 for owner in range(size) for _ in range(rows // size + (owner < rows % size))]
    factor = factor_per_rank * size or 1.0
    assert x.grad is not None
    assert torch.equal(x.grad, torch.tensor(owners).reshape(-1, 1).expand(-1, 3) * factor)


def test_gradients_are_scaled_like_the_values(name: str, size: int) -> None:
    x = torch.ones(size, requires_grad=True)
    hvd.reducescatter(x, name=name, prescale_factor=0.5, postscale_factor=3.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.5] * size


def test_grouped_reducescatter_has_gradients(name: str, rank: int, size: int) -> None:
    xs = [torch.ones(size + i, 2, requires_grad=True) for i in range(3)]
    reduced = hvd.grouped_reducescatter(xs, name=name, op=hvd.Sum, prescale_factor=2.0)
    sum((rows * (i + 1)).sum() for i, rows in enumerate(reduced)).backward()
    for i, x in enumerate(xs):
        assert x.grad is not None and torch.equal(x.grad, torch.full((size + i, 2), 2.0 * (i + 1) * size))


def test_a_compressed_reducescatter_has_gradients(name: str, size: int) -> None:
    x = torch.ones(size, requires_grad=True)
    hvd.reducescatter(x, name=name, op=hvd.Sum, compression=hvd.Compression.fp16).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [size] * size
