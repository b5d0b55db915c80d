"""Whole jobs: the examples, the manual's scripts and recipes, a stall, and a member that is lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from elastic_jobs import losing_a_worker
from launched import DEADLINE_S, Job, clean_environment, needs_launcher, run_script, write_script

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"

pytestmark = needs_launcher

# The manual's script for TensorFlow 2, with a real model and data; docs/guides/tensorflow.md lists the changes.
MANUAL = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
import horovod.tensorflow as hvd

# Initialize Horovod
hvd.init()

# Pin GPU to be used to process local rank (one GPU per process)
gpus = tf.config.experimental.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], 'GPU')

# Build model and dataset
tf.keras.utils.set_random_seed(1)
images = tf.random.stateless_uniform([512, 6], seed=[1, hvd.rank()])
dataset = tf.data.Dataset.from_tensor_slices((images, tf.cast(images[:, 0] * 3, tf.int64))).repeat().batch(32)
mnist_model = model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(3)])
loss = tf.losses.SparseCategoricalCrossentropy(from_logits=True)
opt = tf.optimizers.Adam(0.01 * hvd.size())

checkpoint_dir = os.path.join(FOLDER, 'checkpoints')
checkpoint = tf.train.Checkpoint(model=model, optimizer=opt)

@tf.function
def training_step(images, labels, first_batch):
    with tf.GradientTape() as tape:
        probs = mnist_model(images, training=True)
        loss_value = loss(labels, probs)

    # Horovod: add Horovod Distributed GradientTape.
    tape = hvd.DistributedGradientTape(tape)

    grads = tape.gradient(loss_value, mnist_model.trainable_variables)
    opt.apply_gradients(zip(grads, mnist_model.trainable_variables))

    # Note: broadcast should be done after the first gradient step to ensure optimizer
    # initialization.
    if first_batch:
        hvd.broadcast_variables(mnist_model.variables, root_rank=0)
        hvd.broadcast_variables(opt.variables, root_rank=0)

    return loss_value

# Horovod: adjust number of steps based on number of GPUs.
for batch, (images, labels) in enumerate(dataset.take(60 // hvd.size())):
    loss_value = training_step(images, labels, batch == 0)

    if batch % 10 == 0 and hvd.local_rank() == 0:
        print('Step #%d\\tLoss: %.6f' % (batch, loss_value))

# Horovod: save checkpoints only on worker 0 to prevent other workers from
# corrupting it.
if hvd.rank() == 0:
    checkpoint.save(checkpoint_dir)

# ---- the rest is added by the test
import numpy as np
weights = [each.numpy() for each in mnist_model.weights]
for other in hvd.allgather_object(weights):
    assert all(np.array_equal(one, two) for one, two in zip(weights, other))
print("TRAINED alike", flush=True)

# Resume: rank 0 reads the checkpoint, the others receive it.
for each in mnist_model.weights:
    each.assign(tf.zeros_like(each))
if hvd.rank() == 0:
    checkpoint.restore(tf.train.latest_checkpoint(FOLDER)).assert_existing_objects_matched()
hvd.broadcast_variables(mnist_model.weights, root_rank=0)
assert all(np.array_equal(each.numpy(), before) for each, before in zip(mnist_model.weights, weights))
print("RESUMED alike", flush=True)

# Inference: the exported model holds the forward pass, and none of Farandole's operations.
if hvd.rank() == 0:
    class Predictor(tf.Module):
        def __init__(self, model):
            self.variables_ = list(model.weights)
            self.model_ = model
        @tf.function(input_signature=[tf.TensorSpec([None, 6])])
        def __call__(self, x):
            w1, b1, w2, b2 = [tf.convert_to_tensor(each) for each in self.variables_]
            return tf.nn.relu(x @ w1 + b1) @ w2 + b2
    predictor = Predictor(mnist_model)
    tf.saved_model.save(predictor, os.path.join(FOLDER, "exported"))
    np.save(os.path.join(FOLDER, "expected.npy"), mnist_model(tf.ones([2, 6])).numpy())
"""

INFERENCE = """
import sys
import numpy as np, tensorflow as tf
assert "horovod" not in sys.modules and "farandole.common" not in sys.modules
loaded = tf.saved_model.load(FOLDER + "/exported")
np.testing.assert_allclose(loaded(tf.ones([2, 6])).numpy(), np.load(FOLDER + "/expected.npy"), rtol=1e-4)
kinds = {node.type for each in loaded.__call__.concrete_functions for node in each.graph.get_operations()}
assert not any(kind.startswith("Horovod") for kind in kinds), kinds
"""


@pytest.mark.slow
def test_the_manuals_script_trains_resumes_and_exports(tmp_path):
    """XLA compiles the rest of each step and leaves collectives outside, without any setting for that."""
    folder = f"FOLDER = {str(tmp_path)!r}\n"
    compiled = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    result = run_script(2, tmp_path, folder + MANUAL, TF_XLA_FLAGS=compiled)
    assert result.returncode == 0, result.stdout
    assert result.stdout.count("TRAINED alike") == result.stdout.count("RESUMED alike") == 2, result.stdout
    losses = [float(each) for each in re.findall(r"Loss: ([0-9.]+)", result.stdout)]
    assert len(losses) == 3 and losses[-1] < losses[0], losses
    subprocess.run([sys.executable, "-c", folder + INFERENCE], check=True, env=clean_environment(), timeout=DEADLINE_S)


@pytest.mark.slow
def test_the_mnist_example_reaches_60_percent_accuracy(tmp_path):
    job = Job(["-np", "2", sys.executable, str(EXAMPLES / "tensorflow_mnist.py"), "--steps", "200"])
    assert job.end() == 0, job.text
    found = re.search(r"accuracy on the held-out images: ([0-9.]+)", job.text)
    assert found is not None and float(found.group(1)) > 0.6, job.text


@pytest.mark.slow
def test_the_elastic_example_continues_after_a_worker_is_lost(tmp_path):
    example = EXAMPLES / "tensorflow_mnist_elastic.py"
    script = write_script(tmp_path, losing_a_worker(example, "--steps 60 --batches-per-commit 5", commits=2))
    job = Job(["-np", "2", "--min-np", "1", "-H", "localhost:2", sys.executable, script])
    assert job.end() == 0, job.text
    # One worker makes 60 steps, or each of two makes 30; the worker that is left makes all.
    found = re.search(r"1 workers at the end, step 60, accuracy on the held-out images: ([0-9.]+)", job.text)
    assert found is not None and float(found.group(1)) > 0.5, job.text


@pytest.mark.slow
def test_the_synthetic_benchmark_accepts_horovods_options():
    script = str(EXAMPLES / "tensorflow_synthetic_benchmark.py")
    options = ["--model", "small", "--batch-size", "2", "--num-warmup-batches", "1", "--num-batches-per-iter", "1"]
    job = Job(["-np", "2", sys.executable, script, *options, "--num-iters", "2", "--fp16-allreduce"])
    assert job.end() == 0, job.text
    assert len(re.findall(r"Iter #\d: [0-9.]+ img/sec", job.text)) == 2
    assert re.search(r"Total img/sec on 2 CPU\(s\): [0-9.]+ \+-", job.text), job.text


SLICES = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf, horovod.tensorflow as hvd
hvd.init()
dense, table = tf.Variable([1.0], name="dense"), tf.Variable(tf.ones([4, 2]), name="unused_on_1")

@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(dense * 2.0)
        if hvd.rank() == 0:
            loss += tf.reduce_sum(tf.gather(table, [1]))
    return hvd.DistributedGradientTape(tape).gradient(loss, [dense, table])

step()
"""


@pytest.mark.slow
def test_slices_that_only_one_rank_has_in_a_function_end_the_job_with_a_remedy(tmp_path):
    job = Job(["-np", "2", sys.executable, write_script(tmp_path, SLICES)])
    assert job.end() != 0
    assert re.search(r"\[1\].*unused_on_1.*pass sparse_as_dense=True", job.text), job.text


# The manual's elastic script, with a model, data, and a member that is lost during training.
ELASTIC = """
import os, signal
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()

gpus = tf.config.experimental.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], 'GPU')

slot = int(os.environ["HOROVOD_RANK"])
lr, epochs, batches_per_epoch, batches_per_commit = 0.001, 2, 60, 10
layers = tf.keras.layers
model = tf.keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(3, activation="softmax")])
optimizer = tf.optimizers.Adam(lr * hvd.size())
random = tf.random.Generator.from_seed(slot)

def get_random_batch():
    data = random.normal([16, 4])
    return data, tf.one_hot(tf.cast(data[:, 0] > 0, tf.int32), 3)

@tf.function
def train_one_batch(data, target, allreduce=True):
    with tf.GradientTape() as tape:
        probs = model(data, training=True)
        loss = tf.losses.categorical_crossentropy(target, probs)

    if allreduce:
        tape = hvd.DistributedGradientTape(tape)

    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

# Initialize model and optimizer state so we can synchronize across workers
data, target = get_random_batch()
train_one_batch(data, target, allreduce=False)

@hvd.elastic.run
def train(state):
    print(f"BEGIN slot {slot} of {hvd.size()} batch {state.batch} of {state.epoch}", flush=True)
    for state.epoch in range(state.epoch, epochs):
        for state.batch in range(state.batch, batches_per_epoch):
            data, target = get_random_batch()
            if slot == 1 and state.batch == 35:
                os.kill(os.getpid(), signal.SIGKILL)
            train_one_batch(data, target)
            if state.batch % batches_per_commit == 0:
                state.commit()
        state.batch = 0

rates = []
def on_state_reset():
    optimizer.learning_rate.assign(lr * hvd.size())
    rates.append(round(float(optimizer.learning_rate.numpy()), 6))

state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0, epoch=0)
state.register_reset_callbacks([on_state_reset])
train(state)
print(f"DONE slot {slot} rates {rates} steps {int(optimizer.iterations.numpy())}", flush=True)
"""


@pytest.mark.slow
def test_the_manuals_elastic_script_continues_after_a_member_is_lost(tmp_path):
    script = write_script(tmp_path, ELASTIC)
    job = Job(["-np", "2", "--min-np", "1", "-H", "localhost:2", sys.executable, script])
    assert job.end() == 0, job.text
    assert re.findall(r"BEGIN slot 0 of 1 batch (\d+) of 0", job.text) == ["30"], job.text
    # The manual's loop repeats the batch that was committed: 1 + 120 + 1 steps.
    assert "DONE slot 0 rates [0.001] steps 122" in job.text, job.text
