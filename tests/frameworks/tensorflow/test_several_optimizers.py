"""Two optimizers in a script: those of a GAN, and those of one class that add up passes in a graph."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

STEPS, ROWS = 4, 6


def network(*widths):
    draw = np.random.default_rng(widths[0]).standard_normal
    return [tf.Variable(draw(pair).astype("f")) for pair in zip(widths, widths[1:])]


def forward(network, x):
    hidden, output = network
    return tf.tanh(x @ hidden) @ output


def loss(judged, sign):
    return tf.reduce_mean(tf.nn.softplus(-sign * judged))


@pytest.mark.parametrize("in_turn", [True, False])
def test_a_gan_trains_like_one_process(run, rank, size, in_turn):
    """The discriminator steps before the generator's pass, or both record their pass at the same time."""

    def trained(wrap, reals, noises):
        generator, discriminator = network(3, 5, 4), network(4, 5, 1)
        of_generator, of_discriminator = tf.keras.optimizers.Adam(0.02), tf.keras.optimizers.SGD(0.1, momentum=0.9)
        of_generator.build(generator)
        of_discriminator.build(discriminator)

        def apply(optimizer, tape, value, variables):
            optimizer.apply_gradients(zip(wrap(tape).gradient(value, variables), variables))

        @run
        @tf.autograph.experimental.do_not_convert
        def step(real, noise):
            with tf.GradientTape() as generators, tf.GradientTape() as discriminators:
                fake = forward(discriminator, forward(generator, noise))
                fooled, doubt = loss(fake, 1.0), loss(forward(discriminator, real), 1.0) + loss(fake, -1.0)
            apply(of_discriminator, discriminators, doubt, discriminator)
            if in_turn:
                with tf.GradientTape() as generators:
                    fooled = loss(forward(discriminator, forward(generator, noise)), 1.0)
            apply(of_generator, generators, fooled, generator)

        for real, noise in zip(reals, noises):
            step(tf.constant(real), tf.constant(noise))
        return [each.numpy() for each in generator + discriminator]

    draw = np.random.default_rng(1).standard_normal
    reals, noises = (draw((STEPS, size * ROWS, width)).astype("f") for width in (4, 3))
    own = slice(rank * ROWS, (rank + 1) * ROWS)
    found = trained(hvd.DistributedGradientTape, reals[:, own], noises[:, own])
    for a, b in zip(found, trained(lambda tape: tape, reals, noises)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_two_optimizers_of_one_class_have_sums_of_their_own_in_a_graph(rank, size):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [tf.Variable(0.0), tf.Variable(0.0)]
        slope = tf.compat.v1.placeholder(tf.float32, [])
        steps = []
        for factor, variable in zip((1.0, 10.0), variables):
            plain = tf.compat.v1.train.GradientDescentOptimizer(1.0)
            optimizer = hvd.DistributedOptimizer(plain, backward_passes_per_step=2)
            with tf.compat.v1.variable_scope("train"):
                steps.append(optimizer.minimize(factor * slope * variable, var_list=[variable]))
        session.run(tf.compat.v1.global_variables_initializer())
        for each in (1.0, 2.0):
            session.run(steps, {slope: each * (rank + 1)})
        mean = (size + 1) / 2
        np.testing.assert_allclose(session.run(variables), [-3.0 * mean, -30.0 * mean])
