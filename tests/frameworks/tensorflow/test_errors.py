"""Errors: each is one of TensorFlow's own exceptions and fails only its own operation, on every rank, with a helpful
message; the job continues, also under the same tensor name."""

from __future__ import annotations

import pickle
from typing import Any, Callable, Dict, Tuple

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from farandole.common.util import require_framework
from farandole.tensorflow import kernels

NOT_REGISTERED = "the process set is not registered: pass it to init"

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def fine(name: str, size: int) -> None:
    """Checks that the job continues to work, also under the same tensor name."""
    assert hvd.allreduce(tf.ones([4]), name=name, op=hvd.Sum).numpy().tolist() == [size] * 4
    assert tf.function(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.ones([2])).numpy().tolist() == [size] * 2


def rows(*row: int, dtype: Any = tf.float32) -> tf.Tensor:
    return tf.ones([hvd.size(), *row], dtype)


# The call of all other ranks, the different call of the last rank, and words that the error must contain.
MISMATCHES: Dict[str, Tuple[Callable[[str], Any], Callable[[str], Any], Tuple[str, str]]] = {
    "dtype": (
        lambda name: hvd.allreduce(tf.ones([4]), name=name),
        lambda name: hvd.allreduce(tf.ones([4], tf.int32), name=name),
        ("float32", "int32"),
    ),
    "shape": (
        lambda name: hvd.allreduce(tf.ones([4, 3]), name=name),
        lambda name: hvd.allreduce(tf.ones([3, 4]), name=name),
        ("[4, 3]", "[3, 4]"),
    ),
    "operation": (
        lambda name: hvd.allreduce(tf.ones([4]), name=name),
        lambda name: hvd.broadcast(tf.ones([4]), 0, name=name),
        ("allreduce", "broadcast"),
    ),
    "reduction": (
        lambda name: hvd.allreduce(tf.ones([4]), name=name, op=hvd.Sum),
        lambda name: hvd.allreduce(tf.ones([4]), name=name, op=hvd.Max),
        ("Sum", "Max"),
    ),
    "scale": (
        lambda name: hvd.allreduce(tf.ones([4]), name=name, prescale_factor=0.5),
        lambda name: hvd.allreduce(tf.ones([4]), name=name, prescale_factor=0.25),
        ("0.5", "0.25"),
    ),
    "large shape": (
        lambda name: hvd.allreduce(tf.ones([400_000]), name=name),
        lambda name: hvd.allreduce(tf.ones([400_001]), name=name),
        ("[400000]", "[400001]"),
    ),
    "member of a group": (
        lambda name: hvd.grouped_allreduce([tf.ones([4]), tf.ones([2])], name=name),
        lambda name: hvd.grouped_allreduce([tf.ones([4]), tf.ones([3])], name=name),
        ("[2]", "[3]"),
    ),
    "root": (
        lambda name: hvd.broadcast(tf.ones([4]), 0, name=name),
        lambda name: hvd.broadcast(tf.ones([4]), 1, name=name),
        ("0", "1"),
    ),
    "gathered row": (
        lambda name: hvd.allgather(tf.ones([4, 3]), name=name),
        lambda name: hvd.allgather(tf.ones([4, 5]), name=name),
        ("[4, 3]", "[4, 5]"),
    ),
    "dealt row": (
        lambda name: hvd.alltoall(rows(3), name=name),
        lambda name: hvd.alltoall(rows(5), name=name),
        (", 3]", ", 5]"),
    ),
    "scattered type": (
        lambda name: hvd.reducescatter(rows(), name=name),
        lambda name: hvd.reducescatter(rows(dtype=tf.float64), name=name),
        ("float32", "float64"),
    ),
}


def test_a_name_with_a_nul_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot hold the character NUL"):
        hvd.grouped_allreduce([tf.ones([2])] * 2, name="a\0b")


@several_ranks
@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_a_mismatch_fails_on_all_ranks_and_names_both_values(run, rank, size, name, mismatch):
    usual, other, words = MISMATCHES[mismatch]
    call = other if rank == size - 1 else usual
    with pytest.raises(tf.errors.FailedPreconditionError) as problem:
        run(lambda: call("mismatch"))()
    for word in ("mismatch", *words):
        assert word in str(problem.value)
    fine("mismatch", size)


@several_ranks
def test_an_eager_mismatch_is_an_exception_of_both_libraries(rank, size, name):
    with pytest.raises(hvd.MismatchError) as problem:
        hvd.allreduce(tf.ones([3 + rank]), name=name)
    assert isinstance(problem.value, tf.errors.FailedPreconditionError) and isinstance(problem.value, ValueError)
    assert problem.value.error_code == tf.errors.FAILED_PRECONDITION and problem.value.kind == "mismatch"
    again = pickle.loads(pickle.dumps(problem.value))
    assert type(again) is type(problem.value) and again.message == problem.value.message
    assert problem.value.__suppress_context__  # one traceback, not two
    fine(name, size)


def test_wrong_arguments_are_refused_by_the_call(run, rank, size):
    wrong = {
        "splits that are more than the rows": lambda: hvd.alltoall(tf.ones([size]), [2] * size),
        "splits that are fewer than the rows": lambda: hvd.alltoall(tf.ones([3 * size]), [1] * size),
        "too few splits": lambda: hvd.alltoall(tf.ones([size + 1]), [1] * (size + 1)),
        "splits beyond int32": lambda: hvd.alltoall(tf.ones([size]), tf.constant([2**32 + 1] * size, tf.int64)),
        "no such root": lambda: hvd.broadcast(tf.ones([2]), size),
        "a scalar": lambda: hvd.reducescatter(tf.constant(1.0)),
        "an unregistered set": lambda: hvd.allreduce(tf.ones([1]), process_set=hvd.ProcessSet([0])),
    }
    for mistake, call in wrong.items():
        # A graph refuses a scalar when it is made.
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
            run(call)()
            pytest.fail(f"{mistake} was accepted")
    fine("refused", size)


def test_more_received_rows_than_int32_counts_are_refused(run, size):
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 2147483647 rows came from one rank"):
        run(lambda: hvd.alltoall(tf.zeros([size * 2**31, 0]), name="many"))()  # rows without elements
    fine("refused", size)


@several_ranks
def test_a_process_set_without_this_rank_is_refused(run, rank, size):
    first = hvd.add_process_set([0])
    try:
        if rank == 0:
            assert run(lambda: hvd.allreduce(tf.ones([2]), op=hvd.Sum, process_set=first))().numpy().tolist() == [1, 1]
        else:
            with pytest.raises(tf.errors.InvalidArgumentError):
                run(lambda: hvd.allreduce(tf.ones([2]), process_set=first))()
        assert int(hvd.process_set_included_op(first.process_set_id)) == int(rank == 0)
        assert int(hvd.size_op(first.process_set_id)) == 1
    finally:
        hvd.barrier()
        hvd.remove_process_set(first)
    for kind in (tf.errors.InvalidArgumentError, ValueError):
        with pytest.raises(kind):
            run(lambda: hvd.allreduce(tf.ones([2]), process_set=first))()


def test_a_set_that_is_not_registered_is_a_value_error_as_in_other_frameworks(run):
    unknown = hvd.ProcessSet([0])
    calls = {
        "allreduce": lambda x: hvd.allreduce(x, process_set=unknown),
        "allgather": lambda x: hvd.allgather(x, process_set=unknown),
        "broadcast": lambda x: hvd.broadcast(x, 0, process_set=unknown),
        "alltoall": lambda x: hvd.alltoall(x, process_set=unknown),
        "reducescatter": lambda x: hvd.reducescatter(x, process_set=unknown),
        "grouped_allreduce": lambda x: hvd.grouped_allreduce([x], process_set=unknown)[0],
        "grouped_allgather": lambda x: hvd.grouped_allgather([x], process_set=unknown)[0],
        "grouped_reducescatter": lambda x: hvd.grouped_reducescatter([x], process_set=unknown)[0],
        "barrier": lambda x: hvd.barrier(process_set=unknown),
    }
    for name, call in calls.items():
        # AutoGraph takes a second for each.
        call = call if name == "allreduce" else tf.autograph.experimental.do_not_convert(call)
        with pytest.raises(ValueError, match=NOT_REGISTERED) as problem:
            run(call)(tf.ones([2]))
        assert isinstance(problem.value, tf.errors.InvalidArgumentError)


@pytest.mark.parametrize("are_members", [True, False])
def test_gradients_are_not_left_alone_because_their_set_is_not_registered(run, size, are_members):
    unknown = hvd.ProcessSet(range(size) if are_members else [size])
    variable = tf.Variable([1.0])
    plain = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    optimizer = hvd.DistributedOptimizer(plain, process_set=unknown)

    @run
    @tf.autograph.experimental.do_not_convert
    def gradient():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * 2.0)
        return hvd.DistributedGradientTape(tape, process_set=unknown).gradient(loss, variable)

    @run
    @tf.autograph.experimental.do_not_convert
    def step():
        optimizer.minimize(lambda: variable * 2.0, var_list=[variable])

    for call in (gradient, step):
        with pytest.raises(ValueError, match=NOT_REGISTERED):
            call()


def test_types_that_cannot_be_reduced_are_refused():
    for wrong in (tf.constant(["text"]), tf.constant([1 + 2j]), tf.constant([True])):
        with pytest.raises((tf.errors.InvalidArgumentError, TypeError, tf.errors.NotFoundError)):
            hvd.allreduce(wrong, op=hvd.Sum)
    assert hvd.broadcast(tf.constant([True, False]), 0).numpy().tolist() == [True, False]


def test_adasum_is_refused_in_process_sets_and_in_reducescatter(rank, size):
    alone = hvd.add_process_set([0]) if size > 1 else hvd.global_process_set
    if size > 1:
        with pytest.raises(NotImplementedError, match="global"):
            hvd.allreduce(tf.ones([2]), op=hvd.Adasum, process_set=alone)
        hvd.remove_process_set(alone)
    with pytest.raises(tf.errors.AbortedError):
        hvd.reducescatter(tf.ones([size, 2]), op=hvd.Adasum)


@several_ranks
def test_a_tensor_name_that_is_in_flight_is_refused(rank, size):
    @tf.function
    def twice(x):
        with tf.name_scope("one"):
            first = hvd.allreduce(x, name="twice", ignore_name_scope=True)
        with tf.name_scope("other"):
            second = hvd.allreduce(x + 1.0, name="twice", ignore_name_scope=True)
        return first + second

    # Rank 0 refuses the second operation. The others never submit the first, so it is withdrawn. If another rank
    # withdrew it, rank 0 might hear of that before it submits the second.
    if rank == 0:
        with pytest.raises(tf.errors.InvalidArgumentError, match="twice"):
            twice(tf.ones([2]))
    fine("twice_again", size)


@several_ranks
@pytest.mark.parametrize("steps_before", [0, 3])
def test_a_failed_step_ends_although_other_ranks_never_submit_the_remaining_tensors(rank, size, steps_before):
    """TensorFlow waits for every operation that it has started, so operations that can no longer complete must fail.
    After some steps the tensors take another path than in the first step."""

    def reduce(x, name):
        return hvd.allreduce(x, op=hvd.Sum, name=f"rest_{name}_{steps_before}")

    @tf.function
    def step(x):
        return reduce(x, "failing") + tf.reduce_sum(reduce(tf.ones([3]), "pending"))

    for _ in range(steps_before):
        assert step(tf.ones([2])).numpy().tolist() == [4 * size] * 2
    with pytest.raises(tf.errors.FailedPreconditionError, match="rest_failing"):
        if rank == size - 1:
            tf.function(lambda: reduce(tf.ones([3]), "failing"))()
        else:
            step(tf.ones([2]))
    fine("after_a_failed_step", size)
    if rank == size - 1:
        try:
            reduce(tf.ones([3]), "pending")
        except tf.errors.AbortedError as withdrawn:
            assert "rest_pending" in str(withdrawn)


def test_calls_after_shutdown_ask_for_init(rank, size):
    hvd.barrier()
    hvd.shutdown()
    for call in (lambda: hvd.allreduce(tf.ones([1])), hvd.size_op, tf.function(lambda: hvd.allgather(tf.ones([1])))):
        with pytest.raises(tf.errors.FailedPreconditionError, match="init"):
            call()
    with pytest.raises(ValueError, match="init"):
        hvd.size()
    hvd.init()
    fine("after_shutdown", size)


@several_ranks
def test_operations_that_are_pending_at_shutdown_fail(rank, size):
    if rank == 0:
        hvd.shutdown()
    else:
        with pytest.raises(tf.errors.UnknownError, match=r"called shutdown\(\)|shut down"):
            tf.function(lambda: hvd.allreduce(tf.ones([4]), name="pending"))()
        with pytest.raises(hvd.HorovodInternalError):
            hvd.allreduce(tf.ones([4]), name="late")
        hvd.shutdown()
    hvd.init()
    fine("after_pending", size)


def test_tensorflow_of_an_older_version_is_refused(monkeypatch):
    for version in ("2.12.1", "1.15.0"):
        with pytest.raises(ImportError, match=rf"2\.13\.0 or later, and {version}.*pip install"):
            require_framework("tensorflow", kernels.OLDEST, version)
    require_framework("tensorflow", kernels.OLDEST, "2.13.0")


def test_concurrent_operations_are_enabled_only_if_tensorflow_has_the_expected_table():
    class Hidden:
        pass

    class Changed:
        MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = ["a list"]

    class Known:
        MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS = frozenset({"Other"})

    assert not kernels.run_side_by_side(None) and not kernels.run_side_by_side(Hidden)
    assert not kernels.run_side_by_side(Changed)
    assert kernels.run_side_by_side(Known)
    assert {"Other", "HorovodAllreduce"} < Known.MUST_RUN_ORDER_INSENSITIVE_STATEFUL_OPS


def test_a_failed_operation_leaves_its_input_unchanged(rank, size):
    x = tf.Variable(np.arange(5.0))
    with pytest.raises(tf.errors.InvalidArgumentError):
        hvd.broadcast(x, size + 3)
    assert x.numpy().tolist() == [0, 1, 2, 3, 4]
