"""TensorFlow 2: under Farandole or Horovod by a distributed tape in one graph, or as MultiWorkerMirroredStrategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.trainers import CLASSES, IMAGE, OPERATION_ELEMENTS, OPERATIONS, Trainer, Way


class TensorFlowTrainer(Trainer):
    """A step is one graph function."""

    def load(self) -> None:
        import os

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(self.way.threads)
        tf.config.threading.set_inter_op_parallelism_threads(self.way.threads)
        self.tf: Any = tf
        self.hvd: Any = None
        if self.way.name in ("farandole", "horovod", "joined"):
            import horovod.tensorflow as hvd

            self.hvd = hvd

    def join(self) -> None:
        tf = self.tf
        if self.hvd is not None:
            self.hvd.init()
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy() if self.way.name == "own" else None
        tf.random.set_seed(1)
        if self.strategy is None:
            self.model, self.optimizer = _network(tf, self.way.widths), _Sgd(tf)
        else:
            with self.strategy.scope():
                self.model, self.optimizer = _network(tf, self.way.widths), _Sgd(tf)
        images = tf.random.normal((self.way.batch, IMAGE, IMAGE, 3))
        labels = tf.random.uniform((self.way.batch,), maxval=CLASSES, dtype=tf.int32)
        if self.strategy is None:
            self.optimizer.build(self.model.trainable_variables)
            self.step = tf.function(lambda: self._step(images, labels))
            if self.way.name in ("farandole", "horovod"):
                self.hvd.broadcast_variables(self.model.variables, root_rank=0)
        else:
            with self.strategy.scope():
                self.optimizer.build(self.model.trainable_variables)
            of_replica = tf.function(lambda: self.strategy.run(self._step, (images, labels)))
            self.step = lambda: self.strategy.experimental_local_results(of_replica())[0]

    def _step(self, images: Any, labels: Any) -> Any:
        tf = self.tf
        with tf.GradientTape() as tape:
            logits = self.model(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        if self.way.name in ("farandole", "horovod"):
            tape = self.hvd.DistributedGradientTape(tape)
        variables = self.model.trainable_variables
        gradients = tape.gradient(loss, variables)
        if self.strategy is not None:
            context = tf.distribute.get_replica_context()
            gradients = context.all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
        self.optimizer.apply(gradients, variables)
        return loss

    def steps(self, count: int) -> float:
        loss = None
        for _ in range(count):
            loss = self.step()
        return 0.0 if loss is None else float(loss)

    def operations(self, kind: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
        tf, hvd = self.tf, self.hvd
        many = [tf.ones(OPERATION_ELEMENTS) for _ in range(OPERATIONS)]
        one = tf.ones(OPERATION_ELEMENTS * OPERATIONS)

        def all_of_them() -> Any:
            return [hvd.allreduce(each, name=f"{kind}.{index}", op=hvd.Max) for index, each in enumerate(many)]

        def at_once() -> Any:
            return hvd.allreduce(one, name=f"{kind}.one", op=hvd.Max)

        if kind == "eager":
            return all_of_them, at_once

        def in_one_graph() -> Any:
            with tf.control_dependencies(all_of_them()):
                return tf.zeros(())

        return tf.function(in_one_graph), tf.function(at_once)

    def leave(self) -> None:
        if self.hvd is not None:
            self.hvd.shutdown()


class _Sgd:
    """SGD with momentum, by hand: the same under every strategy and every version of Keras."""

    def __init__(self, tf: Any) -> None:
        self.tf = tf
        self.moments: list[Any] = []

    def build(self, variables: list[Any]) -> None:
        self.moments = [self.tf.Variable(self.tf.zeros(each.shape), trainable=False) for each in variables]

    def apply(self, gradients: list[Any], variables: list[Any]) -> None:
        for moment, gradient, variable in zip(self.moments, gradients, variables):
            moment.assign(0.9 * moment + gradient)
            variable.assign(variable - 0.01 * moment)


def _network(tf: Any, widths: tuple[int, ...]) -> Any:
    class Network(tf.Module):
        """Convolutions and normalisations of the batch, on plain variables."""

        def __init__(self) -> None:
            super().__init__()
            self.kernels: list[Any] = []
            self.scales: list[Any] = []
            before = self.add(3, 3, widths[0])
            for width in widths:
                self.add(3, before, width)
                self.add(3, width, width)
                self.add(1, before, width)
                before = width
            self.head = tf.Variable(tf.random.normal((before, CLASSES), stddev=0.05))

        def add(self, size: int, before: int, after: int) -> int:
            deviation = (2.0 / (size * size * before)) ** 0.5
            self.kernels.append(tf.Variable(tf.random.normal((size, size, before, after), stddev=deviation)))
            self.scales.append((tf.Variable(tf.ones(after)), tf.Variable(tf.zeros(after))))
            return after

        def convolved(self, x: Any, number: int, stride: int = 1) -> Any:
            x = tf.nn.conv2d(x, self.kernels[number], stride, "SAME")
            scale, offset = self.scales[number]
            return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, is_training=True)[0]

        def __call__(self, x: Any, training: bool = True) -> Any:
            x = tf.nn.relu(self.convolved(x, 0))
            for stage in range(len(widths)):
                first, stride = 1 + 3 * stage, 2 if stage else 1
                body = tf.nn.relu(self.convolved(x, first, stride))
                x = tf.nn.relu(self.convolved(body, first + 1) + self.convolved(x, first + 2, stride))
            return tf.reduce_mean(x, (1, 2)) @ self.head

    return Network()


def made(way: Way) -> Trainer:
    """The trainer of this framework."""
    return TensorFlowTrainer(way)
