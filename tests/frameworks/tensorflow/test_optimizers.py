"""Optimizers of TensorFlow 1 step like one big batch, and several passes make one step."""

from __future__ import annotations

import copy
import pickle

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf
from big_batch import big_batch_gradients, data, loss_of, shard, weights
from farandole.common import membership
from farandole.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")


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
