"""Operations in TensorFlow: eagerly and in functions, their static shapes, and the guarantees that graphs keep."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


def by_rank(size: int, of) -> list:
    return [of(rank) for rank in range(size)]


def test_each_operation_combines_the_inputs_of_all_ranks(run, rank, size):
    @run
    def operations(x):
        return {
            "mean": hvd.allreduce(x),
            "sum": hvd.allreduce(x, op=hvd.Sum),
            "most": hvd.allreduce(x, op=hvd.Max),
            "gathered": hvd.allgather(x[: rank + 1]),
            "last": hvd.broadcast(x, size - 1),
            "dealt": hvd.alltoall(tf.repeat(x[:1], size)),
            "share": hvd.reducescatter(tf.repeat(x[:1], size), op=hvd.Sum),
        }

    found = {name: each.numpy().tolist() for name, each in operations(tf.constant([1.0, 2.0] * size) + rank).items()}
    ones = np.array([1.0, 2.0] * size)
    assert found["mean"] == (ones + (size - 1) / 2).tolist()
    assert found["sum"] == (ones * size + sum(range(size))).tolist()
    assert found["most"] == (ones + size - 1).tolist()
    assert found["gathered"] == np.concatenate(by_rank(size, lambda r: ones[: r + 1] + r)).tolist()
    assert found["last"] == (ones + size - 1).tolist()
    assert found["dealt"] == [1.0 + r for r in range(size)]
    assert found["share"] == [size + sum(range(size))]


def test_a_group_may_mix_types_and_indexed_slices(run, rank, size):
    @run
    def reduce(x, n, values, indices):
        slices = tf.IndexedSlices(values, indices, dense_shape=tf.constant([8, 2]))
        real, whole, gathered, other = hvd.grouped_allreduce([x, n, slices, x * 2], op=hvd.Sum)
        return real, whole, gathered.values, gathered.indices, other

    real, whole, values, indices, other = reduce(
        tf.constant([1.5]), tf.constant([2]), tf.fill([1, 2], float(rank)), tf.constant([rank])
    )
    assert real.numpy().tolist() == [1.5 * size] and whole.numpy().tolist() == [2 * size]
    assert other.numpy().tolist() == [3.0 * size]
    assert indices.numpy().tolist() == list(range(size))
    assert values.numpy()[:, 0].tolist() == [float(r) for r in range(size)]


def test_grouped_allgather_and_reducescatter_return_each_member_of_the_group(run, rank, size):
    @run
    def both(x):
        gathered = hvd.grouped_allgather([x[: rank + 1], x * 2])
        shares = hvd.grouped_reducescatter([tf.repeat(x, size), tf.cast(tf.repeat(x, size), tf.int64)], op=hvd.Sum)
        return gathered, shares

    (uneven, even), (real, whole) = both(tf.fill([size], 1.0))
    assert uneven.shape == [sum(range(1, size + 1))] and even.numpy().tolist() == [2.0] * size * size
    assert real.numpy().tolist() == [size] * size and whole.numpy().tolist() == [size] * size
    assert whole.dtype == tf.int64


def test_alltoall_returns_the_number_of_rows_from_each_rank(run, rank, size):
    splits = tf.range(1, size + 1)  # rank r gets r + 1 rows from every rank

    rows, counts = run(lambda x: hvd.alltoall(x, splits))(tf.fill([sum(range(1, size + 1)), 3], rank))
    assert counts.numpy().tolist() == [rank + 1] * size
    assert rows.numpy()[:, 0].tolist() == [r for r in range(size) for _ in range(rank + 1)]


def test_scale_factors_apply_to_floats_and_integers(run, size):
    reduce = run(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0))
    for dtype in (tf.float16, tf.bfloat16, tf.float64, tf.int32):
        assert tf.cast(reduce(tf.cast([2, 4], dtype)), tf.float32).numpy().tolist() == [4.0 * size, 8.0 * size]


@pytest.mark.parametrize("compression", ["fp16", "bf16", "none"])
def test_compressed_tensors_are_returned_in_their_original_type(run, size, compression):
    compressor = getattr(hvd.Compression, compression)
    result = run(lambda x: hvd.allreduce(x, compression=compressor))(tf.constant([0.5, 3.0]))
    assert result.dtype == tf.float32 and result.numpy().tolist() == [0.5, 3.0]
    whole = run(lambda x: hvd.allreduce(x, compression=compressor, op=hvd.Sum))(tf.constant([7]))
    assert whole.dtype == tf.int32 and whole.numpy().tolist() == [7 * size]


def test_rank_and_size_operations_are_evaluated_when_the_graph_runs(run, rank, size):
    answers = run(
        lambda: (hvd.rank_op(), hvd.size_op(), hvd.local_rank_op(), hvd.local_size_op(), hvd.process_set_included_op())
    )()
    assert [each.numpy() for each in answers] == [rank, size, hvd.local_rank(), hvd.local_size(), 1]
    assert all(each.dtype == tf.int32 and each.shape == [] for each in answers)


def test_graphs_infer_the_static_shapes_of_results(size):
    seen = {}

    @tf.function(input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([4, 5]), tf.TensorSpec(None)])
    def trace(some, known, nothing):
        seen["allreduce"] = hvd.allreduce(known).shape
        seen["grouped"] = [each.shape for each in hvd.grouped_allreduce([some, known])]
        seen["allgather"] = hvd.allgather(known).shape
        seen["grouped allgather"] = [each.shape for each in hvd.grouped_allgather([known, some])]
        seen["broadcast"] = hvd.broadcast(some, 0).shape
        seen["reducescatter"] = hvd.reducescatter(known).shape
        seen["nothing"] = hvd.allgather(nothing).shape
        seen["size"] = hvd.size_op().shape

    trace.get_concrete_function()
    text = {name: str(each) for name, each in seen.items()}
    assert text["allreduce"] == "(4, 5)" and text["broadcast"] == "(None, 3)"
    assert text["allgather"] == text["reducescatter"] == "(None, 5)"
    assert [str(each) for each in seen["grouped"]] == ["(None, 3)", "(4, 5)"]
    assert [str(each) for each in seen["grouped allgather"]] == ["(None, 5)", "(None, 3)"]
    assert text["nothing"] == "<unknown>" and text["size"] == "()"


def test_nodes_are_named_after_their_tensors():
    @tf.function(input_signature=[tf.TensorSpec([2], name="pictures")])
    def trace(x):
        hvd.allreduce(x)
        hvd.grouped_allreduce([x, x + 1], name="mine")
        with tf.name_scope("outer"):
            hvd.broadcast(x, 0, name="a:b")

    names = {node.type: node.name for node in trace.get_concrete_function().graph.get_operations()}
    assert names["HorovodAllreduce"] == "HorovodAllreduce_pictures_0"
    assert names["HorovodGroupedAllreduce"] == "mine"
    assert names["HorovodBroadcast"] == "outer/a_b"


@several_ranks
def test_ranks_with_different_name_scopes_match_if_scopes_are_ignored(rank, size):
    @tf.function
    def reduce(x):
        with tf.name_scope(f"of_rank_{rank}"):
            return hvd.allreduce(x, name="without_scope", op=hvd.Sum, ignore_name_scope=True)

    assert reduce(tf.ones([3])).numpy().tolist() == [size] * 3


def test_graph_optimization_neither_merges_nor_drops_nor_folds_operations(size):
    count = tf.Variable(0.0)

    @tf.function
    def step(x):
        hvd.allreduce(x, op=hvd.Sum)  # the result is unused here, yet other ranks need the operation
        one, other = hvd.allreduce(x, op=hvd.Sum), hvd.allreduce(x, op=hvd.Sum)
        count.assign_add(1.0)
        return one + other + hvd.allreduce(tf.constant([1.0]), op=hvd.Sum)

    for _ in range(3):
        assert step(tf.ones([1])).numpy().tolist() == [3 * size]
    nodes = step.get_concrete_function(tf.ones([1])).graph.get_operations()
    assert sum(node.type == "HorovodAllreduce" for node in nodes) == 4


@several_ranks
@pytest.mark.parametrize("first", ["A", "B"])
def test_independent_operations_of_one_function_run_concurrently(rank, size, first, name):
    """The last rank submits its second tensor only after it has the result of the first: a rank that ran them one
    after the other, in either order, would hang in one of the two cases."""
    second = "B" if first == "A" else "A"

    def reduce(x, which):
        return hvd.allreduce(x, op=hvd.Sum, name=f"side_by_side_{which}")

    @tf.function
    def together(x):
        return reduce(x, "A") + reduce(x, "B")

    @tf.function
    def apart(x):
        early = reduce(x, first)
        with tf.control_dependencies([early]):
            return early + reduce(tf.identity(x), second)

    step = apart if rank == size - 1 else together
    for _ in range(3):
        assert step(tf.ones([4])).numpy().tolist() == [2 * size] * 4


def test_operations_in_loops_and_conditions_match_by_iteration(rank, size):
    @tf.function
    def rounds(x):
        total = tf.zeros([2])
        for turn in tf.range(20):
            total += hvd.allreduce(x * tf.cast(turn, tf.float32), op=hvd.Sum)  # does not depend on the turn before
            if turn % 2 == 0:
                total += hvd.allreduce(x, op=hvd.Sum)
        return total

    assert rounds(tf.ones([2])).numpy().tolist() == [size * (sum(range(20)) + 10)] * 2


@several_ranks
def test_large_tensors_in_flight_at_the_same_time_do_not_mix(rank, size):
    @tf.function
    def step(x):
        return [hvd.allreduce(x + float(number), op=hvd.Sum) for number in range(6)]

    x = tf.random.stateless_uniform([300_000], seed=[1, 2])
    for number, each in enumerate(step(x)):
        np.testing.assert_allclose(each.numpy(), (x.numpy() + number) * size, rtol=1e-6)


@several_ranks
def test_a_variable_may_change_while_its_value_is_reduced(rank, size):
    variable = tf.Variable(tf.fill([100_000], float(rank)))

    @tf.function
    def step():
        sent = hvd.allreduce(variable.read_value(), op=hvd.Sum)
        variable.assign_add(tf.ones_like(variable))
        return sent

    for turn in range(3):
        assert np.unique(step().numpy()).tolist() == [sum(range(size)) + turn * size]


def test_broadcast_in_place_assigns_the_roots_values_to_variables(run, rank, size):
    ones, twos = tf.Variable(tf.fill([2], float(rank))), tf.Variable(tf.fill([3], rank * 2))

    @run
    def spread():
        hvd.broadcast_([ones, twos], size - 1, name="in_place")

    spread()
    assert ones.numpy().tolist() == [size - 1.0] * 2 and twos.numpy().tolist() == [2 * size - 2] * 3


def test_join_returns_the_last_rank_to_join(run, size):
    last = run(hvd.join)()
    assert last.dtype == tf.int32 and 0 <= int(last) < size


@several_ranks
def test_a_joined_rank_contributes_zeros(rank, size):
    if rank == 0:
        assert int(hvd.join()) != 0
        return
    reduced = hvd.allreduce(tf.ones([3]), op=hvd.Sum, name="after_join")
    assert reduced.numpy().tolist() == [size - 1.0] * 3
    assert int(hvd.join()) != 0


def test_barrier_runs_eagerly_and_in_a_graph(run):
    @run
    def wait():
        hvd.barrier()

    wait()


def test_objects_are_broadcast_and_gathered(rank, size):
    sent = {"rank": rank, "array": np.arange(3) + rank}
    received = hvd.broadcast_object(sent, root_rank=size - 1)
    assert received["rank"] == size - 1 and received["array"].tolist() == [size - 1, size, size + 1]
    assert hvd.broadcast_object_fn(root_rank=0)(rank) == 0
    assert hvd.allgather_object(("x", rank)) == [("x", each) for each in range(size)]


def test_empty_and_scalar_tensors_are_reduced_and_gathered(run, rank, size):
    assert run(lambda x: hvd.allreduce(x, op=hvd.Sum))(tf.constant(2.0)).numpy() == 2.0 * size
    assert run(hvd.allreduce)(tf.zeros([0, 3])).shape == [0, 3]
    gathered = run(hvd.allgather)(tf.zeros([1 if rank == size - 1 else 0, 2]))
    assert gathered.shape == [1, 2]
    assert hvd.grouped_allreduce([]) == []


def test_broadcast_variables_gives_all_ranks_the_variables_of_rank_0(run, rank):
    variables = [tf.Variable([rank + 1.0]), tf.Variable(rank), tf.Variable([[rank + 0.5]], dtype=tf.float64)]

    @run
    def begin():
        hvd.broadcast_variables(variables, root_rank=0)
        hvd.broadcast_variables([], root_rank=0)

    begin()
    assert [each.numpy().item() for each in variables] == [1.0, 0, 0.5]
    with pytest.raises(RuntimeError, match="graph"):
        hvd.broadcast_global_variables(0)


def test_broadcast_variables_sends_the_states_of_random_generators_only_if_there_are_no_others(run, rank):
    if not hasattr(tf.keras, "ops"):
        pytest.skip("the generators of Keras 2 are no variables")
    layer = tf.keras.layers.Dropout(0.5, seed=100 + rank)
    model = tf.keras.Sequential([tf.keras.Input((64,)), layer, tf.keras.layers.Dense(1)])
    model.layers[-1].bias.assign([float(rank)])
    state = layer.seed_generator.state
    assert any(each is state for each in model.variables)

    @run
    def give():
        hvd.broadcast_variables(model.variables, root_rank=0)

    @run
    def give_state():
        hvd.broadcast_variables([state], root_rank=0)

    states = [state.numpy().tolist()]
    give()
    states.append(state.numpy().tolist())
    give_state()
    states.append(state.numpy().tolist())
    of_root = hvd.broadcast_object(states)
    assert states == [states[0], states[0], of_root[0]] and (states[0] == of_root[0]) == (rank == 0)
    assert model.layers[-1].bias.numpy().tolist() == [0.0]
