"""Large tensors compressed to half precision are sent in pieces, with the results of one piece."""

from __future__ import annotations

import functools
from typing import Any, Optional

import horovod.torch as hvd
import pytest
import torch
from farandole.torch.ops import piecewise

ROWS, COLUMNS = 1027, 4096  # a little above the bound, and not a multiple of the number of pieces


@functools.lru_cache
def pattern(elements: int) -> torch.Tensor:
    return torch.arange(elements) % 61


def large(rank: int, rows: int = ROWS, columns: int = COLUMNS, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers that half precision holds exactly and that differ between ranks and positions."""
    return (pattern(rows * columns) + rank).to(dtype).view(rows, columns)


def sum_of_all(size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The sum of what `large` returns for all ranks."""
    return (pattern(ROWS * COLUMNS) * size + sum(range(size))).to(dtype).view(ROWS, COLUMNS)


def check_later_operations_work(size: int, name: str) -> None:
    assert hvd.allreduce(torch.ones(4), name=name, op=hvd.Sum).tolist() == [size] * 4
    summed = hvd.allreduce(large(0), name=name, op=hvd.Sum, compression=hvd.Compression.fp16)
    assert torch.equal(summed, large(0) * size)


@pytest.mark.parametrize(
    "named, compression, dtype",
    [
        (True, hvd.Compression.fp16, torch.float32),
        (False, hvd.Compression.fp16, torch.float64),
        (False, hvd.Compression.bf16, torch.float32),
    ],
)
def test_a_piecewise_allreduce_has_the_right_sum(
    named: bool, compression: Any, dtype: torch.dtype, rank: int, size: int, name: str
) -> None:
    tensor = large(rank, dtype=dtype)
    assert piecewise.pays(tensor, compression, hvd.Sum)
    operation_name: Optional[str] = name if named else None
    summed = hvd.allreduce(tensor, name=operation_name, op=hvd.Sum, compression=compression)
    assert summed.dtype == dtype and summed.shape == tensor.shape
    # bfloat16 holds integers up to 256.
    exact = size <= 3
    expected = sum_of_all(size, dtype)
    assert torch.equal(summed, expected) if exact else torch.allclose(summed, expected, rtol=0.02)
    assert torch.equal(tensor, large(rank, dtype=dtype)), "the input was changed"


def test_a_piecewise_allreduce_is_close_to_an_allreduce_in_one_piece(rank: int, size: int, name: str) -> None:
    generator = torch.Generator().manual_seed(rank)
    tensor = torch.randn(ROWS, COLUMNS, generator=generator)
    scales = {"prescale_factor": 0.5, "postscale_factor": 3.0}
    pieces = hvd.allreduce(tensor, name=name, compression=hvd.Compression.fp16, **scales)
    whole = hvd.allreduce(tensor.to(torch.float16), name=name + ".whole", **scales).to(torch.float32)
    assert torch.allclose(pieces, whole, rtol=2e-3, atol=2e-3)
    gathered = hvd.allgather(pieces[:1], name=name + ".all")
    assert all(torch.equal(gathered[0], row) for row in gathered)


@pytest.mark.parametrize(
    "tensor, op",
    [
        (torch.ones(4), hvd.Sum),
        (torch.ones(4, 2 << 20), hvd.Sum),
        (torch.ones(8, 1 << 20), hvd.Adasum),
        (torch.ones(8, 1 << 20, dtype=torch.int32), hvd.Sum),
        (torch.ones(1 << 20, 8).t(), hvd.Sum),
    ],
)
def test_small_unsupported_and_uncompressed_tensors_go_in_one_piece(tensor: torch.Tensor, op: int) -> None:
    assert not piecewise.pays(tensor, hvd.Compression.fp16, op)
    assert not piecewise.pays(torch.ones(8, 1 << 20), hvd.Compression.none, hvd.Sum)


def test_a_piecewise_allreduce_has_gradients(size: int, name: str) -> None:
    tensor = torch.ones(8, 1 << 19, requires_grad=True)
    hvd.allreduce(tensor, name=name, op=hvd.Sum, compression=hvd.Compression.fp16).sum().backward()
    assert tensor.grad is not None and tensor.grad[0, 0] == size


@pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
@pytest.mark.parametrize(
    "mismatched",
    [
        pytest.param(lambda: large(0, rows=ROWS + 1), id="one row more"),
        pytest.param(lambda: large(0, columns=COLUMNS + 1), id="longer rows"),
        pytest.param(lambda: large(0, rows=100), id="small enough to go in one"),
    ],
)
def test_a_shape_mismatch_of_large_tensors_fails_on_all_ranks(mismatched: Any, rank: int, size: int, name: str) -> None:
    tensor = mismatched() if rank == size - 1 else large(rank)
    with pytest.raises(hvd.HorovodInternalError, match="shape"):
        hvd.allreduce(tensor, name=name, op=hvd.Sum, compression=hvd.Compression.fp16)
    check_later_operations_work(size, name)
