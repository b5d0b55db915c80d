"""Gradients of the collective operations."""

from __future__ import annotations

import horovod.torch as hvd
import torch


def test_the_gradient_of_allreduce_is_an_allreduce(name: str, rank: int, size: int) -> None:
    for op, factor in ((hvd.Sum, float(size)), (hvd.Average, 1.0)):
        x = torch.ones(3, 4, requires_grad=True)
        hvd.allreduce(x, name=f"{name}.{op}", op=op).backward(torch.full((3, 4), 2.0))
        assert x.grad is not None and torch.equal(x.grad, torch.full((3, 4), 2.0 * factor))


def test_the_gradient_of_allreduce_applies_the_scales(name: str, rank: int, size: int) -> None:
    x = torch.ones(3, requires_grad=True)
    y = hvd.allreduce(x, name=name, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full((3,), 1.5 * size))


def test_allreduce_sums_gradients_that_differ_by_rank(name: str, rank: int, size: int) -> None:
    x = torch.ones(2, requires_grad=True)
    (hvd.allreduce(x, name=name, op=hvd.Sum) * (rank + 1)).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((2,), size * (size + 1) / 2))


def test_the_gradient_of_grouped_allreduce_is_an_allreduce_of_each_tensor(name: str, rank: int, size: int) -> None:
    xs = [torch.ones(i + 1, requires_grad=True) for i in range(3)]
    reduced = hvd.grouped_allreduce(xs, name=name, op=hvd.Sum)
    sum((tensor * (i + 1)).sum() for i, tensor in enumerate(reduced)).backward()
    for i, x in enumerate(xs):
        assert x.grad is not None and torch.equal(x.grad, torch.full((i + 1,), float((i + 1) * size)))


def test_the_gradient_of_allgather_is_the_average_for_the_rows_of_this_rank(name: str, rank: int, size: int) -> None:
    x = torch.full((rank + 1, 2), float(rank), requires_grad=True)
    gathered = hvd.allgather(x, name=name)
    weights = torch.arange(float(gathered.numel())).view_as(gathered)
    (gathered * weights * (rank + 1)).sum().backward()
    first = sum(other + 1 for other in range(rank))
    expected = weights[first : first + rank + 1] * (size + 1) / 2
    assert x.grad is not None
    torch.testing.assert_close(x.grad, expected)


def test_the_gradient_of_grouped_allgather_is_an_average_for_each_tensor(name: str, rank: int, size: int) -> None:
    xs = [torch.ones(rank + 1, 2, requires_grad=True), torch.ones(2, 3, requires_grad=True)]
    sum(tensor.sum() for tensor in hvd.grouped_allgather(xs, name=name)).backward()
    for x in xs:
        assert x.grad is not None and torch.equal(x.grad, torch.ones_like(x))


def test_the_gradient_of_grouped_allgather_leaves_out_tensors_without_gradients(name: str, rank: int) -> None:
    x = torch.ones(2, requires_grad=True)
    values, mask, factors = hvd.grouped_allgather([x, torch.tensor([True, False]), torch.full((2,), rank)], name=name)
    (values * mask * factors).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [rank, 0]


def test_the_gradient_of_broadcast_arrives_at_the_root_only(name: str, rank: int, size: int) -> None:
    root = size - 1
    x = torch.ones(4, requires_grad=True)
    (hvd.broadcast(x, root, name=name) * (rank + 1)).sum().backward()
    expected = (size + 1) / 2 if rank == root else 0.0
    assert x.grad is not None
    torch.testing.assert_close(x.grad, torch.full((4,), expected))


def test_an_expanded_gradient_is_reduced(name: str, rank: int, size: int) -> None:
    x = torch.ones(5, requires_grad=True)
    hvd.allreduce(x, name=name, op=hvd.Sum).sum().backward()  # the gradient of sum() is one number, expanded to five
    assert x.grad is not None and torch.equal(x.grad, torch.full((5,), float(size)))


def test_gradients_pass_through_a_compressed_allreduce(name: str, size: int) -> None:
    x = torch.ones(5, requires_grad=True)
    hvd.allreduce(x, name=name, op=hvd.Sum, compression=hvd.Compression.fp16).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, torch.full((5,), float(size)))
