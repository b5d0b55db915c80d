"""The state from which ranks start and resume: parameters, optimizer state and checkpoints of rank 0."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Callable

import farandole.mxnet as hvd
import mxnet as mx
import pytest
from mxnet import gluon, nd
from training import INPUTS, alone, assert_close, backward, network, share, weights

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")

SGD = {"learning_rate": 0.5, "momentum": 0.9}


def test_broadcast_parameters_gives_all_ranks_the_roots_arrays_and_parameters(name: str, rank: int, size: int) -> None:
    params = {f"{name}.{each}": nd.full((3,), 10 * rank + each) for each in range(4)}
    hvd.broadcast_parameters(params, root_rank=size - 1)
    values = [each.asnumpy().tolist() for each in params.values()]
    assert values == [[10.0 * (size - 1) + each] * 3 for each in range(4)]
    net = network(seed=rank)
    hvd.broadcast_parameters(dict(net.collect_params().items()), root_rank=size - 1, prefix="again.")
    assert_close(weights(net), weights(network(seed=size - 1)), rtol=0)


def test_broadcast_parameters_refuses_other_types() -> None:
    for wrong in ([nd.ones((1,))], nd.ones((1,)), None):
        with pytest.raises(ValueError, match="dict or a ParameterDict"):
            hvd.broadcast_parameters(wrong)
    if hvd.size() > 1:
        with pytest.raises(ValueError, match="weight"):
            hvd.broadcast_parameters({"weight": 3.0})


@pytest.mark.parametrize("hybrid", [False, True])
def test_parameters_without_a_shape_are_broadcast_when_they_get_one(hybrid: bool, rank: int, size: int) -> None:
    net = network(seed=rank, hybrid=hybrid, deferred=True)
    hvd.broadcast_parameters(net.collect_params(), root_rank=0)
    mx.random.seed(rank)  # the next call draws the parameters
    net(nd.ones((1, INPUTS)))
    all_weights = hvd.allgather_object(weights(net))
    for each in all_weights[1:]:
        assert_close(all_weights[0], each, rtol=0)
    before = all_weights[rank]
    net.initialize(
        mx.init.Constant(float(rank)), force_reinit=True
    )  # they are broadcast only once: these values stay each rank's own
    assert all((each == rank).all() for name, each in weights(net).items() if name.endswith("weight"))
    assert before.keys() == weights(net).keys()


def test_parameters_that_only_the_root_has_loaded_are_broadcast_at_once(tmp_path: Path, rank: int) -> None:
    net = network(seed=rank, deferred=True)
    if rank == 0:
        network(seed=7).save_parameters(str(tmp_path / "model"))
        net.load_parameters(str(tmp_path / "model"))
    hvd.broadcast_parameters(net.collect_params())
    assert_close(weights(net), weights(network(seed=7)), rtol=0)


def test_training_starts_with_parameters_that_have_no_shape_yet(rank: int, size: int) -> None:
    net = network(seed=rank, deferred=True)
    hvd.broadcast_parameters(net.collect_params())
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", dict(SGD))
    for _ in range(2):
        trainer.step(backward(net, share(rank, size)))
    all_weights = hvd.allgather_object(weights(net))
    for each in all_weights[1:]:
        assert_close(all_weights[0], each, rtol=0)


def train(net: Any, trainer: Any, rank: int, size: int, steps: int) -> None:
    for _ in range(steps):
        trainer.step(backward(net, share(rank, size)))


@pytest.mark.parametrize("wrapped", [False, True], ids=["trainer", "optimizer"])
def test_a_checkpoint_of_rank_0_is_resumed_on_all_ranks_by_broadcast(
    wrapped: bool, tmp_path: Path, rank: int, size: int
) -> None:
    """The checkpoint is on the disk of rank 0 alone; the others get it by broadcast."""

    def made(net: Any) -> Any:
        if not wrapped:
            return hvd.DistributedTrainer(net.collect_params(), "sgd", dict(SGD))
        optimizer = mx.optimizer.create("sgd", rescale_grad=size / 24, **SGD)
        return gluon.Trainer(net.collect_params(), hvd.DistributedOptimizer(optimizer), kvstore=None)

    net = network()
    trainer = made(net)
    train(net, trainer, rank, size, 2)
    if rank == 0:
        net.save_parameters(str(tmp_path / "model"))
        trainer.save_states(str(tmp_path / "states"))

    net = network(seed=50 + rank)  # a new job without the checkpoint
    trainer = made(net)
    if rank == 0:
        net.load_parameters(str(tmp_path / "model"))
    hvd.broadcast_parameters(net.collect_params())
    states = hvd.broadcast_object((tmp_path / "states").read_bytes() if rank == 0 else None)
    (tmp_path / "received").write_bytes(states)
    trainer.load_states(str(tmp_path / "received"))
    train(net, trainer, rank, size, 2)
    assert_close(weights(net), alone(4, "sgd", SGD), rtol=1e-3, atol=1e-5)


def through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("copied", [copy.deepcopy, through_pickle])
def test_a_copy_of_a_wrapped_optimizer_is_distributed_and_has_its_settings(
    copied: Callable[[Any], Any], rank: int, size: int
) -> None:
    optimizer = mx.optimizer.create("sgd", rescale_grad=size / 24, **SGD)
    wrapped = hvd.DistributedOptimizer(optimizer, 2.0, 3)
    again = copied(wrapped)
    assert isinstance(again, hvd.DistributedOptimizer) and again._optimizer is not optimizer
    assert again.lr == 0.5 and again.__reduce__()[1][1:] == (2.0, 3, None)
    net = network()
    train(net, gluon.Trainer(net.collect_params(), again, kvstore=None), rank, size, 2)
    assert_close(weights(net), alone(2, "sgd", SGD), rtol=1e-3, atol=1e-5)
    assert wrapped.num_update == 0


@several_ranks
def test_a_pickled_optimizer_finds_its_process_set_by_its_ranks() -> None:
    first = hvd.add_process_set([0])
    saved = pickle.dumps(hvd.DistributedOptimizer(mx.optimizer.create("sgd"), process_set=first))
    assert pickle.loads(saved).__reduce__()[1][3] == [0]
    hvd.remove_process_set(first)
    with pytest.raises(ValueError, match=r"ranks \[0\]"):
        pickle.loads(saved)


@several_ranks
def test_ranks_in_process_sets_of_one_member_train_alone(rank: int, size: int) -> None:
    own = [hvd.add_process_set([each]) for each in range(size)]
    net = network()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", dict(SGD), process_set=own[rank])
    trainer.step(backward(net, slice(None)))
    assert_close(weights(net), alone(1, "sgd", SGD), rtol=1e-4)
    for each in own:
        hvd.remove_process_set(each)


@several_ranks
def test_ranks_that_load_states_train_on_with_those_that_do_not(tmp_path: Path, rank: int, size: int) -> None:
    net = network()
    optimizer = mx.optimizer.create("sgd", rescale_grad=size / 24, **SGD)
    trainer = gluon.Trainer(net.collect_params(), hvd.DistributedOptimizer(optimizer), kvstore=None)
    train(net, trainer, rank, size, 2)
    if rank == 0:
        trainer.save_states(str(tmp_path / "states"))
        trainer.load_states(str(tmp_path / "states"))
    train(net, trainer, rank, size, 2)
    assert_close(weights(net), alone(4, "sgd", SGD), rtol=1e-3, atol=1e-5)
