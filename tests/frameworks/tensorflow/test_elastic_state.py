"""Elastic states of variables and models, and the translation of TensorFlow's errors for the elastic loop."""

from __future__ import annotations

import horovod.tensorflow as hvd
import horovod.tensorflow.keras as keras_hvd
import numpy as np
import pytest
import tensorflow as tf
from farandole.common.exceptions import HorovodInternalError, HostsUpdatedInterrupt, ShutdownError, WorkerLostError
from farandole.tensorflow.errors import behind, translated
from farandole.tensorflow.gradient_aggregation_eager import LocalGradientAggregationHelperEager


def model_of(rank: int):
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, kernel_initializer="ones", name="only")])
    model.build([None, 3])
    model.set_weights([each + rank for each in model.get_weights()])
    return model, tf.keras.optimizers.SGD(0.5, momentum=0.9)


def test_a_model_and_its_optimizer_are_restored_and_synchronized(rank):
    model, optimizer = model_of(rank)
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=rank, seen=[rank])
    assert state.model is model and state.optimizer is optimizer
    gradients = [tf.ones_like(each) for each in model.trainable_variables]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    state.batch, moved = 9, model.get_weights()[0][0, 0]
    state.seen.append("changed in place")
    assert moved != 1.0 + rank
    state.restore()
    assert model.get_weights()[0][0, 0] == 1.0 + rank and state.batch == rank and state.seen == [rank]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    state.batch = 4 + rank
    state.save()
    state.sync()
    assert model.get_weights()[0][0, 0] == 0.5 and state.batch == 4 and state.seen == [0]
    model.set_weights([np.zeros_like(each) for each in model.get_weights()])
    state.restore()
    assert model.get_weights()[0][0, 0] == 0.5


@pytest.mark.parametrize("undone", ["restore", "sync"])
@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("kind", [hvd.elastic.TensorFlowKerasState, keras_hvd.elastic.KerasState])
def test_gradients_of_passes_before_a_change_are_discarded(kind, is_scaled: bool, undone: str) -> None:
    model, optimizer = model_of(0)
    optimizer = keras_hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2)
    if is_scaled:
        optimizer = tf.keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=1.0)
    state = kind(model, optimizer)

    def take_pass(gradient: float) -> None:
        variables = model.trainable_variables
        optimizer.apply_gradients([(tf.fill(each.shape, gradient), each) for each in variables])

    take_pass(100.0)
    getattr(state, undone)()
    for _ in range(2):
        take_pass(1.0)
    assert model.get_weights()[0][0, 0] == 0.0  # a step of 0.5 by the sum of two passes


class Watcher:
    """A callback that refers to the model that it watches."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.seen = model, optimizer, []


def test_values_that_refer_to_the_model_are_copied_without_it(rank):
    model, optimizer = model_of(rank)
    watcher = Watcher(model, optimizer)
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, watcher=watcher, kernel=(model.weights[0], []))
    watcher.seen.append(1)
    state.save()
    watcher.seen.append(2)
    for put_back in (state.restore, state.sync):
        put_back()
        assert state.watcher is not watcher and state.watcher.seen == [1]
        assert state.watcher.model is model and state.watcher.optimizer is optimizer
        assert state.kernel[0] is model.weights[0]


def test_a_model_that_is_not_built_is_refused():
    with pytest.raises(ValueError, match="built"):
        hvd.elastic.TensorFlowKerasState(tf.keras.Sequential([tf.keras.layers.Dense(2)]), None)


def test_constructing_a_state_does_not_communicate(rank, size):
    variable = tf.Variable([float(rank)])
    if rank == 0:
        alone = hvd.elastic.TensorFlowState(variables=[variable], step=3)
        alone.restore()
        assert alone.step == 3
    state = hvd.elastic.TensorFlowState(variables=[variable], step=rank)
    assert variable.numpy() == [float(rank)]
    state.sync()
    assert variable.numpy() == [0.0] and state.step == 0
    variable.assign([5.0])
    state.restore()
    assert variable.numpy() == [0.0]


@pytest.mark.parametrize("discard", ["restore", "sync"])
def test_a_state_of_variables_discards_the_passes_of_a_step_that_was_interrupted(run, discard):
    variable = tf.Variable([5.0])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(1.0), op=hvd.Average, backward_passes_per_step=2)
    helper = LocalGradientAggregationHelperEager(2, lambda gradients, _: list(gradients), True, True)
    state = hvd.elastic.TensorFlowState(variables=[variable])

    @run
    def step(gradient):
        optimizer.apply_gradients([(gradient, variable)])
        return helper.compute_gradients([gradient], [variable])[0]

    step(tf.constant([100.0]))
    getattr(state, discard)()
    assert [step(tf.constant([each])).numpy().item() for each in (1.0, 3.0)] == [1.0, 2.0]
    assert variable.numpy() == [1.0]


LOST = (
    "{{function_node f}} HorovodAllreduce (disconnected): grad: rank 1 is gone\n\t [[{{node x/grad}}]] [Op:__inference]"
)


def test_tensorflow_errors_are_translated_to_lost_members_and_interrupts():
    lost = behind(tf.errors.UnknownError(None, None, LOST))
    assert isinstance(lost, HorovodInternalError) and lost.kind == "disconnected" and "rank 1 is gone" in str(lost)
    assert isinstance(lost, WorkerLostError)
    ended = behind(tf.errors.UnknownError(None, None, LOST.replace("disconnected", "shut down")))
    assert isinstance(ended, ShutdownError) and ended.kind == "shut down"
    cancelled = behind(tf.errors.CancelledError(None, None, "cancelled [[{{node cond/HorovodGroupedAllgather_x}}]]"))
    assert isinstance(cancelled, HorovodInternalError) and cancelled.kind == "unknown"
    interrupt = behind(tf.errors.UnknownError(None, None, "HostsUpdatedInterrupt: True\nTraceback"))
    assert isinstance(interrupt, HostsUpdatedInterrupt) and interrupt.skip_sync is True


def test_other_tensorflow_errors_are_not_translated():
    for other in (
        tf.errors.UnknownError(None, None, "the disk is full"),
        tf.errors.UnknownError(None, None, "failed [[{{node HorovodAllreduce_x}}]]"),
        tf.errors.FailedPreconditionError(None, None, LOST.replace("disconnected", "precondition")),
        tf.errors.InvalidArgumentError(None, None, LOST.replace("disconnected", "invalid argument")),
    ):
        assert behind(other) is None
        with pytest.raises(type(other)), translated():
            raise other


def test_the_elastic_loop_continues_after_an_interrupt_inside_a_graph():
    """A Python function that the graph runs raises the interrupt; the graph's error is one of TensorFlow's own."""
    calls = []

    def interrupt():
        raise HostsUpdatedInterrupt(False)

    @tf.function
    def step():
        tf.py_function(interrupt, [], [])

    state = hvd.elastic.TensorFlowState(variables=[], step=0)

    @hvd.elastic.run
    def train(state):
        calls.append(hvd.size())
        if len(calls) == 1:
            step()
        return "done"

    assert train(state) == "done" and len(calls) == 2
