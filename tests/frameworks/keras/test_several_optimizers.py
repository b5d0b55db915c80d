"""A GAN in a ``train_step`` of its own: its two optimizers train like those of one process on the whole batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import ROWS, fit, furthest, share


def adversaries(keras: Any, of_generator: Any, of_discriminator: Any) -> Any:
    import tensorflow as tf

    def loss(judged: Any, wanted: float) -> Any:
        return tf.reduce_mean(tf.nn.softplus(-wanted * judged))

    class Adversaries(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            layers = keras.layers
            self.generator = keras.Sequential([keras.Input((3,)), layers.Dense(5, activation="tanh"), layers.Dense(4)])
            self.discriminator = keras.Sequential(
                [keras.Input((4,)), layers.Dense(5, activation="tanh"), layers.Dense(1)]
            )
            self.of_generator, self.of_discriminator = of_generator, of_discriminator

        def train_step(self, data: Any) -> Any:
            real, noise = data
            with tf.GradientTape() as tape:
                fake = self.generator(noise, training=True)
                doubt = loss(self.discriminator(real), 1.0) + loss(self.discriminator(fake), -1.0)
            variables = self.discriminator.trainable_variables
            self.of_discriminator.apply_gradients(zip(tape.gradient(doubt, variables), variables))
            with tf.GradientTape() as tape:
                fooled = loss(self.discriminator(self.generator(noise, training=True)), 1.0)
            variables = self.generator.trainable_variables
            self.of_generator.apply_gradients(zip(tape.gradient(fooled, variables), variables))
            return {"doubt": doubt, "fooled": fooled}

    keras.utils.set_random_seed(1)
    model = Adversaries()
    model.compile()
    return model


def test_a_gan_trains_like_one_process(hvd: Any, keras: Any, backend: str, rank: int, size: int) -> None:
    if backend != "tensorflow":
        pytest.skip("a train_step of TensorFlow")
    draw = np.random.default_rng(0).standard_normal
    real, noise = (draw((4 * size * ROWS, width)).astype("float32") for width in (4, 3))
    kinds = keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.1, momentum=0.9)
    model = adversaries(keras, *map(hvd.DistributedOptimizer, kinds))
    fit(model, share(real, rank, size), share(noise, rank, size), ROWS)
    one = adversaries(keras, keras.optimizers.Adam(0.02), keras.optimizers.SGD(0.1, momentum=0.9))
    fit(one, real, noise, ROWS * size)
    for part in ("generator", "discriminator"):
        assert furthest(getattr(model, part), getattr(one, part)) < 1e-5
