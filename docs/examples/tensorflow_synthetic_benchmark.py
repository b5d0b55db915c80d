"""Images per second of a training that reads no data, with the options of the manual's synthetic benchmarks.

horovodrun -np 2 python docs/examples/tensorflow_synthetic_benchmark.py --model ResNet50 --fp16-allreduce
"""

import argparse
import timeit

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser(
    description="TensorFlow Synthetic Benchmark", formatter_class=argparse.ArgumentDefaultsHelpFormatter
)
parser.add_argument("--fp16-allreduce", action="store_true", help="let gradients travel in half precision")
parser.add_argument("--model", default="ResNet50", help="a model of tf.keras.applications, or 'small'")
parser.add_argument("--batch-size", type=int, default=32, help="images per worker and step")
parser.add_argument("--num-warmup-batches", type=int, default=10, help="steps before anything is measured")
parser.add_argument("--num-batches-per-iter", type=int, default=10, help="steps per measurement")
parser.add_argument("--num-iters", type=int, default=10, help="measurements")
parser.add_argument("--no-cuda", action="store_true", help="leave GPUs alone")
args = parser.parse_args()

hvd.init()
gpus = [] if args.no_cuda else tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)] if gpus else [], "GPU")


def small_model():
    layers = tf.keras.layers
    return tf.keras.Sequential([layers.Conv2D(8, 7, 4), layers.GlobalAveragePooling2D(), layers.Dense(1000)])


model = small_model() if args.model == "small" else getattr(tf.keras.applications, args.model)(weights=None)
optimizer = tf.keras.optimizers.SGD(0.01)
images = tf.random.uniform([args.batch_size, 224, 224, 3])
labels = tf.random.uniform([args.batch_size], 0, 999, dtype=tf.int64)
from_logits = args.model == "small"
compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none


@tf.function
def step(is_first):
    with tf.GradientTape() as tape:
        answers = model(images, training=True)
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(labels, answers, from_logits=from_logits))
    tape = hvd.DistributedGradientTape(tape, compression=compression)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    if is_first:
        states = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(states, root_rank=0)


def log(text):
    if hvd.rank() == 0:
        print(text, flush=True)


device = "GPU" if gpus else "CPU"
log(f"Model: {args.model}\nBatch size: {args.batch_size}\nNumber of {device}s: {hvd.size()}")
log("Running warmup...")
step(True)
timeit.timeit(lambda: step(False), number=args.num_warmup_batches)
log("Running benchmark...")
speeds = []
for number in range(args.num_iters):
    seconds = timeit.timeit(lambda: step(False), number=args.num_batches_per_iter)
    speeds.append(args.batch_size * args.num_batches_per_iter / seconds)
    log(f"Iter #{number}: {speeds[-1]:.1f} img/sec per {device}")
mean, spread = np.mean(speeds), 1.96 * np.std(speeds)
log(f"Img/sec per {device}: {mean:.1f} +-{spread:.1f}")
log(f"Total img/sec on {hvd.size()} {device}(s): {hvd.size() * mean:.1f} +-{hvd.size() * spread:.1f}")
