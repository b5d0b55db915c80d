"""Gradients of the operations, where the framework differentiates."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import drivers
import numpy
import pytest

DRIVER = drivers.current()

pytestmark = pytest.mark.skipif(not DRIVER.differentiates, reason="operations have no gradients")


def weights(rank: int, *shape: int) -> Any:
    """Weights of the result: small whole numbers that differ between ranks."""
    return numpy.random.RandomState(50 + rank).randint(-3, 4, shape).astype("float32")


def ones(*shape: int) -> Any:
    return DRIVER.make(numpy.ones(shape), "float32")


def mean(size: int, *shape: int) -> Any:
    return sum(weights(each, *shape) for each in range(size)) / size


def close(gradient: Any, wanted: Any) -> None:
    numpy.testing.assert_allclose(gradient, wanted, rtol=1e-6)


@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_the_gradient_of_allreduce_is_the_scaled_reduction_of_all_gradients(
    hvd: ModuleType, op: str, name: str, rank: int, size: int
) -> None:
    def scaled(tensor: Any) -> Any:
        return hvd.allreduce(tensor, name=name, op=getattr(hvd, op), prescale_factor=2.0, postscale_factor=0.25)

    wanted = mean(size, 4, 2) * (size if op == "Sum" else 1) / 2
    close(DRIVER.gradient(scaled, ones(4, 2), weights(rank, 4, 2)), wanted)


def test_the_gradient_of_grouped_allreduce_is_the_sum_of_all_gradients(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    def second(tensor: Any) -> Any:
        return hvd.grouped_allreduce([tensor * 2, tensor * 3], name=name, op=hvd.Sum)[1]

    close(DRIVER.gradient(second, ones(3), weights(rank, 3)), mean(size, 3) * size * 3)


def test_the_gradient_of_allgather_is_the_mean_gradient_of_the_ranks_own_rows(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    rows = [each + 1 for each in range(size)]
    whole = mean(size, sum(rows), 2)
    wanted = numpy.split(whole, numpy.cumsum(rows)[:-1])[rank]
    gradient = DRIVER.gradient(
        lambda tensor: hvd.allgather(tensor, name=name), ones(rows[rank], 2), weights(rank, sum(rows), 2)
    )
    close(gradient, wanted)


def test_the_gradient_of_grouped_allgather_is_the_mean_gradient_of_the_ranks_own_rows(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    def first(tensor: Any) -> Any:
        return hvd.grouped_allgather([tensor * 2, tensor], name=name)[0]

    wanted = numpy.split(mean(size, 2 * size), size)[rank] * 2
    close(DRIVER.gradient(first, ones(2), weights(rank, 2 * size)), wanted)


def test_the_gradient_of_broadcast_is_the_mean_on_the_root_and_zero_elsewhere(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    root = size - 1
    gradient = DRIVER.gradient(lambda tensor: hvd.broadcast(tensor, root, name=name), ones(3), weights(rank, 3))
    close(gradient, mean(size, 3) if rank == root else numpy.zeros(3))


def test_the_gradients_of_alltoall_return_to_the_rank_that_sent_the_rows(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    # Rank r sends r + 1 rows to every rank, so every rank returns the weights of those rows.
    splits = DRIVER.make([rank + 1] * size, "int32")
    received = sum(each + 1 for each in range(size))
    before = sum(each + 1 for each in range(rank))
    wanted = numpy.concatenate([weights(each, received, 2)[before : before + rank + 1] for each in range(size)])
    gradient = DRIVER.gradient(
        lambda tensor: hvd.alltoall(tensor, splits, name=name)[0],
        ones((rank + 1) * size, 2),
        weights(rank, received, 2),
    )
    close(gradient, wanted)


@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_the_gradient_of_reducescatter_gathers_the_gradients_of_all_shares(
    hvd: ModuleType, op: str, name: str, rank: int, size: int
) -> None:
    rows = 2 * size + 1
    counts = [len(each) for each in numpy.array_split(numpy.arange(rows), size)]
    wanted = numpy.concatenate([weights(each, counts[each], 2) for each in range(size)])
    gradient = DRIVER.gradient(
        lambda tensor: hvd.reducescatter(tensor, name=name, op=getattr(hvd, op)),
        ones(rows, 2),
        weights(rank, counts[rank], 2),
    )
    close(gradient, wanted * (size if op == "Sum" else 1))


def test_the_gradient_of_grouped_reducescatter_gathers_the_gradients_of_all_shares(
    hvd: ModuleType, name: str, rank: int, size: int
) -> None:
    def second(tensor: Any) -> Any:
        return hvd.grouped_reducescatter([tensor, tensor * 3], name=name, op=hvd.Sum)[1]

    wanted = numpy.concatenate([weights(each, 2) for each in range(size)]) * size * 3
    close(DRIVER.gradient(second, ones(2 * size), weights(rank, 2)), wanted)
