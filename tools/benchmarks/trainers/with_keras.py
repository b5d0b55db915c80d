"""Keras on TensorFlow: ``fit()`` of a perceptron, under Farandole or in one process."""

from __future__ import annotations

import os
from typing import Any

from benchmarks.trainers import CLASSES, Trainer, Way


class KerasTrainer(Trainer):
    """A step is one batch of ``fit()``."""

    def load(self) -> None:
        os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(self.way.threads)
        tf.config.threading.set_inter_op_parallelism_threads(self.way.threads)
        import horovod.keras as hvd
        import keras

        self.tf, self.keras, self.hvd = tf, keras, hvd

    def join(self) -> None:
        keras = self.keras
        self.made: dict[int, Any] = {}
        self.hvd.init()
        keras.utils.set_random_seed(1)
        layers = [keras.layers.Input((784,)), keras.layers.Dense(128, activation="relu"), keras.layers.Dense(CLASSES)]
        self.model = keras.Sequential(layers)
        optimizer = keras.optimizers.SGD(0.01)
        if self.way.name == "farandole":
            optimizer = self.hvd.DistributedOptimizer(optimizer)
        self.model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))

    def batches(self, count: int) -> Any:
        """A data set of `count` batches, made once for each count."""
        if count in self.made:
            return self.made[count]
        rows = count * self.way.batch
        images = self.tf.random.stateless_uniform((rows, 784), seed=(1, self.hvd.rank()))
        data = self.tf.data.Dataset.from_tensor_slices((images, self.tf.range(rows) % CLASSES))
        # The thread of autotuning wakes after 10, 20, 40 … ms, and may delay fit() until then at the end of an epoch.
        options = self.tf.data.Options()
        options.autotune.enabled = False
        self.made[count] = data.batch(self.way.batch).cache().with_options(options)
        return self.made[count]

    def steps(self, count: int) -> float:
        history = self.model.fit(self.batches(count), epochs=1, shuffle=False, verbose=0)
        return float(history.history["loss"][-1])

    def leave(self) -> None:
        self.hvd.shutdown()


def made(way: Way) -> Trainer:
    return KerasTrainer(way)
