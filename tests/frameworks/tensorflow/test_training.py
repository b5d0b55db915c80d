"""Training on several ranks matches training on one big batch: tapes, optimizers of TensorFlow 1, and aggregation."""

from __future__ import annotations

import copy
import pickle
import re

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from farandole.common import membership
from farandole.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")

ROWS, WIDTH = 6, 4


def data(size: int):
    random = np.random.default_rng(3)
    return random.normal(size=(ROWS * size, WIDTH)).astype("f"), random.normal(size=(ROWS * size, 1)).astype("f")


def shard(arrays, rank: int):
    return [tf.constant(each[rank * ROWS : (rank + 1) * ROWS]) for each in arrays]


def weights():
    return [tf.Variable(tf.ones([WIDTH, 3])), tf.Variable(tf.zeros([3])), tf.Variable(tf.fill([3, 1], 0.5))]


def loss_of(variables, x, y):
    kernel, bias, output = variables
    return tf.reduce_mean(tf.square(tf.tanh(x @ kernel + bias) @ output - y))


def big_batch_gradients(size: int):
    variables = weights()
    with tf.GradientTape() as tape:
        loss = loss_of(variables, *(tf.constant(each) for each in data(size)))
    return [each.numpy() for each in tape.gradient(loss, variables)]


OPTIONS = {
    "plain": {},
    "fp16": {"compression": hvd.Compression.fp16},
    "predivide": {"gradient_predivide_factor": 2.0},
    "two groups": {"groups": 2},
    "sparse as dense": {"sparse_as_dense": True},
}


@pytest.mark.parametrize(
    "options",
    [pytest.param(each, marks=pytest.mark.slow) if each in ("fp16", "two groups") else each for each in OPTIONS],
)
def test_a_distributed_tape_gives_the_gradients_of_one_big_batch(run, rank, size, options):
    variables = weights()

    @run
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y)
        tape = hvd.DistributedGradientTape(tape, **OPTIONS[options])
        assert isinstance(tape, tf.GradientTape)
        return tape.gradient(loss, variables)

    for found, expected in zip(step(*shard(data(size), rank)), big_batch_gradients(size)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-3 if options == "fp16" else 1e-5, atol=1e-4)


def test_the_tapes_of_two_optimizers_give_the_gradients_of_one_big_batch(run, rank, size):
    variables = weights()

    @run
    def step(x, y):
        with tf.GradientTape() as one, tf.GradientTape() as other:
            loss = loss_of(variables, x, y)
        first, second = hvd.DistributedGradientTape(one), hvd.DistributedGradientTape(other)
        return [*first.gradient(loss, variables[:2]), *second.gradient(loss, variables[1:])]

    kernel, bias, output = big_batch_gradients(size)
    for found, expected in zip(step(*shard(data(size), rank)), [kernel, bias, bias, output]):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_a_tape_with_groups_of_variables_gives_the_gradients_of_one_big_batch(run, rank, size):
    variables = weights()

    @run
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y)
        return hvd.DistributedGradientTape(tape, groups=[[variables[2], variables[0]]]).gradient(loss, variables)

    for found, expected in zip(step(*shard(data(size), rank)), big_batch_gradients(size)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_gradients_have_the_structure_of_the_sources_and_none_stays_none(run, rank, size):
    one, unused = tf.Variable([1.0 + rank]), tf.Variable([1.0])

    @run
    def step():
        with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
            loss = tf.reduce_sum(one * (rank + 1.0))
        return tape.gradient(loss, one), tape.gradient(loss, {"a": one, "b": [unused]})

    alone, nested = step()
    mean = (size + 1) / 2
    assert alone.numpy().tolist() == [mean] and nested["a"].numpy().tolist() == [mean] and nested["b"] == [None]


@pytest.mark.parametrize("persistent", [True, False])
def test_a_tape_that_still_records_gives_gradients(run, rank, size, persistent):
    variable = tf.Variable([1.0])

    @run
    def step():
        with tf.GradientTape() as outer:
            with tf.GradientTape(persistent=persistent) as tape:
                loss = tf.reduce_sum(variable**3 * (rank + 1.0))
                distributed = hvd.DistributedGradientTape(tape)
                found = distributed.gradient(loss, variable)
                assert tape._recording == distributed._recording == persistent
            total = tf.reduce_sum(found)
        assert not tape._recording and not distributed._recording
        return found, outer.gradient(total, variable)

    for _ in range(20):  # a tape that is freed twice ends the process some time later
        assert [each.numpy().tolist() for each in step()] == [[1.5 * (size + 1)], [6.0 * (rank + 1)]]


def test_all_gradients_of_a_source_that_occurs_twice_are_reduced(run, rank, size):
    tied = tf.Variable([1.0])

    @run
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tied * (rank + 1.0))
        return hvd.DistributedGradientTape(tape).gradient(loss, {"input": tied, "output": tied})

    assert {name: each.numpy().tolist() for name, each in step().items()} == {
        "input": [(size + 1) / 2],
        "output": [(size + 1) / 2],
    }


@pytest.mark.parametrize("as_dense", [True, False])
def test_gradients_that_are_indexed_slices_are_averaged(run, rank, size, as_dense):
    table = tf.Variable(tf.zeros([5, 2]))

    @run
    def step(rows):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows))
        return hvd.DistributedGradientTape(tape, sparse_as_dense=as_dense).gradient(loss, table)

    found = step(tf.constant([0, rank + 1]))
    assert isinstance(found, tf.IndexedSlices) != as_dense
    expected = np.zeros([5, 2])
    expected[0] = 1.0
    expected[1 : size + 1] = 1.0 / size
    np.testing.assert_allclose(tf.convert_to_tensor(found).numpy(), expected)


@several_ranks
@pytest.mark.parametrize("options", [{}, {"sparse_as_dense": True}, {"groups": 2}, {"op": hvd.Sum}], ids=str)
def test_a_gradient_that_only_some_ranks_have_is_added_to_nothing(options, rank, size):
    everywhere, nowhere = tf.Variable([1.0]), tf.Variable([1.0])
    dense = [tf.Variable([1.0, 2.0]) for _ in range(size)]  # each is used by one rank, as an expert is
    tables = [tf.Variable(tf.ones([4, 2]) * each) for each in range(size)]
    kinds = [tf.int32, tf.int64]
    for step in range(2):
        with hvd.DistributedGradientTape(tf.GradientTape(), **options) as tape:
            rows = tf.gather(tables[rank], tf.constant([rank, step], kinds[rank % 2]))
            loss = tf.reduce_sum(everywhere * (rank + 1.0)) + 3.0 * tf.reduce_sum(dense[rank]) + tf.reduce_sum(rows)
        sources = {"every": everywhere, "no": nowhere, "dense": dense, "tables": tables}
        found = tape.gradient(loss, sources)
        share = 1.0 if options.get("op") == hvd.Sum else 1.0 / size
        assert found["no"] is None
        assert found["every"].numpy().item() == pytest.approx(sum(range(1, size + 1)) * share)
        for each in found["dense"]:
            np.testing.assert_allclose(each.numpy(), [3.0 * share] * 2, rtol=1e-6)
        for place, each in enumerate(found["tables"]):
            assert isinstance(each, tf.IndexedSlices) != ("sparse_as_dense" in options)
            expected = np.zeros([4, 2])
            expected[place] += share
            expected[step] += share
            np.testing.assert_allclose(tf.convert_to_tensor(each).numpy(), expected, rtol=1e-6)


@several_ranks
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=str)
def test_a_gradient_that_only_some_ranks_have_in_a_function_is_an_error_that_names_the_remedy(rank, size, options):
    shared, part = tf.Variable([1.0], name="shared"), tf.Variable([1.0, 2.0], name="part")
    unused = tf.Variable([1.0])
    problems = []

    @tf.function
    def step(unconnected):
        with hvd.DistributedGradientTape(tf.GradientTape(), **options) as tape:
            loss = tf.reduce_sum(shared * (rank + 1.0))
            if rank == 0:
                loss += 3.0 * tf.reduce_sum(part)
        found = tape.gradient(loss, [shared, part, unused], unconnected_gradients=unconnected)
        assert (found[2] is None) == (unconnected == tf.UnconnectedGradients.NONE)
        return found[:2]

    if rank:
        with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)grad_1_part.*UnconnectedGradients.ZERO"):
            step(tf.UnconnectedGradients.NONE)
    else:
        # A step that fails takes back what the other ranks have not asked for yet. TensorFlow names one of its tensors.
        try:
            step(tf.UnconnectedGradients.NONE)
        except tf.errors.OpError as problem:
            problems.append(str(problem))
    found = step(tf.UnconnectedGradients.ZERO)
    assert all(re.search(r"grad_\d_\w+ was taken back by rank", each) for each in problems), problems
    np.testing.assert_allclose(found[0].numpy(), [(size + 1) / 2], rtol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), [3.0 / size] * 2, rtol=1e-6)


@several_ranks
def test_sums_of_several_passes_that_only_some_ranks_have_are_added_to_nothing(rank, size):
    parts = [tf.Variable([1.0 + each]) for each in range(size)]
    reduction = hvd.DistributedGradientTape(tf.GradientTape())._reduction
    helper = LocalGradientAggregationHelperEager(2, reduction, False, False)
    for _ in range(2):
        for number in range(2):
            gradients = [tf.constant([2.0]) if each == rank else None for each in range(size)]
            found = helper.compute_gradients(gradients, parts)
            if number == 0:
                assert [each is None for each in found] == [each != rank for each in range(size)]
        np.testing.assert_allclose([each.numpy().item() for each in found], [4.0 / size] * size, rtol=1e-6)


def test_a_variable_that_no_pass_of_a_step_uses_has_no_gradient():
    used, unused = tf.Variable([1.0]), tf.Variable([1.0])
    helper = LocalGradientAggregationHelperEager(2, lambda gradients, variables: list(gradients), False, False)
    one = tf.constant([1.0])
    for step in ([one, one], [None, None], [one, None]):
        for gradient in step:
            found = helper.compute_gradients([one, gradient], [used, unused])
        assert found[0].numpy() == [2.0]
        assert (found[1] is None) == (step == [None, None])
    assert found[1].numpy() == [1.0]


def test_sums_that_begin_anew_forget_values_that_are_not_finite():
    variable = tf.Variable([1.0])
    helper = LocalGradientAggregationHelperEager(2, lambda gradients, variables: list(gradients), False, False)
    helper.compute_gradients([tf.constant([np.inf])], [variable])
    helper.begin_anew()
    for _ in range(2):
        found = helper.compute_gradients([tf.constant([1.0])], [variable])
    assert found[0].numpy() == [2.0]


@several_ranks
def test_a_gradient_that_is_dense_on_some_ranks_and_of_slices_on_others_is_refused(rank, size):
    table = tf.Variable(tf.ones([4, 2]), name="table")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(table if rank == 0 else tf.gather(table, tf.constant([1])))
    text = rf"gradient of table.* is dense on 1 ranks and slices .*int32 on {size - 1} ranks: pass sparse_as_dense=True"
    with pytest.raises(ValueError, match=text):
        hvd.DistributedGradientTape(tape).gradient(loss, table)


@several_ranks
@pytest.mark.parametrize(
    ("reducer", "others"),
    [("tape", "dense"), ("tape", "None"), ("generic tape", "None"), ("optimizer", "dense")],
    ids=str,
)
@pytest.mark.parametrize("is_first", [True, False])
def test_slices_that_only_one_rank_has_in_a_function_are_an_error_on_all(is_first, reducer, others, rank, size):
    sparse, other = (0, 1) if is_first else (size - 1, 0)
    table = tf.Variable(tf.ones([4, 2]), name=f"{reducer[0]}_{others}_{sparse}")
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0))
    optimizer.build([table])
    is_generic = reducer == "generic tape"

    @tf.function
    def step():
        with tf.name_scope(f"of_rank_{rank}" if is_generic else "step"):
            with tf.GradientTape() as tape:
                loss = tf.constant(0.0) if others == "None" else tf.reduce_sum(table)
                if rank == sparse:
                    loss = tf.reduce_sum(tf.gather(table, [1]))
            if reducer == "optimizer":
                optimizer.apply_gradients([(tape.gradient(loss, table), table)])
            else:
                hvd.DistributedGradientTape(tape).gradient(loss, table, use_generic_names=is_generic)

    text = rf"(?s)grad_0.*operations differ.*it is sparse on rank {sparse}, and dense or missing on rank {other}"
    for _ in range(2):
        with pytest.raises(tf.errors.FailedPreconditionError, match=f"{text}: pass sparse_as_dense=True"):
            step()


def test_allreduce_of_indexed_slices_refuses_options_for_dense_tensors(size):
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), dense_shape=tf.constant([4, 2]))
    for options in ({"op": hvd.Max}, {"op": hvd.Adasum}, {"prescale_factor": 0.5}, {"postscale_factor": 2.0}):
        with pytest.raises(NotImplementedError):
            hvd.allreduce(slices, **options)


@several_ranks
def test_gradients_of_local_sources_are_not_reduced(run, rank, size):
    shared, own = tf.Variable([1.0]), tf.Variable([1.0])

    def step(scale):
        @run
        def compute():
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((shared + own) * (rank + 1.0))
            tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scale)
            tape.register_local_source(own)
            return [[pair[1] for pair in part] for part in tape.get_local_and_global_gradients(loss, [shared, own])]

        return [each.numpy().item() for part in compute() for each in part]

    mean = (size + 1) / 2
    assert step(True) == pytest.approx([(rank + 1.0) / size, mean])
    assert step(False) == pytest.approx([rank + 1.0, mean])


@several_ranks
def test_gradients_of_local_layers_of_a_partial_tape_are_not_reduced(rank, size):
    shared, own = tf.keras.layers.Dense(1, use_bias=False), tf.keras.layers.Dense(1, use_bias=False)
    x = tf.fill([1, 1], rank + 1.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(shared(x) + own(x))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=own, scale_local_gradients=False)
    found = tape.gradient(loss, [shared.trainable_weights[0], own.trainable_weights[0]], use_generic_names=True)
    assert [each.numpy().item() for each in found] == [(size + 1) / 2, rank + 1.0]
    with pytest.raises(ValueError, match="layer"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers="dense")


@several_ranks
def test_ranks_whose_models_have_different_names_match_by_generic_names(run, rank, size):
    variable = tf.Variable([1.0], name=f"of_rank_{rank}")

    @run
    def step(x):
        with tf.name_scope(f"of_rank_{rank}"):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable * x)
            return hvd.DistributedGradientTape(tape).gradient(loss, [variable], use_generic_names=True)

    (gradient,) = step(tf.constant([rank + 1.0]))
    assert gradient.numpy().tolist() == [(size + 1) / 2]


@several_ranks
def test_gradients_of_two_calls_in_one_function_have_different_generic_names(rank, size):
    variable = tf.Variable([1.0])

    @tf.function
    def step():
        with tf.GradientTape(persistent=True) as tape:
            losses = [tf.reduce_sum(variable * (rank + factor)) for factor in (1.0, 2.0)]
        tape = hvd.DistributedGradientTape(tape)
        return [tape.gradient(loss, variable, use_generic_names=True) for loss in losses]

    assert [each.numpy().item() for each in step()] == [(size + 1) / 2, (size + 3) / 2]
    nodes = step.get_concrete_function().graph.get_operations()
    names = [each.name.rpartition("/")[2] for each in nodes if each.type == "HorovodAllreduce"]
    assert names == ["grad_0", "grad2_0"]


def test_invalid_options_are_refused_and_deprecated_options_warn():
    for options in (
        {"groups": -1},
        {"groups": ["kernel"]},
        {"gradient_predivide_factor": 2.0, "op": hvd.Sum},
    ):
        with pytest.raises(ValueError):
            hvd.DistributedGradientTape(tf.GradientTape(), **options)
    with pytest.warns(DeprecationWarning, match="num_groups"):
        hvd.DistributedGradientTape(tf.GradientTape(), num_groups=2)
    with pytest.raises(ValueError, match="average"):
        hvd.allreduce(tf.ones([1]), average=True, op=hvd.Sum)
    with pytest.warns(DeprecationWarning, match="average"):
        hvd.allreduce(tf.ones([1]), average=False)


def test_an_eager_tensorflow_1_optimizer_steps_like_one_big_batch(rank, size):
    variables = weights()
    x, y = shard(data(size), rank)
    optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.5))
    expected = [variable.numpy() - 0.5 * each for variable, each in zip(variables, big_batch_gradients(size))]
    optimizer.minimize(lambda: loss_of(variables, x, y), var_list=variables)
    for variable, each in zip(variables, expected):
        np.testing.assert_allclose(variable.numpy(), each, rtol=1e-5, atol=1e-5)
    assert optimizer.get_name() == "DistributedGradientDescentOptimizer"
    with pytest.raises(ValueError, match="outside of graphs"):
        hvd.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.5), backward_passes_per_step=2)
    with pytest.raises(ValueError, match="Keras"):
        hvd.DistributedOptimizer("sgd")


@several_ranks
def test_adasum_combines_variables_that_some_ranks_or_the_first_steps_lack(run, rank, size):
    if not hvd.check_num_rank_power_of_2(size):
        pytest.skip("needs a number of ranks that is a power of two")
    for passes, expected in ((1, [[9.0, 0.0, 1.0], [7.0, -3.0, 1.0], [6.0, -4.0, 0.0]]), (2, [[], [7.0, -3.0, 1.0]])):
        variables = [tf.Variable([10.0]), tf.Variable([1.0]), tf.Variable([1.0])]
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        optimizer = hvd.DistributedOptimizer(optimizer, op=hvd.Adasum, backward_passes_per_step=passes)

        @run
        def step(gradients, optimizer=optimizer, variables=variables):
            optimizer.apply_gradients(list(zip(gradients, variables)))

        one, two, three = tf.constant([[1.0], [2.0], [3.0]])
        own = [(None, one, None), (None, three, None)] if rank == 0 else [(one, None, None), (two, None, None)]
        for gradients, values in zip([*own, (one, one, one)], expected):
            step(gradients)
            assert values in ([], [each.numpy().item() for each in variables])


@several_ranks
def test_a_tensorflow_1_graph_of_a_rank_outside_of_an_elastic_set_can_reduce_later(rank, size, monkeypatch):
    first = hvd.add_process_set([0])
    with monkeypatch.context() as elastic, tf.Graph().as_default() as graph:
        elastic.setattr(membership, "is_elastic", lambda: True)
        variable = tf.compat.v1.get_variable("v", initializer=[1.0])
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
        hvd.DistributedOptimizer(optimizer, process_set=first).minimize(tf.reduce_sum(variable * variable))
    hvd.remove_process_set(first)
    assert any(each.type == "HorovodProcessSetIncluded" for each in graph.get_operations())


def through_pickle(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
def test_a_copy_of_a_tensorflow_1_optimizer_is_distributed_with_a_state_of_its_own(rank, size, copied):
    wrapped = hvd.DistributedOptimizer(tf.compat.v1.train.MomentumOptimizer(0.5, 0.9))
    optimizer, variables, (x, y) = copied(wrapped), weights(), shard(data(size), rank)
    expected = [variable.numpy() - 0.5 * each for variable, each in zip(variables, big_batch_gradients(size))]
    optimizer.minimize(lambda: loss_of(variables, x, y), var_list=variables)
    for variable, each in zip(variables, expected):
        np.testing.assert_allclose(variable.numpy(), each, rtol=1e-5, atol=1e-5)
    assert len(optimizer.variables()) == 3 and wrapped.variables() == []
    assert optimizer._reduction._process_set is hvd.global_process_set


@pytest.mark.parametrize("op", [hvd.Average, hvd.Adasum])
@pytest.mark.parametrize("is_restored_first", [True, False])
def test_a_checkpoint_has_the_state_of_a_tensorflow_1_optimizer(size, tmp_path, op, is_restored_first):
    if op == hvd.Adasum and not hvd.check_num_rank_power_of_2(size):
        pytest.skip("needs a number of ranks that is a power of two")

    def made():
        variable = tf.Variable([1.0])
        optimizer = hvd.DistributedOptimizer(tf.compat.v1.train.AdamOptimizer(0.5), op=op)
        return variable, optimizer, tf.train.Checkpoint(variable=variable, optimizer=optimizer)

    def step(variable, optimizer):
        optimizer.minimize(lambda: tf.reduce_sum(variable**2), var_list=[variable])

    variable, optimizer, checkpoint = made()
    step(variable, optimizer)
    path = checkpoint.write(str(tmp_path / "saved"))
    expected = [each.numpy().tolist() for each in optimizer.variables()]
    variable, optimizer, checkpoint = made()
    if not is_restored_first:
        step(variable, optimizer)
    status = checkpoint.read(path)
    if is_restored_first:
        step(variable, optimizer)
        other, unwrapped = tf.Variable([1.0]), tf.compat.v1.train.AdamOptimizer(0.5)
        tf.train.Checkpoint(variable=other, optimizer=unwrapped).read(path)
        step(other, unwrapped)
        expected = [each.numpy().tolist() for each in unwrapped.variables()]
    status.assert_consumed()
    assert [each.numpy().tolist() for each in optimizer.variables()] == expected


@pytest.mark.parametrize("average", [True, False])
def test_several_backward_passes_make_one_step(run, rank, size, average):
    calls = []

    def reduce(gradients, variables):
        calls.append(1)
        return [hvd.allreduce(each, op=hvd.Average) for each in gradients]

    helper = LocalGradientAggregationHelperEager(3, reduce, False, average)
    variable = tf.Variable([10.0])
    steps = tf.Variable(0)

    @run
    def one_pass(gradient):
        (reduced,) = helper.compute_gradients([gradient], [variable])

        def apply():
            variable.assign_sub(reduced)
            steps.assign_add(1)

        helper.apply_gradients(apply, None)

    for turn in range(7):
        one_pass(tf.constant([float(rank + turn)]))
    own = (size - 1) / 2
    total = sum(own + turn for turn in range(6)) / (3 if average else 1)
    np.testing.assert_allclose(variable.numpy(), [10.0 - total])
    assert steps.numpy() == 2
    with pytest.raises(ValueError, match="sparse_as_dense"):
        helper.compute_gradients([tf.IndexedSlices(tf.ones([1]), tf.constant([0]))], [variable])


@several_ranks
@pytest.mark.parametrize("passes", [1, 2])
def test_only_members_of_a_set_divide_the_gradients_of_local_variables(run, passes, rank, monkeypatch):
    first = hvd.add_process_set([0])
    monkeypatch.setattr(first, "size", lambda: 2)  # a set that has another member
    variable = tf.Variable([0.0])
    optimizer = tf.keras.optimizers.SGD(1.0)
    optimizer = hvd.DistributedOptimizer(optimizer, process_set=first, backward_passes_per_step=passes)
    optimizer.register_local_var(variable)
    step = run(lambda: optimizer.apply_gradients([(tf.constant([2.0]), variable)]))
    optimizer.build([variable])
    for _ in range(passes):
        step()
    hvd.remove_process_set(first)
    assert variable.numpy() == [-passes * (1.0 if rank == 0 else 2.0)]


def test_variables_convert_to_references_and_back():
    one, other = tf.Variable(1.0), tf.Variable(1.0)
    refs = hvd.vars_to_refs([one, [other]])
    assert hash(refs) is not None and refs[0] != refs[1][0]
    back = hvd.refs_to_vars(refs)
    assert back[0] is one and back[1][0] is other
    assert hvd._executing_eagerly() and not tf.function(hvd._executing_eagerly)()
