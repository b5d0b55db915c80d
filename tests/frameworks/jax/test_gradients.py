"""Gradients through the operations, inside programs and outside; they equal those of the PyTorch binding."""

from __future__ import annotations

import re

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import pytest


@pytest.fixture(params=["outside", "inside"])
def gradient(request: pytest.FixtureRequest):
    """jax.grad, compiled or not."""
    return (lambda loss: jax.jit(jax.grad(loss))) if request.param == "inside" else jax.grad


def test_the_gradient_of_allreduce_is_reduced_with_the_same_op(gradient, name: str, rank: int, size: int) -> None:
    for op, factor in ((hvd.Sum, size), (hvd.Average, 1.0)):
        x = jnp.ones((3, 4))
        slope = gradient(lambda x, op=op: (hvd.allreduce(x, name=f"{name}.{op}", op=op) * 2).sum())(x)
        assert np.array_equal(slope, np.full((3, 4), 2.0 * factor))


def test_the_gradient_of_allreduce_includes_the_scale_factors(gradient, name: str, rank: int, size: int) -> None:
    def loss(x):
        return hvd.allreduce(x, name=name, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0).sum()

    np.testing.assert_allclose(gradient(loss)(jnp.ones(3)), np.full(3, 1.5 * size))


def test_gradients_that_differ_by_rank_are_summed(gradient, name: str, rank: int, size: int) -> None:
    slope = gradient(lambda x: (hvd.allreduce(x, name=name, op=hvd.Sum) * (rank + 1)).sum())(jnp.ones(2))
    assert slope.tolist() == [size * (size + 1) / 2] * 2


def test_the_gradient_of_grouped_allreduce_is_summed_for_each_member(gradient, name: str, rank: int, size: int) -> None:
    def loss(xs):
        # The last member has no gradient, which is allowed.
        reduced = hvd.grouped_allreduce([*xs, jnp.arange(2)], name=name, op=hvd.Sum)
        return sum((each * (i + 1)).sum() for i, each in enumerate(reduced[:3]))

    slopes = gradient(loss)([jnp.ones(i + 1) for i in range(3)])
    assert [each.tolist() for each in slopes] == [[float((i + 1) * size)] * (i + 1) for i in range(3)]


def test_the_gradient_of_allgather_is_the_mean_gradient_of_the_ranks_own_rows(
    gradient, name: str, rank: int, size: int
) -> None:
    def loss(x):
        gathered = hvd.allgather(x, name=name)
        return (gathered * jnp.arange(float(gathered.size)).reshape(gathered.shape) * (rank + 1)).sum()

    slope = gradient(loss)(jnp.full((2, 2), float(rank)))
    weights = np.arange(4.0 * size).reshape(2 * size, 2)
    np.testing.assert_allclose(slope, weights[2 * rank : 2 * rank + 2] * (size + 1) / 2)


def test_the_gradient_of_an_uneven_allgather_is_the_mean_gradient_of_the_ranks_own_rows(
    name: str, rank: int, size: int
) -> None:
    def loss(x):
        gathered = hvd.allgather(x, name=name)
        return (gathered * jnp.arange(float(gathered.size)).reshape(gathered.shape) * (rank + 1)).sum()

    slope = jax.grad(loss)(jnp.full((rank + 1, 2), float(rank)))
    first = sum(range(1, rank + 1))
    weights = np.arange(float(size * (size + 1))).reshape(-1, 2)
    np.testing.assert_allclose(slope, weights[first : first + rank + 1] * (size + 1) / 2)


def test_gradients_of_complex_numbers_are_averaged_too(gradient, name: str, rank: int, size: int) -> None:
    def loss(x):
        moved = [hvd.allgather(x, name=name), hvd.broadcast(x, 0, name=name)]
        return sum((jnp.abs(each) ** 2).sum() for each in moved)

    x = jnp.full(2, 1 + rank * 1j)
    np.testing.assert_allclose(gradient(loss)(x), 2 * x.conj() * (2 if rank == 0 else 1), rtol=1e-6)


def test_the_gradient_of_broadcast_is_the_mean_on_the_root_and_zero_elsewhere(
    gradient, name: str, rank: int, size: int
) -> None:
    root = size - 1
    slope = gradient(lambda x: (hvd.broadcast(x, root, name=name) * (rank + 1)).sum())(jnp.ones(4))
    np.testing.assert_allclose(slope, np.full(4, (size + 1) / 2 if rank == root else 0.0))


def test_the_gradients_of_alltoall_return_to_the_rank_that_sent_the_rows(
    gradient, name: str, rank: int, size: int
) -> None:
    slope = gradient(lambda x: (hvd.alltoall(x, name=name) * (rank + 1)).sum())(jnp.ones(2 * size))
    assert slope.tolist() == np.repeat(np.arange(1.0, size + 1), 2).tolist()


def test_the_gradients_of_alltoall_with_splits_return_to_the_rank_that_sent_the_rows(
    name: str, rank: int, size: int
) -> None:
    splits = list(range(1, size + 1))
    slope = jax.grad(lambda x: (hvd.alltoall(x, splits, name=name)[0] * (rank + 1)).sum())(jnp.ones(sum(splits)))
    assert slope.tolist() == np.repeat(np.arange(1.0, size + 1), splits).tolist()


@pytest.mark.parametrize("rows", ["even", "uneven"])
@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_the_gradient_of_reducescatter_gathers_the_gradients_of_all_shares(
    gradient, name: str, rank: int, size: int, rows: str, op: str
) -> None:
    count = 2 * size + (rows == "uneven")
    chosen = getattr(hvd, op)

    def loss(x):
        return (hvd.reducescatter(x, name=name, op=chosen, prescale_factor=0.5) * (rank + 1)).sum()

    slope = gradient(loss)(jnp.ones((count, 2)))
    shares = [count // size + (other < count % size) for other in range(size)]
    owners = np.repeat(np.arange(1.0, size + 1), shares)[:, None] * np.ones((1, 2))
    np.testing.assert_allclose(slope, 0.5 * owners * (size if op == "Sum" else 1))


def test_gradients_pass_through_grouped_reducescatter_and_allgather(gradient, name: str, rank: int, size: int) -> None:
    def loss(xs):
        shares = hvd.grouped_reducescatter(xs, name=f"{name}.scatter", op=hvd.Sum)
        return sum(each.sum() for each in hvd.grouped_allgather(shares, name=name))

    slopes = gradient(loss)([jnp.ones((size, 2)), jnp.ones((2 * size, 3))])
    assert all(np.array_equal(each, np.full(each.shape, size)) for each in slopes)


def test_gradients_pass_through_compression(gradient, name: str, size: int) -> None:
    for kind in ("fp16", "bf16"):
        compression = getattr(hvd.Compression, kind)
        slope = gradient(
            lambda x, c=compression, k=kind: hvd.allreduce(x, name=f"{name}.{k}", op=hvd.Sum, compression=c).sum()
        )(jnp.ones(5, "float32"))
        assert slope.dtype == jnp.float32 and slope.tolist() == [size] * 5


def test_second_derivatives_sum_over_the_ranks_at_each_allreduce(gradient, name: str, size: int) -> None:
    def loss(x):
        return (hvd.allreduce(x, name=name, op=hvd.Sum) ** 3).sum()

    slope = gradient(lambda x: jax.grad(loss)(x).sum())(jnp.ones(2))
    # Each allreduce on the way sums over the ranks once more.
    np.testing.assert_allclose(slope, np.full(2, 6.0 * size**3))


def test_second_derivatives_of_an_uneven_reducescatter_reach_the_rows_of_each_rank(
    gradient, name: str, size: int
) -> None:
    weights = jnp.arange(1.0, size + 2)

    def loss(x):
        return (hvd.reducescatter(x, name=name, op=hvd.Sum) ** 3).sum()

    slope = gradient(lambda x: (jax.grad(loss)(x) * weights).sum())(jnp.ones(size + 1))
    np.testing.assert_allclose(slope, 6.0 * size**3 * weights)


@pytest.mark.parametrize("checkpointed", [jax.checkpoint, lambda f: jax.checkpoint(lambda x: jax.checkpoint(f)(2 * x))])
def test_each_instruction_of_a_program_has_a_name_of_its_own(checkpointed, name: str) -> None:
    def loss(x):
        return jnp.sin(hvd.allreduce(x, name=name, op=hvd.Average)).sum()

    second = jax.value_and_grad(lambda x: (jax.grad(checkpointed(loss))(x) ** 2).sum())
    names = re.findall(rf'"allreduce\.({re.escape(name)}[^"]*)"', jax.jit(second).lower(jnp.ones(3)).as_text())
    assert len(names) > 4 and len(set(names)) == len(names)


def test_two_branches_may_share_a_name(name: str, rank: int, size: int) -> None:
    def program(x):
        reduced = [lambda x, factor=factor: hvd.allreduce(factor * x, name=name, op=hvd.Sum) for factor in (1.0, 2.0)]
        return jax.lax.cond(rank % 2 == 0, *reduced, x)

    expected = sum(1.0 + other % 2 for other in range(size))
    assert jax.jit(program)(jnp.ones(3)).tolist() == [expected] * 3


def test_an_operation_may_be_recomputed_in_the_backward_pass(name: str, size: int) -> None:
    program = jax.checkpoint(lambda x: jnp.sin(hvd.allreduce(x, name=name, op=hvd.Average)).sum())
    np.testing.assert_allclose(jax.jit(jax.grad(program))(jnp.ones(3)), np.full(3, np.cos(1.0)), rtol=1e-6)
