"""Gradients through the operations."""

from __future__ import annotations

import horovod.torch as hvd
import torch


def test_through_allreduce(name: str, rank: int, size: int) -> None:
    for op, factor in ((hvd.Sum, float(size)), (hvd.Average, 1.0)):
        x = torch.ones(3, 4, requires_grad=True)
        hvd.allreduce(x, name=f"{name}.{op}", op=op).backward(torch.full((3, 4), 2.0))
        assert x.grad is not None and torch.equal(x.grad, torch.full((3, 4), 2.0 * factor))


def test_through_allreduce_with_scales(name: str, rank: int, size: int) -> None:
    x = torch.ones(3, requires_grad=True)
    y = hvd.allreduce(x, name=name, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full((3,), 1.5 * size))


def test_gradients_differ_by_rank_and_are_summed(name: str, rank: int, size: int) -> None:
    x = torch.ones(2, requires_grad=True)
    (hvd.allreduce(x, name=name, op=hvd.Sum) * (rank + 1)).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((2,), size * (size + 1) / 2))


def test_through_grouped_allreduce(name: str, rank: int, size: int) -> None:
    xs = [torch.ones(i + 1, requires_grad=True) for i in range(3)]
    reduced = hvd.grouped_allreduce(xs, name=name, op=hvd.Sum)
    sum((each * (i + 1)).sum() for i, each in enumerate(reduced)).backward()
    for i, x in enumerate(xs):
        assert x.grad is not None and torch.equal(x.grad, torch.full((i + 1,), float((i + 1) * size)))


def test_through_allgather(name: str, rank: int, size: int) -> None:
    x = torch.full((rank + 1, 2), float(rank), requires_grad=True)
    gathered = hvd.allgather(x, name=name)
    weights = torch.arange(float(gathered.numel())).view_as(gathered)
    (gathered * weights * (rank + 1)).sum().backward()
    first = sum(other + 1 for other in range(rank))
    expected = weights[first : first + rank + 1] * (size + 1) / 2
    assert x.grad is not None
    torch.testing.assert_close(x.grad, expected)


def test_through_grouped_allgather(name: str, rank: int, size: int) -> None:
    xs = [torch.ones(rank + 1, 2, requires_grad=True), torch.ones(2, 3, requires_grad=True)]
    sum(each.sum() for each in hvd.grouped_allgather(xs, name=name)).backward()
    for x in xs:
        assert x.grad is not None and torch.equal(x.grad, torch.ones_like(x))


def test_through_broadcast(name: str, rank: int, size: int) -> None:
    root = size - 1
    x = torch.ones(4, requires_grad=True)
    (hvd.broadcast(x, root, name=name) * (rank + 1)).sum().backward()
    expected = (size + 1) / 2 if rank == root else 0.0
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full((4,), expected))


def test_an_expanded_gradient_is_fine(name: str, rank: int, size: int) -> None:
    x = torch.ones(5, requires_grad=True)
    hvd.allreduce(x, name=name, op=hvd.Sum).sum().backward()  # sum's gradient is one number seen five times
    assert x.grad is not None and torch.equal(x.grad, torch.full((5,), float(size)))


def test_compression_lets_gradients_through(name: str, size: int) -> None:
    x = torch.ones(5, requires_grad=True)
    hvd.allreduce(x, name=name, op=hvd.Sum, compression=hvd.Compression.fp16).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((5,), float(size)))
