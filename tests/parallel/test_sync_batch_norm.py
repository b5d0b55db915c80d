"""Batch normalisation over all ranks equals that of one process with the whole batch."""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional, Tuple

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
def test_sync_batch_norm_equals_one_big_batch(shape: Tuple[int, ...], options: Any, rank: int, size: int) -> None:
    dtype = torch.float64
    x, weights = whole(size, shape, dtype)
    expected = fill(reference(len(shape), **options), dtype)
    layer = fill(hvd.SyncBatchNorm(4, **options), dtype)
    own_rows = slice(rank * shape[0], (rank + 1) * shape[0])
    for _ in range(2):
        whole_batch = x.clone().requires_grad_()
        (expected(whole_batch) * weights).sum().backward()
        own_batch = x[own_rows].clone().requires_grad_()
        (layer(own_batch) * weights[own_rows]).sum().backward()
        torch.testing.assert_close(layer(x[own_rows]), expected(x)[own_rows])
        torch.testing.assert_close(own_batch.grad, whole_batch.grad[own_rows])  # type: ignore[index]
    if layer.weight is not None:
        for own, other in ((layer.weight, expected.weight), (layer.bias, expected.bias)):
            summed = hvd.allreduce(own.grad, op=hvd.Sum)
            torch.testing.assert_close(summed, other.grad)  # type: ignore[union-attr]
    if layer.running_mean is not None:
        torch.testing.assert_close(layer.running_mean, expected.running_mean)
        torch.testing.assert_close(layer.running_var, expected.running_var)
        layer.eval(), expected.eval()
        torch.testing.assert_close(layer(x[own_rows]), expected(x)[own_rows])


@pytest.mark.parametrize("rows", [lambda rank: 3 * (rank + 1), lambda rank: 1 + 4 * (rank % 2), lambda rank: 5 - rank])
@pytest.mark.parametrize("trailing", [(), (3, 2)], ids=str)
def test_batches_of_different_sizes_equal_one_big_batch(
    rows: Callable[[int], int], trailing: Tuple[int, ...], rank: int, size: int
) -> None:
    """Outputs, running statistics and gradients equal those of one big batch on one process."""
    ends = [sum(rows(other) for other in range(last + 1)) for last in range(size)]
    own_rows = slice(ends[rank] - rows(rank), ends[rank])
    x, weights = whole(1, (ends[-1], 4, *trailing), torch.float64)
    layer = fill(hvd.SyncBatchNorm(4), torch.float64)
    expected = fill(reference(2 + len(trailing)), torch.float64)
    for _ in range(3):
        whole_batch, own_batch = x.clone().requires_grad_(), x[own_rows].clone().requires_grad_()
        expected_output, output = expected(whole_batch), layer(own_batch)
        (expected_output * weights).sum().backward()
        (output * weights[own_rows]).sum().backward()
        torch.testing.assert_close(output, expected_output[own_rows])
        torch.testing.assert_close(own_batch.grad, whole_batch.grad[own_rows])  # type: ignore[index]
        for own, other in ((layer.weight, expected.weight), (layer.bias, expected.bias)):
            torch.testing.assert_close(hvd.allreduce(own.grad, op=hvd.Sum), other.grad)  # type: ignore[union-attr]
        torch.testing.assert_close(layer.running_mean, expected.running_mean)
        torch.testing.assert_close(layer.running_var, expected.running_var)
        assert layer.num_batches_tracked == expected.num_batches_tracked


@pytest.mark.parametrize("has_samples", [False, True])
def test_a_rank_whose_samples_do_not_count_takes_part(rank: int, size: int, has_samples: bool) -> None:
    """The last of several ranks has none or repeats some; the results of the others are those of a job without it."""
    full = max(size - 1, 1)
    x, weights = whole(full, (3, 4), torch.float64)
    own_rows = slice(3 * rank, 3 * rank + 3)
    layer, expected = fill(hvd.SyncBatchNorm(4), torch.float64), fill(reference(2), torch.float64)
    whole_batch, own_batch = x.clone().requires_grad_(), x[own_rows].clone().requires_grad_()
    (expected(whole_batch) * weights).sum().backward()
    if has_samples and rank == full:
        layer.counts_rows = False
        own_batch = x[:3].clone().requires_grad_()
        (layer(own_batch) * 0.0).sum().backward()
        assert not own_batch.grad.any()  # type: ignore[union-attr]
    else:
        (layer(own_batch) * weights[own_rows]).sum().backward()
        torch.testing.assert_close(own_batch.grad, whole_batch.grad[own_rows])  # type: ignore[index]
    torch.testing.assert_close(layer.running_var, expected.running_var)
    summed = hvd.allreduce(layer.weight.grad, op=hvd.Sum)  # type: ignore[arg-type]
    torch.testing.assert_close(summed, expected.weight.grad)


def test_a_network_trains_like_one_process(rank: int, size: int) -> None:
    """The parameters of two layers with normalisation between them end as those of one process with one big batch."""

    def network(norm: Callable[[int], torch.nn.Module]) -> torch.nn.Sequential:
        torch.manual_seed(4)
        return torch.nn.Sequential(
            torch.nn.Conv2d(2, 6, 3), norm(6), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(54, 3)
        ).double()

    def batch(step: int) -> torch.Tensor:
        return torch.randn(4 * size, 2, 5, 5, generator=torch.Generator().manual_seed(step), dtype=torch.float64)

    expected, model = network(torch.nn.BatchNorm2d), network(hvd.SyncBatchNorm)
    one_process = torch.optim.SGD(expected.parameters(), lr=0.1, momentum=0.9)
    distributed = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters()
    )
    for step in range(3):
        x = batch(step)
        for trained, optimizer, part in ((expected, one_process, x), (model, distributed, x[4 * rank : 4 * rank + 4])):
            optimizer.zero_grad()
            trained(part).square().mean().backward()
            optimizer.step()
    for (key, value), other in zip(model.state_dict().items(), expected.state_dict().values()):
        torch.testing.assert_close(value, other, msg=lambda text, key=key: f"{key}: {text}")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_outputs_and_gradients_keep_their_types(dtype: torch.dtype, rank: int, size: int) -> None:
    x, _ = whole(size, (5, 4, 3), dtype)
    layer = hvd.SyncBatchNorm(4)
    own_batch = x[rank * 5 : rank * 5 + 5].clone().requires_grad_()
    output = layer(own_batch)
    output.sum().backward()
    assert output.dtype == dtype and own_batch.grad is not None and own_batch.grad.dtype == dtype
    assert layer.weight.grad.dtype == torch.float32


@pytest.mark.parametrize("short", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("weights_dtype", [torch.float32, None], ids=["mixed", "short"])
def test_short_types_are_rounded_once(
    short: torch.dtype, weights_dtype: Optional[torch.dtype], rank: int, size: int
) -> None:
    """Means, variances and gradients are computed in float32: results are those of PyTorch's layer in float32,
    rounded to the short type. Layers have weights of float32 under autocast, and short ones after `half()`."""
    x, weights = whole(size, (40, 4, 3), short)
    own_rows = slice(rank * 40, (rank + 1) * 40)
    expected, layer = (fill(each, torch.float32) for each in (reference(3), hvd.SyncBatchNorm(4)))
    layer.to(weights_dtype or short)
    whole_batch = x.float().requires_grad_()
    output = expected(whole_batch)
    (output * weights.float()).sum().backward()
    own_batch = x[own_rows].clone().requires_grad_()
    own_output = layer(own_batch)
    (own_output * weights[own_rows]).sum().backward()
    close = functools.partial(torch.testing.assert_close, rtol=torch.finfo(short).eps / 2, atol=1e-5)
    close(own_output.float(), output[own_rows])
    close(own_batch.grad.float(), whole_batch.grad[own_rows])  # type: ignore[union-attr, index]
    for own, other in ((layer.weight, expected.weight), (layer.bias, expected.bias)):
        summed = hvd.allreduce(own.grad.float(), op=hvd.Sum)  # each rank has rounded its part
        error = 1e-5 if weights_dtype else float(hvd.allreduce(own.grad.abs().float(), op=hvd.Sum).max())
        torch.testing.assert_close(summed, other.grad, rtol=1e-5, atol=1e-3 + error * torch.finfo(short).eps)
    for statistics in ("running_mean", "running_var"):  # the new part is rounded, too
        close(getattr(layer, statistics).float(), getattr(expected, statistics), rtol=torch.finfo(short).eps)


def test_too_few_dimensions_are_refused() -> None:
    with pytest.raises(ValueError):
        hvd.SyncBatchNorm(4)(torch.ones(4))


@pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")
def test_a_second_derivative_is_an_error(rank: int) -> None:
    layer = hvd.SyncBatchNorm(3)
    x = torch.randn(4, 3, requires_grad=True)
    (slope,) = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.square().sum().backward()
