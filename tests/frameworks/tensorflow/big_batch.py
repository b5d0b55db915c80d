"""A network whose training on several ranks must give the gradients of one big batch."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

ROWS, WIDTH = 6, 4


def data(size: int):
    random = np.random.default_rng(3)
    return random.normal(size=(ROWS * size, WIDTH)).astype("f"), random.normal(size=(ROWS * size, 1)).astype("f")


def shard(arrays, rank: int):
    return [tf.constant(each[rank * ROWS : (rank + 1) * ROWS]) for each in arrays]


def weights():
    return [tf.Variable(tf.ones([WIDTH, 3])), tf.Variable(tf.zeros([3])), tf.Variable(tf.fill([3, 1], 0.5))]


def loss_of(variables, x, y):
    kernel, bias, output = variables
    return tf.reduce_mean(tf.square(tf.tanh(x @ kernel + bias) @ output - y))


def big_batch_gradients(size: int):
    variables = weights()
    with tf.GradientTape() as tape:
        loss = loss_of(variables, *(tf.constant(each) for each in data(size)))
    return [each.numpy() for each in tape.gradient(loss, variables)]
