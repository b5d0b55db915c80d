"""Batch normalisation over all ranks is that of one process with the whole batch."""

from __future__ import annotations

from typing import Any, Tuple

import horovod.torch as hvd
import pytest
import torch

SHAPES = [(5, 4), (5, 4, 7), (5, 4, 3, 2), (2, 4, 2, 3, 2)]


def whole(size: int, shape: Tuple[int, ...], dtype: torch.dtype) -> Tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(size * shape[0], *shape[1:], generator=generator, dtype=torch.float64) * 3 + 1
    weights = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    return x.to(dtype), weights.to(dtype)


def reference(dimensions: int, **options: Any) -> torch.nn.Module:
    kinds = {2: torch.nn.BatchNorm1d, 3: torch.nn.BatchNorm1d, 4: torch.nn.BatchNorm2d, 5: torch.nn.BatchNorm3d}
    return kinds[dimensions](4, **options)


def fill(layer: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    with torch.no_grad():
        if layer.weight is not None:
            layer.weight.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0]))  # type: ignore[operator]
            layer.bias.copy_(torch.tensor([0.0, 1.0, -1.0, 2.0]))  # type: ignore[operator]
    return layer.to(dtype)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"affine": False}, {"momentum": None}, {"track_running_stats": False}, {"momentum": 0.3, "eps": 1e-3}],
    ids=str,
)
def test_it_equals_one_big_batch(shape: Tuple[int, ...], options: Any, rank: int, size: int) -> None:
    dtype = torch.float64
    x, weights = whole(size, shape, dtype)
    expected = fill(reference(len(shape), **options), dtype)
    layer = fill(hvd.SyncBatchNorm(4, **options), dtype)
    mine = slice(rank * shape[0], (rank + 1) * shape[0])
    for _ in range(2):
        big = x.clone().requires_grad_()
        (expected(big) * weights).sum().backward()
        small = x[mine].clone().requires_grad_()
        (layer(small) * weights[mine]).sum().backward()
        torch.testing.assert_close(layer(x[mine]), expected(x)[mine])
        torch.testing.assert_close(small.grad, big.grad[mine])  # type: ignore[index]
    if layer.weight is not None:
        for own, other in ((layer.weight, expected.weight), (layer.bias, expected.bias)):
            summed = hvd.allreduce(own.grad, op=hvd.Sum)
            torch.testing.assert_close(summed, other.grad)  # type: ignore[union-attr]
    if layer.running_mean is not None:
        torch.testing.assert_close(layer.running_mean, expected.running_mean)
        torch.testing.assert_close(layer.running_var, expected.running_var)
        layer.eval(), expected.eval()
        torch.testing.assert_close(layer(x[mine]), expected(x)[mine])


def test_ranks_may_bring_batches_of_different_sizes(rank: int, size: int) -> None:
    x, _ = whole(size * 4, (3, 4), torch.float64)
    ends = [3 * (other + 1) * (other + 2) // 2 for other in range(size)]
    mine = x[ends[rank] - 3 * (rank + 1) : ends[rank]]
    everything = x[: ends[-1]]
    layer = hvd.SyncBatchNorm(4).double()
    expected = torch.nn.BatchNorm1d(4).double()
    torch.testing.assert_close(layer(mine), expected(everything)[ends[rank] - 3 * (rank + 1) : ends[rank]])
    torch.testing.assert_close(layer.running_var, expected.running_var)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_types_are_kept(dtype: torch.dtype, rank: int, size: int) -> None:
    x, _ = whole(size, (5, 4, 3), dtype)
    layer = hvd.SyncBatchNorm(4)
    small = x[rank * 5 : rank * 5 + 5].clone().requires_grad_()
    output = layer(small)
    output.sum().backward()
    assert output.dtype == dtype and small.grad is not None and small.grad.dtype == dtype
    assert layer.weight.grad.dtype == torch.float32


def test_too_few_dimensions_are_refused() -> None:
    with pytest.raises(ValueError):
        hvd.SyncBatchNorm(4)(torch.ones(4))
