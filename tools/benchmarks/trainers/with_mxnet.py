"""MXNet: Gluon under Farandole or Horovod, or one process."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from benchmarks.trainers import CLASSES, IMAGE, OPERATION_ELEMENTS, OPERATIONS, Trainer, Way


class MxnetTrainer(Trainer):
    """A hybridised network, and steps of its trainer."""

    def load(self) -> None:
        os.environ["OMP_NUM_THREADS"] = str(self.way.threads)
        import mxnet as mx

        self.mx: Any = mx
        self.hvd: Any = None
        if self.way.name in ("farandole", "horovod", "joined"):
            import horovod.mxnet as hvd

            self.hvd = hvd

    def join(self) -> None:
        mx = self.mx
        if self.hvd is not None:
            self.hvd.init()
        mx.random.seed(1)
        self.model = self.network()
        self.model.initialize(mx.init.Xavier(), ctx=mx.cpu())
        self.images = mx.nd.random.normal(shape=self.images_shape())
        self.labels = mx.nd.array([each % CLASSES for each in range(self.way.batch)])
        self.model(self.images)
        self.model.hybridize(static_alloc=True, static_shape=True)
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        parameters = self.model.collect_params()
        options = {"learning_rate": 0.01, "momentum": 0.9}
        if self.way.name in ("farandole", "horovod"):
            self.hvd.broadcast_parameters(parameters, root_rank=0)
            self.trainer = self.hvd.DistributedTrainer(parameters, "sgd", options)
        else:
            self.trainer = mx.gluon.Trainer(parameters, "sgd", options, kvstore=None)

    def network(self) -> Any:
        """The network, whose parameters are not initialised yet."""
        return _network(self.mx, self.way.widths)

    def images_shape(self) -> tuple[int, ...]:
        """The shape of a batch of images."""
        return (self.way.batch, 3, IMAGE, IMAGE)

    def after_step(self, loss: Any) -> None:
        """Does nothing: steps follow one another without waiting."""

    def steps(self, count: int) -> float:
        loss = None
        for _ in range(count):
            with self.mx.autograd.record():
                loss = self.loss(self.model(self.images), self.labels)
            loss.backward()
            self.trainer.step(self.way.batch)
            self.after_step(loss)
        self.mx.nd.waitall()
        return 0.0 if loss is None else float(loss.mean().asscalar())

    def operations(self, kind: str) -> tuple[Callable[[], None], Callable[[], None]]:
        mx, hvd = self.mx, self.hvd
        many = [mx.nd.ones(OPERATION_ELEMENTS) for _ in range(OPERATIONS)]
        one = mx.nd.ones(OPERATION_ELEMENTS * OPERATIONS)

        def in_flight() -> None:
            for index, tensor in enumerate(many):
                hvd.allreduce_(tensor, name=f"many.{index}", op=hvd.Max)
            mx.nd.waitall()

        def at_once() -> None:
            hvd.allreduce_(one, name="one", op=hvd.Max)
            one.wait_to_read()

        return in_flight, at_once

    def leave(self) -> None:
        if self.hvd is not None:
            self.hvd.shutdown()


def _network(mx: Any, widths: tuple[int, ...]) -> Any:
    nn = mx.gluon.nn

    class Block(mx.gluon.HybridBlock):
        def __init__(self, width: int, stride: int) -> None:
            super().__init__()
            self.body = nn.HybridSequential()
            self.body.add(nn.Conv2D(width, 3, stride, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
            self.body.add(nn.Conv2D(width, 3, 1, 1, use_bias=False), nn.BatchNorm())
            self.around = nn.Conv2D(width, 1, stride, use_bias=False)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.relu(self.body(x) + self.around(x))

    network = nn.HybridSequential()
    network.add(nn.Conv2D(widths[0], 3, 1, 1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    for stage, width in enumerate(widths):
        network.add(Block(width, 2 if stage else 1))
    network.add(nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(CLASSES))
    return network


def made(way: Way) -> Trainer:
    """The trainer of this framework."""
    return MxnetTrainer(way)
