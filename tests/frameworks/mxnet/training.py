"""A small network on random data, which one process trains on all rows, and ranks train on their shares."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import mxnet as mx
import numpy
from mxnet import autograd, gluon, nd

ROWS, INPUTS, CLASSES = 24, 10, 4


def network(seed: int = 0, hybrid: bool = True, deferred: bool = False) -> Any:
    """Two layers, the same on every rank for the same seed."""
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(gluon.nn.Dense(16, activation="tanh", in_units=0 if deferred else INPUTS))
        net.add(gluon.nn.Dense(CLASSES, in_units=0 if deferred else 16))
    mx.random.seed(seed)
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize()
    return net


def numbers() -> Tuple[Any, Any]:
    """The inputs and labels of all ranks."""
    dice = numpy.random.RandomState(11)
    return dice.rand(ROWS, INPUTS).astype("float32"), dice.randint(0, CLASSES, ROWS).astype("float32")


def backward(net: Any, part: slice, dtype: str = "float32") -> int:
    """Computes the gradients of these rows; returns the number of rows."""
    inputs, labels = (each[part] for each in numbers())
    with autograd.record():
        loss = gluon.loss.SoftmaxCrossEntropyLoss()(net(nd.array(inputs, dtype=dtype)), nd.array(labels))
    loss.backward()
    return len(labels)


def share(rank: int, size: int) -> slice:
    return slice(rank * ROWS // size, (rank + 1) * ROWS // size)


def weights(net: Any) -> Dict[str, Any]:
    return {name: each.data().asnumpy() for name, each in net.collect_params().items()}


def alone(steps: int, optimizer: str, options: Dict[str, Any], seed: int = 0) -> Dict[str, Any]:
    """The weights after the given number of steps on all rows in one process."""
    net = network(seed)
    trainer = gluon.Trainer(net.collect_params(), optimizer, dict(options), kvstore=None)
    for _ in range(steps):
        trainer.step(backward(net, slice(None)))
    return weights(net)


def assert_close(one: Dict[str, Any], other: Dict[str, Any], rtol: float = 1e-4, atol: float = 1e-6) -> None:
    assert one.keys() == other.keys()
    for name, each in one.items():
        numpy.testing.assert_allclose(each, other[name], rtol=rtol, atol=atol, err_msg=name)
