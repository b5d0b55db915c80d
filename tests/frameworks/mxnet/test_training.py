"""Ranks that train on their shares reach the same weights as one process on all of the data."""

from __future__ import annotations

from typing import Any, Dict

import farandole.mxnet as hvd
import mxnet as mx
import numpy
import pytest
from mxnet import gluon, nd
from mxnet.base import MXNetError
from training import CLASSES, INPUTS, ROWS, alone, assert_close, backward, network, numbers, share, weights

several_ranks = pytest.mark.skipif("os.environ.get('HOROVOD_SIZE', '1') == '1'", reason="needs two ranks")

STEPS = 4
SGD = {"learning_rate": 0.5, "momentum": 0.9, "wd": 0.01}


def trained(trainer: Any, net: Any, rank: int, size: int) -> Dict[str, Any]:
    for _ in range(STEPS):
        trainer.step(backward(net, share(rank, size)))
    return weights(net)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_groups": 1},
        {"num_groups": 3},
        {"gradient_predivide_factor": 2.0},
        {"prefix": "first."},
        {"compression": hvd.Compression.none},
    ],
    ids=str,
)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_distributed_trainer_trains_like_one_process(
    optimizer: str, options: Dict[str, Any], rank: int, size: int
) -> None:
    settings = SGD if optimizer == "sgd" else {"learning_rate": 0.05}
    net = network(seed=rank)  # the weights differ between ranks until rank 0's are broadcast
    hvd.broadcast_parameters(net.collect_params())
    trainer = hvd.DistributedTrainer(net.collect_params(), optimizer, dict(settings), **options)
    assert_close(trained(trainer, net, rank, size), alone(STEPS, optimizer, settings), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("compression", [hvd.Compression.fp16, hvd.Compression.bf16])
@pytest.mark.parametrize("num_groups", [0, 2])
def test_training_with_compressed_gradients_stays_close_to_one_process(
    compression: Any, num_groups: int, rank: int, size: int
) -> None:
    net = network()
    trainer = hvd.DistributedTrainer(
        net.collect_params(), "sgd", {"learning_rate": 0.1}, compression=compression, num_groups=num_groups
    )
    reached = trained(trainer, net, rank, size)
    assert_close(reached, alone(STEPS, "sgd", {"learning_rate": 0.1}), rtol=0.01, atol=2e-3)
    assert all(each.grad().dtype == numpy.float32 for each in net.collect_params().values())
    if size > 1:
        all_weights = hvd.allgather_object(reached)
        assert_close(all_weights[0], all_weights[1], rtol=0, atol=0)


def test_a_trainer_with_a_custom_compressor_trains_like_one_process(rank: int, size: int) -> None:
    class Halved(hvd.compression.Compressor):
        @staticmethod
        def compress(tensor: Any) -> Any:
            return tensor / 2, 2

        @staticmethod
        def decompress(tensor: Any, ctx: Any) -> Any:
            return tensor * ctx

    net = network()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", dict(SGD), compression=Halved)
    assert_close(trained(trainer, net, rank, size), alone(STEPS, "sgd", SGD), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("options", [{}, {"num_groups": 2}, {"gradient_predivide_factor": 4.0}], ids=str)
def test_a_wrapped_optimizer_in_gluons_trainer_trains_like_one_process(
    options: Dict[str, Any], rank: int, size: int
) -> None:
    """As in the manual, the user sets rescale_grad, and the argument of step() has no effect."""
    net = network()
    rows = ROWS // size
    optimizer = mx.optimizer.create("sgd", rescale_grad=1.0 / rows, **SGD)
    trainer = gluon.Trainer(net.collect_params(), hvd.DistributedOptimizer(optimizer, **options), kvstore=None)
    assert_close(trained(trainer, net, rank, size), alone(STEPS, "sgd", SGD), rtol=1e-3, atol=1e-5)
    assert optimizer.rescale_grad == 1.0 / rows


def test_a_distributed_trainer_unwraps_a_wrapped_optimizer(rank: int, size: int) -> None:
    net = network()
    optimizer = mx.optimizer.create("sgd", **SGD)
    with pytest.warns(UserWarning, match="averages gradients itself"):
        trainer = hvd.DistributedTrainer(net.collect_params(), hvd.DistributedOptimizer(optimizer))
    assert trainer.optimizer is optimizer
    assert_close(trained(trainer, net, rank, size), alone(STEPS, "sgd", SGD), rtol=1e-3, atol=1e-5)


def test_the_parameters_of_a_list_are_numbered_by_their_names(rank: int, size: int) -> None:
    net = network()
    params = list(net.collect_params().values())
    trainer = hvd.DistributedTrainer(params[::-1] if rank else params, "sgd", dict(SGD))
    assert_close(trained(trainer, net, rank, size), alone(STEPS, "sgd", SGD), rtol=1e-3, atol=1e-5)


def test_a_wrapper_forwards_settings_to_the_wrapped_optimizer(rank: int, size: int) -> None:
    optimizer = mx.optimizer.create("sgd", **SGD)
    wrapper = hvd.DistributedOptimizer(optimizer)
    assert (wrapper.learning_rate, wrapper.momentum, wrapper.wd) == (0.5, 0.9, 0.01)
    wrapper.set_learning_rate(0.25)
    wrapper.set_wd_mult({"bias": 0.0})
    wrapper.set_lr_mult({"weight": 2.0})
    wrapper.clip_gradient = 3.0
    assert (optimizer.lr, optimizer.wd_mult, optimizer.lr_mult) == (0.25, {"bias": 0.0}, {"weight": 2.0})
    assert optimizer.clip_gradient == 3.0
    with pytest.raises(AttributeError):
        wrapper.nonsense  # noqa: B018
    net = network()
    next(iter(net.collect_params().values())).lr_mult = 0.0
    before = weights(net)
    trainer = gluon.Trainer(net.collect_params(), wrapper, kvstore=None)
    trainer.step(backward(net, share(rank, size)))
    changed = [not numpy.array_equal(each, before[name]) for name, each in weights(net).items()]
    assert changed == [False, True, True, True]


@pytest.mark.parametrize("kind", ["prefixes", "trainers", "optimizers"])
def test_two_trainers_do_not_mix_their_gradients(kind: str, rank: int, size: int) -> None:
    def made(index: int, net: Any) -> Any:
        if kind == "optimizers":
            optimizer = mx.optimizer.create("sgd", rescale_grad=size / ROWS, **SGD)
            return gluon.Trainer(net.collect_params(), hvd.DistributedOptimizer(optimizer), kvstore=None)
        prefix = f"{index}." if kind == "prefixes" else None
        return hvd.DistributedTrainer(net.collect_params(), "sgd", dict(SGD), prefix=prefix)

    nets = [network(seed) for seed in (0, 1)]
    trainers = [made(index, net) for index, net in enumerate(nets)]
    for _ in range(STEPS):
        rows = [backward(net, share(rank, size)) for net in nets]
        order = -1 if kind == "prefixes" and rank else 1
        for trainer, count in list(zip(trainers, rows))[::order]:  # in flight together; with prefixes, in any order
            trainer.step(count)
    for seed, net in enumerate(nets):
        assert_close(weights(net), alone(STEPS, "sgd", SGD, seed), rtol=1e-3, atol=1e-5)


@several_ranks
def test_the_trainers_of_a_new_job_are_numbered_anew(rank: int, size: int) -> None:
    """As in an elastic job, rank 0 goes on with the second trainer of the job before, and other ranks are new."""

    def made(net: Any) -> Any:
        return hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.5})

    nets = [network(), network()]
    trainers = [made(net) for net in nets]
    for net, trainer in zip(nets, trainers):
        trainer.step(backward(net, share(rank, size)))
    hvd.barrier()
    hvd.shutdown()
    hvd.init(process_sets="dynamic")
    trainer = trainers[1] if rank == 0 else made(nets[1])
    trainer.step(backward(nets[1], share(rank, size)))
    assert_close(weights(nets[1]), alone(2, "sgd", {"learning_rate": 0.5}), rtol=1e-3, atol=1e-5)


@several_ranks
def test_a_trainer_of_a_process_set_trains_on_its_members_only(rank: int, size: int) -> None:
    own = [hvd.add_process_set([each]) for each in range(size)]
    net = network()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", dict(SGD), process_set=own[0])
    reached = hvd.allgather_object(trained(trainer, net, rank, size))
    assert any(not numpy.array_equal(each, reached[1][name]) for name, each in reached[0].items())
    for each in own:
        hvd.remove_process_set(each)


def test_gradients_can_be_clipped_between_reduction_and_update(rank: int, size: int) -> None:
    net, other = network(), network()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    one = gluon.Trainer(other.collect_params(), "sgd", {"learning_rate": 0.5}, kvstore=None)
    for _ in range(STEPS):
        backward(net, share(rank, size))
        trainer.allreduce_grads()
        # Sums of each rank's rows, averaged: the whole batch has `size` times as many.
        gluon.utils.clip_global_norm([each.grad() for each in net.collect_params().values()], 1.0)
        trainer.update(1)
        backward(other, slice(None))
        for each in other.collect_params().values():
            each.grad()[:] /= size
        gluon.utils.clip_global_norm([each.grad() for each in other.collect_params().values()], 1.0)
        one.update(1)
    assert_close(weights(net), weights(other), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("is_numpy", [False, True])
@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_parameter_that_only_some_ranks_use_is_updated_on_all(
    is_wrapped: bool, is_split: bool, is_numpy: bool, rank: int, size: int
) -> None:
    """One rank after the other uses the first parameter, and none the last. Old gradients are not added again."""
    with mx.util.np_shape(is_numpy), mx.util.np_array(is_numpy):
        _update_what_some_ranks_use(is_wrapped, is_split, rank, size)


def _update_what_some_ranks_use(is_wrapped: bool, is_split: bool, rank: int, size: int) -> None:
    params = [gluon.Parameter(name, shape=(1,), init="ones") for name in ("changing", "used", "unused")]
    for each in params:
        each.initialize()
    trainer: Any = hvd.DistributedTrainer(params, "sgd", {"learning_rate": 0.5})
    if is_wrapped:
        trainer = gluon.Trainer(params, hvd.DistributedOptimizer(mx.optimizer.SGD(learning_rate=0.5)))
    for step in range(2):
        with mx.autograd.record():
            loss = params[1].data() + (2 * params[0].data() if rank == step % size else 0)
        loss.backward()
        if is_split:
            trainer.allreduce_grads()
            trainer.update(1, ignore_stale_grad=True)
        else:
            trainer.step(1, ignore_stale_grad=True)
    assert [each.data().asnumpy().item() for each in params] == pytest.approx([1 - 2 / size, 0, 1])


def test_a_rank_that_has_not_used_a_parameter_is_told_the_remedy(rank: int) -> None:
    param = gluon.Parameter("weight", shape=(1,), init="ones")
    param.initialize()
    trainer = hvd.DistributedTrainer([param], "sgd")
    if rank == 0:
        with mx.autograd.record():
            loss = param.data() * 2
        loss.backward()
        trainer.step(1)
    else:
        with pytest.raises(UserWarning, match="ignore_stale_grad=True"):
            trainer.step(1)


def test_a_parameter_that_other_ranks_use_is_stale_after_a_skipped_update(rank: int, size: int) -> None:
    class Overflows:
        def has_overflow(self, params: Any) -> bool:
            return True

    param = gluon.Parameter("weight", shape=(1,), init="ones")
    param.initialize()
    trainer = hvd.DistributedTrainer([param], "sgd")
    trainer._amp_loss_scaler = Overflows()
    if rank == 0:
        with mx.autograd.record():
            loss = param.data() * 2
        loss.backward()
    trainer.step(1, ignore_stale_grad=True)
    assert param.data()._fresh_grad == (rank == 0)


class Fails(mx.optimizer.SGD):
    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        raise ArithmeticError("the update fails")


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_parameter_that_other_ranks_use_is_stale_after_a_failed_update(is_wrapped: bool, rank: int) -> None:
    param = gluon.Parameter("weight", shape=(1,), init="ones")
    param.initialize()
    if is_wrapped:
        trainer: Any = gluon.Trainer([param], hvd.DistributedOptimizer(Fails()))
    else:
        trainer = hvd.DistributedTrainer([param], Fails())
    if rank == 0:
        with mx.autograd.record():
            loss = param.data() * 2
        loss.backward()
    with pytest.raises(ArithmeticError):
        trainer.step(1, ignore_stale_grad=True)
    assert rank == 0 or not param.data()._fresh_grad


@pytest.mark.parametrize("compression", [hvd.Compression.fp16, hvd.Compression.bf16])
@pytest.mark.parametrize("module", [mx.nd, mx.np])
def test_compressed_arrays_stay_of_their_kind(module: Any, compression: Any) -> None:
    array = module.array([1.5, -2], dtype="float32")
    sent, context = compression.compress(array)
    restored = compression.decompress(sent, context)
    assert numpy.dtype(sent.dtype).itemsize == 2
    assert type(sent) is type(restored) is type(array)
    assert restored.asnumpy().tolist() == [1.5, -2]


class Halves(gluon.nn.HybridBlock):
    """A float16 layer of operators that MXNet has on CPUs, where matrix products need float32."""

    def __init__(self) -> None:
        super().__init__(prefix="halves_")
        self.weight = self.params.get("weight", shape=(1, INPUTS, CLASSES), dtype="float16")

    def hybrid_forward(self, F: Any, x: Any, weight: Any) -> Any:
        return F.sum(F.broadcast_mul(x.expand_dims(2), weight), axis=1)


def test_float16_weights_are_updated_by_a_float32_master_copy(rank: int, size: int) -> None:
    """With multi_precision, weights and gradients are float16, and updates are computed in float32."""
    options = {"learning_rate": 0.1, "momentum": 0.9, "multi_precision": True}

    def made(seed: int) -> Any:
        net = Halves()
        mx.random.seed(seed)
        net.initialize(mx.init.Uniform(0.5))
        return net

    net, one = made(rank), made(0)
    hvd.broadcast_parameters(net.collect_params())
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", options)
    alone = gluon.Trainer(one.collect_params(), "sgd", dict(options), kvstore=None)
    for _ in range(STEPS):
        trainer.step(backward(net, share(rank, size), dtype="float16"))
        alone.step(backward(one, slice(None), dtype="float16"))
    reached = weights(net)["halves_weight"]
    assert reached.dtype == numpy.float16
    ((_, master),) = trainer._updaters[0].states.values()
    assert master.dtype == numpy.float32
    numpy.testing.assert_array_equal(reached, master.asnumpy().astype("float16"))
    numpy.testing.assert_allclose(reached, weights(one)["halves_weight"], rtol=0.01, atol=2e-3)


def test_a_symbolic_module_trains_like_one_process(rank: int, size: int) -> None:
    """The symbolic interface: Module.fit() with a wrapped optimizer and no kvstore."""

    def fitted(batch: int, part: slice, wrap: bool) -> Dict[str, Any]:
        hidden = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=16, name="fc1")
        logits = mx.sym.FullyConnected(mx.sym.Activation(hidden, act_type="tanh"), num_hidden=CLASSES, name="fc2")
        module = mx.mod.Module(mx.sym.SoftmaxOutput(logits, name="softmax"), context=mx.cpu())
        inputs, labels = (each[part] for each in numbers())
        rows = mx.io.NDArrayIter(inputs, labels, batch_size=batch)
        module.bind(data_shapes=rows.provide_data, label_shapes=rows.provide_label)
        dice = numpy.random.RandomState(3 + rank if wrap else 3)
        shapes = {"fc1_weight": (16, INPUTS), "fc1_bias": (16,), "fc2_weight": (CLASSES, 16), "fc2_bias": (CLASSES,)}
        start = {name: nd.array(dice.rand(*shape) - 0.5) for name, shape in shapes.items()}
        if wrap:
            hvd.broadcast_parameters(start)
        optimizer = mx.optimizer.create("sgd", learning_rate=0.5, rescale_grad=1.0 / batch)
        if wrap:
            optimizer = hvd.DistributedOptimizer(optimizer)
        module.fit(rows, kvstore=None, optimizer=optimizer, arg_params=start, num_epoch=STEPS)
        return {name: each.asnumpy() for name, each in module.get_params()[0].items()}

    assert_close(fitted(ROWS // size, share(rank, size), True), fitted(ROWS, slice(None), False), rtol=1e-3, atol=1e-5)


def test_sparse_gradients_are_refused_with_a_hint() -> None:
    class Embeds(gluon.nn.HybridBlock):
        def __init__(self) -> None:
            super().__init__(prefix="embeds_")
            self.table = gluon.nn.Embedding(6, 2, sparse_grad=True)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.table(x)

    net = Embeds()
    net.initialize()
    trainer = hvd.DistributedTrainer(net.collect_params(), "sgd")
    with mx.autograd.record():
        total = net(nd.array([1, 2])).sum()
    total.backward()
    if hvd.size() > 1:
        with pytest.raises(MXNetError, match="sparse_grad=False"):
            trainer.step(1)


def test_invalid_arguments_are_refused() -> None:
    net = network()
    with pytest.raises(ValueError, match="gradient_predivide_factor"):
        hvd.DistributedTrainer(net.collect_params(), "sgd", gradient_predivide_factor=0.0)
    with pytest.raises(ValueError, match="groups"):
        hvd.DistributedOptimizer(mx.optimizer.create("sgd"), num_groups=-1)
