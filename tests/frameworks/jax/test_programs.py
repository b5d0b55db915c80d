"""Operations as instructions of compiled programs."""

from __future__ import annotations

import re

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)

TYPES = ("uint8", "int8", "uint16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("compiled", [False, True])
def test_allreduce_sums_every_type(name: str, rank: int, size: int, dtype: str, compiled: bool) -> None:
    def program(x):
        return hvd.allreduce(x, name=name, op=hvd.Sum)

    reduced = (jax.jit(program) if compiled else program)(jnp.full((3, 2), rank + 1, dtype))
    assert reduced.dtype == dtype
    assert np.array_equal(np.asarray(reduced, "float64"), np.full((3, 2), size * (size + 1) / 2))


@pytest.mark.parametrize("op", ["Average", "Min", "Max", "Product"])
def test_average_min_max_and_product_match_numpy(name: str, rank: int, size: int, op: str) -> None:
    reduced = jax.jit(lambda x: hvd.allreduce(x, name=name, op=getattr(hvd, op)))(jnp.full(3, rank + 1.0))
    values = np.arange(1.0, size + 1)
    expected = {"Average": values.mean(), "Min": values.min(), "Max": values.max(), "Product": values.prod()}[op]
    assert reduced.tolist() == [expected] * 3


@pytest.mark.parametrize("compiled", [False, True])
def test_results_of_values_with_a_weak_type_widen_no_others(name: str, size: int, compiled: bool) -> None:
    def program(x):
        rows = jnp.broadcast_to(x, size)
        results = [
            hvd.allreduce(x, name=f"{name}.reduce"),
            *hvd.grouped_allreduce([x, rows], name=f"{name}.group", op=hvd.Sum),
            hvd.broadcast(x, 0, name=f"{name}.broadcast"),
            hvd.allgather(rows, name=f"{name}.gather"),
            hvd.alltoall(rows, name=f"{name}.deal"),
            hvd.reducescatter(rows, name=f"{name}.scatter", op=hvd.Sum),
        ]
        return [each * jnp.ones((), "bfloat16") for each in results]

    for x, dtype in ((jnp.asarray(2.0), "bfloat16"), (jnp.float32(2.0), "float32")):
        found = (jax.jit(program) if compiled else program)(x)
        assert [str(each.dtype) for each in found] == [dtype] * 7
        assert [each.ravel()[0] for each in found] == [2, *[2 * size] * 2, 2, 2, 2, 2 * size]


def test_scale_factors_apply_to_scalars(name: str, size: int) -> None:
    def program(x):
        return hvd.allreduce(x, name=name, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0)

    assert jax.jit(program)(jnp.float32(2.0)) == 3.0 * size


def test_a_tensor_that_is_too_large_for_the_fast_path_is_reduced(name: str, rank: int, size: int) -> None:
    many = jnp.arange(300_000, dtype="float32") + rank
    reduced = jax.jit(lambda x: hvd.allreduce(x, name=name))(many)
    assert np.array_equal(reduced, np.arange(300_000, dtype="float32") + (size - 1) / 2)


def test_bool_arrays_are_gathered_and_their_reduction_is_refused(name: str, rank: int, size: int) -> None:
    flags = jnp.array([rank == 0, True])
    gathered = jax.jit(lambda x: hvd.allgather(x, name=name))(flags)
    assert gathered.tolist() == [flag for other in range(size) for flag in (other == 0, True)]
    with pytest.raises(ValueError, match=f"{name}.*bool"):
        jax.jit(lambda x: hvd.allreduce(x, name=name))(flags)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_name_with_a_nul_is_refused(compiled: bool) -> None:
    def reduced(x):
        return hvd.grouped_allreduce([x, x], name="a\0b")

    with pytest.raises(ValueError, match="cannot hold the character NUL"):
        (jax.jit(reduced) if compiled else reduced)(jnp.ones(2))


def test_a_group_is_reduced_as_one_operation(name: str, rank: int, size: int) -> None:
    tensors = [jnp.full(i + 1, rank + i, "float32") for i in range(3)] + [jnp.full(2, rank, "int32")]
    reduced = jax.jit(lambda xs: hvd.grouped_allreduce(xs, name=name, op=hvd.Sum))(tensors)
    total = size * (size - 1) // 2
    assert [each.tolist() for each in reduced] == [
        *([total + i * size] * (i + 1) for i in range(3)),
        [total] * 2,
    ]


def test_allgather_alltoall_and_reducescatter_move_rows_in_one_program(name: str, rank: int, size: int) -> None:
    rows = jnp.full((size, 2), float(rank))
    gathered, dealt, scattered = jax.jit(
        lambda x: (
            hvd.allgather(x, name=f"{name}.gather"),
            hvd.alltoall(x, name=f"{name}.deal"),
            hvd.reducescatter(x, name=f"{name}.scatter", op=hvd.Sum),
        )
    )(rows)
    assert np.array_equal(gathered, np.repeat(np.arange(size), size)[:, None] * np.ones((1, 2)))
    assert np.array_equal(dealt, np.arange(size)[:, None] * np.ones((1, 2)))
    assert np.array_equal(scattered, np.full((1, 2), size * (size - 1) / 2))


def test_an_uneven_reducescatter_gives_the_first_ranks_one_row_more(name: str, rank: int, size: int) -> None:
    share = jax.jit(lambda x: hvd.reducescatter(x, name=name))(jnp.arange(size + 1.0))
    assert share.tolist() == ([0.0, 1.0] if rank == 0 else [rank + 1.0])


def test_broadcast_takes_a_global_rank_as_root(name: str, rank: int, size: int) -> None:
    root = size - 1
    assert jax.jit(lambda x: hvd.broadcast(x, root, name=name))(jnp.array([rank])).tolist() == [root]


def test_allgather_of_uneven_rows_is_refused_inside_a_program(name: str, rank: int, size: int) -> None:
    rows = jnp.full((rank + 1, 2), float(rank))
    gathered = hvd.allgather(rows, name=name)
    assert np.array_equal(gathered[:, 0], np.repeat(np.arange(size), np.arange(size) + 1))
    if size == 1:
        return
    counts = re.escape(str(list(range(1, size + 1))))
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"{name}.inside on rank {rank}: .*by rank: {counts}"):
        jax.block_until_ready(jax.jit(lambda x: hvd.allgather(x, name=f"{name}.inside"))(rows))


def test_alltoall_with_splits_is_refused_inside_a_program(name: str, rank: int, size: int) -> None:
    rows = jnp.full(sum(range(1, size + 1)), rank)
    received, counts = hvd.alltoall(rows, splits=list(range(1, size + 1)), name=name)
    assert counts.tolist() == [rank + 1] * size
    assert received.tolist() == np.repeat(np.arange(size), rank + 1).tolist()
    with pytest.raises(ValueError, match="outside"):
        jax.jit(lambda x: hvd.alltoall(x, splits=list(range(1, size + 1)), name=name))(rows)


def test_more_rows_than_int32_counts_are_refused_without_64_bit_types(name: str, rank: int, size: int) -> None:
    rows = np.empty((size * 2**31, 0), "float32")  # rows without elements take no memory
    with jax.enable_x64(False), pytest.raises(ValueError, match=rf"{name}.* {2**31} rows from one .*jax_enable_x64"):
        hvd.alltoall(rows, [2**31] * size, name=name)


def test_alltoall_of_rows_that_do_not_divide_evenly_is_refused(name: str, size: int) -> None:
    if size > 1:
        with pytest.raises(ValueError, match="dealt out evenly"):
            jax.jit(lambda x: hvd.alltoall(x, name=name))(jnp.ones(size + 1))


def test_a_mismatch_between_ranks_raises_an_exception_on_all_ranks(name: str, rank: int, size: int) -> None:
    if size == 1:
        return
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"FAILED_PRECONDITION.* \(mismatch\): .*{name}"):
        jax.block_until_ready(jax.jit(lambda x: hvd.allreduce(x, name=name))(jnp.ones(3 + rank)))
    assert jax.jit(lambda x: hvd.allreduce(x, name=f"{name}.after"))(jnp.ones(2)).tolist() == [1.0, 1.0]


def test_an_operation_in_a_process_set_runs_on_its_members_only(rank: int, size: int, name: str) -> None:
    hvd.barrier()
    hvd.shutdown()
    alone = hvd.ProcessSet([0])
    hvd.init(process_sets=[alone] if size > 1 else None)
    chosen = alone if size > 1 else hvd.global_process_set
    program = jax.jit(lambda x: hvd.allreduce(x, name=name, op=hvd.Sum, process_set=chosen))
    if rank == 0:
        assert program(jnp.ones(2)).tolist() == [1.0, 1.0]
    else:
        with pytest.raises(ValueError):
            program(jnp.ones(2))
    hvd.barrier()
    hvd.shutdown()
    with pytest.raises(hvd.HorovodInternalError, match="init"):
        jax.jit(lambda x: hvd.allreduce(x, name=name))(jnp.ones(2))


# ---- operations in control flow and transformations


def test_a_loop_repeats_an_operation(name: str, size: int) -> None:
    def program(x):
        return jax.lax.fori_loop(0, 5, lambda _, y: hvd.allreduce(y, name=name, op=hvd.Sum), x)

    assert jax.jit(program)(jnp.ones(3)).tolist() == [float(size**5)] * 3


def test_a_conditional_branch_may_contain_an_operation(name: str, size: int) -> None:
    def program(flag, x):
        return jax.lax.cond(flag, lambda x: hvd.allreduce(x, name=name, op=hvd.Sum), lambda x: x, x)

    assert jax.jit(program)(True, jnp.ones(2)).tolist() == [size] * 2
    assert jax.jit(program)(False, jnp.ones(2)).tolist() == [1.0] * 2


@pytest.mark.parametrize("compiled", [False, True])
def test_vmap_maps_operations_over_a_batch(name: str, rank: int, size: int, compiled: bool) -> None:
    program = jax.vmap(lambda x: (hvd.allreduce(x, name=f"{name}.sum", op=hvd.Sum), hvd.allgather(x, name=name)))
    batch = jnp.arange(12.0).reshape(3, 2, 2) + rank
    reduced, gathered = (jax.jit(program) if compiled else program)(batch)
    assert np.array_equal(reduced, np.arange(12.0).reshape(3, 2, 2) * size + size * (size - 1) / 2)
    expected = np.concatenate([np.arange(12.0).reshape(3, 2, 2) + other for other in range(size)], axis=1)
    assert np.array_equal(gathered, expected)


def test_an_operation_whose_result_looks_unused_still_runs(name: str, rank: int, size: int) -> None:
    """The constants differ between ranks: XLA must not drop the instruction where they make it look dead."""

    def program(x):
        return jnp.where(rank == 0, hvd.allreduce(x, name=name, op=hvd.Sum), x)

    assert jax.jit(program)(jnp.ones(2)).tolist() == [float(size) if rank == 0 else 1.0] * 2


def test_independent_operations_of_one_program_run_concurrently(name: str, rank: int, size: int) -> None:
    """The last rank starts one operation only after it has the other; on other ranks the two are independent. If XLA
    ran those one after the other, each rank would wait for an operation that the other rank has not started."""
    is_last = rank == size - 1

    def program(xs):
        if is_last:
            second = hvd.allreduce(xs[1] @ xs[3], name=f"{name}.second", op=hvd.Sum)
            first = hvd.allreduce(xs[0] @ xs[2] + 0 * second, name=f"{name}.first", op=hvd.Sum)
        else:
            first = hvd.allreduce(xs[0] @ xs[2], name=f"{name}.first", op=hvd.Sum)
            second = hvd.allreduce(xs[1] @ xs[3], name=f"{name}.second", op=hvd.Sum)
        # XLA runs the instructions of a small program one by one: this one is not small.
        return first @ first, second @ second, xs[0] @ xs[1] @ xs[4], jnp.sin(xs[4]) @ xs[5], jnp.sort(xs[6])

    matrices = [jnp.ones((200, 200), "float32")] * 6 + [jnp.ones(40_000, "float32")]
    first, second = jax.jit(program)(matrices)[:2]
    assert first[0, 0] == second[0, 0] == 200 * (200 * size) ** 2


def test_programs_run_in_the_order_in_which_they_are_called(name: str, rank: int, size: int) -> None:
    """The order also holds if, on one rank only, a program waits for its input and the next one does not."""
    program = jax.jit(lambda x: hvd.allreduce(x, name=name, op=hvd.Sum))
    rounds = 40 if rank == 0 else 1
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, rounds, lambda _, y: y @ y / jnp.linalg.norm(y), x)[0, :2] * 0 + 1)
    matrix, ready = jnp.ones((400, 400)), jnp.full(2, 100.0)
    for _ in range(5):
        first, second = program(slow(matrix)), program(ready)
        assert (first[0], second[0]) == (size, 100.0 * size)


def test_names_inside_a_program_match_names_outside(name: str, rank: int, size: int) -> None:
    """Rank 0 calls the operation inside a program, the other ranks outside; the tensors match by name."""

    def call(x):
        return hvd.grouped_allreduce([x, 2 * x], name=name, op=hvd.Sum)

    reduced = (jax.jit(call) if rank == 0 else call)(jnp.ones(2))
    assert [each.tolist() for each in reduced] == [[size] * 2, [2.0 * size] * 2]


def test_calls_without_a_name_are_numbered_anew_after_another_init(rank: int, size: int) -> None:
    """In the next generation of an elastic job, a process that goes on has to count like one that has just started."""
    if rank == 0:
        jax.jit(hvd.allreduce).lower(jnp.ones(2))
    hvd.barrier()
    hvd.shutdown()
    hvd.init()
    assert jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum))(jnp.ones(2)).tolist() == [size] * 2


def test_a_join_comes_after_the_programs_that_were_called(name: str, rank: int, size: int) -> None:
    @jax.jit
    def step(x, late):
        late = jax.lax.fori_loop(0, 200, lambda _, each: jnp.tanh(each @ each), late)
        return x + hvd.allreduce(jnp.where(late[0, 0] > 9, 0.0, 1.0), name=name, op=hvd.Sum)

    total, late = jnp.float32(0), jnp.full((200, 200), 0.01, "float32")
    for _ in range(4 if rank == 0 else 2):
        total = step(total, late)
    hvd.join()
    assert total == (2 * size + 2 if rank == 0 else 2 * size)
