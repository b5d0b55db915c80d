"""Graphs and sessions of TensorFlow 1, in separate jobs because they cannot share a process with eager execution."""

from __future__ import annotations

import re
import sys
import textwrap

import pytest
from launched import Job, needs_launcher, run_script, write_script

pytestmark = needs_launcher

PRELUDE = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow.compat.v1 as tf
import horovod.tensorflow as hvd
tf.disable_v2_behavior()
hvd.init()
r, n = hvd.rank(), hvd.size()
random = np.random.default_rng(3)
X, Y = random.normal(size=(4 * n, 3)).astype("f"), random.normal(size=(4 * n, 1)).astype("f")

def big_step(w, rate=0.5):
    return w - rate * 2.0 * X.T @ (X @ w - Y) / len(X)
"""

MODEL = """
x, y = tf.constant(X[4 * r : 4 * r + 4]), tf.constant(Y[4 * r : 4 * r + 4])
w = tf.get_variable("w", initializer=np.full([3, 1], 1.0 + r, "f"))
loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
"""

# The manual's script for TensorFlow 1, with a real model and an end.
MANUAL = """
import tensorflow as tf
import horovod.tensorflow as hvd
import numpy as np
import sys

# Initialize Horovod
hvd.init()
tf.compat.v1.disable_eager_execution()

# Pin GPU to be used to process local rank (one GPU per process)
config = tf.compat.v1.ConfigProto()
config.gpu_options.visible_device_list = str(hvd.local_rank())

# Build model...
pixels = tf.constant(np.random.default_rng(hvd.rank()).normal(size=[8, 4]).astype("f"))
weights = tf.compat.v1.get_variable("weights", initializer=tf.random.normal([4, 1], seed=hvd.rank()))
loss = tf.reduce_mean(tf.square(pixels @ weights - 1.0))
opt = tf.compat.v1.train.AdagradOptimizer(0.01 * hvd.size())

# Add Horovod Distributed Optimizer
opt = hvd.DistributedOptimizer(opt)

# Add hook to broadcast variables from rank 0 to all other processes during
# initialization.
hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.compat.v1.train.StopAtStepHook(last_step=20)]

# Make training operation
train_op = opt.minimize(loss, global_step=tf.compat.v1.train.get_or_create_global_step())

# Save checkpoints only on worker 0 to prevent other workers from corrupting them.
checkpoint_dir = sys.argv[1] + '/train_logs' if hvd.rank() == 0 else None

# The MonitoredTrainingSession takes care of session initialization,
# restoring from a checkpoint, saving to a checkpoint, and closing when done
# or an error occurs.
with tf.compat.v1.train.MonitoredTrainingSession(checkpoint_dir=checkpoint_dir,
                                       config=config,
                                       hooks=hooks) as mon_sess:
  while not mon_sess.should_stop():
    # Perform synchronous training.
    value, _ = mon_sess.run([weights, train_op])
print("SAME", all(np.array_equal(value, each) for each in hvd.allgather_object(value)), flush=True)
"""


CLAIMS = {
    "training steps match those of one big batch": """
optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
step = optimizer.minimize(loss)
begin = hvd.broadcast_global_variables(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(begin)
    expected = np.full([3, 1], 1.0, "f")
    for _ in range(3):
        np.testing.assert_allclose(session.run(w), expected, rtol=1e-4)
        session.run(step)
        expected = big_step(expected)
assert optimizer.get_slot_names() == [] and optimizer.variables() == []
""",
    "global_step counts reduced steps, averaged over passes": """
optimizer = hvd.DistributedOptimizer(
    tf.train.GradientDescentOptimizer(0.5), backward_passes_per_step=3, average_aggregated_gradients=True)
count = tf.train.get_or_create_global_step()
step = optimizer.minimize(loss, global_step=count)
begin = hvd.broadcast_global_variables(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(begin)
    expected, seen = np.full([3, 1], 1.0, "f"), []
    for _ in range(7):
        session.run(step)
        seen.append(int(session.run(count)))
        if seen[-1] > (seen[-2] if len(seen) > 1 else 0):
            expected = big_step(expected, 0.5 if True else 1.5)
        np.testing.assert_allclose(session.run(w), expected, rtol=1e-4)
assert seen == [0, 0, 1, 1, 1, 2, 2], seen
""",
    "global_step counts reduced steps, summed over passes": """
optimizer = hvd.DistributedOptimizer(
    tf.train.GradientDescentOptimizer(0.5), backward_passes_per_step=3, average_aggregated_gradients=False)
count = tf.train.get_or_create_global_step()
step = optimizer.minimize(loss, global_step=count)
begin = hvd.broadcast_global_variables(0)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(begin)
    expected, seen = np.full([3, 1], 1.0, "f"), []
    for _ in range(7):
        session.run(step)
        seen.append(int(session.run(count)))
        if seen[-1] > (seen[-2] if len(seen) > 1 else 0):
            expected = big_step(expected, 0.5 if False else 1.5)
        np.testing.assert_allclose(session.run(w), expected, rtol=1e-4)
assert seen == [0, 0, 1, 1, 1, 2, 2], seen
""",
    "adasum combines the changes of the variables": """
optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5), op=hvd.AdaSum, backward_passes_per_step=2)
assert optimizer.get_name() == "DistributedDeltaGradientDescentOptimizer"
step = optimizer.minimize(loss)
begin = hvd.broadcast_global_variables(0)

def own(w, rows):
    return w - 0.5 * 2.0 * X[rows].T @ (X[rows] @ w - Y[rows]) / 4

with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(begin)
    start = np.full([3, 1], 1.0, "f")
    for _ in range(2):
        local = [own(own(start, slice(4 * each, 4 * each + 4)), slice(4 * each, 4 * each + 4)) for each in range(2)]
        session.run(step)
        np.testing.assert_allclose(session.run(w), own(start, slice(4 * r, 4 * r + 4)), rtol=1e-4)
        session.run(step)
        a, b = local[0] - start, local[1] - start
        dot, aa, bb = (a * b).sum(), (a * a).sum(), (b * b).sum()
        start = start + (1 - dot / (2 * aa)) * a + (1 - dot / (2 * bb)) * b
        np.testing.assert_allclose(session.run(w), start, rtol=1e-3)
""",
    "the state of a session is saved, restored and synchronized": """
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    state = hvd.elastic.TensorFlowState(session=session, batch=r, epoch=0)
    tf.get_default_graph().finalize()  # nothing can be added to the graph later
    w.load(np.full([3, 1], 7.0 + r, "f"), session)
    state.batch = 5
    state.restore()
    assert state.batch == r and session.run(w)[0, 0] == 1.0 + r
    w.load(np.full([3, 1], 7.0 + r, "f"), session)
    state.save()
    state.sync()
    assert state.batch == 0 and session.run(w)[0, 0] == 7.0
    w.load(np.zeros([3, 1], "f"), session)
    state.restore()
    assert session.run(w)[0, 0] == 7.0
""",
    "objects, slices and local variables work in graphs": """
fn = hvd.broadcast_object_fn(root_rank=1)
assert fn({"rank": r}) == {"rank": 1} and hvd.broadcast_object([r], session=None) == [0]
assert hvd.allgather_object(r) == [0, 1]
v = tf.get_variable("v", initializer=1.0)
optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0), scale_local_gradients=False)
optimizer.register_local_var(v)
pairs = optimizer.compute_gradients(v * (r + 1.0) + tf.reduce_sum(w) * (r + 1.0), [v, w])
slices = hvd.allreduce(tf.IndexedSlices(tf.fill([1, 2], r + 1.0), tf.constant([r]), tf.constant([4, 2])))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    assert session.run(pairs[0][0]) == r + 1.0 and session.run(pairs[1][0])[0, 0] == 1.5
    found = session.run(slices)
    assert found.indices.tolist() == [0, 1] and found.values[:, 0].tolist() == [0.5, 1.0]
    assert session.run([hvd.rank_op(), hvd.size_op()]) == [r, n]
""",
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The output of one job of two ranks that checks all claims, each in a separate graph."""
    script = PRELUDE
    for claim, text in CLAIMS.items():
        body = textwrap.indent(MODEL + text, "    ")
        script += f'with tf.Graph().as_default():{body}\n    print("TRUE on {{}}:".format(r), "{claim}.", flush=True)\n'
    result = run_script(2, tmp_path_factory.mktemp("sessions"), script)
    assert result.returncode == 0, result.stdout
    return result.stdout


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_about_graphs_and_sessions_holds_on_all_ranks(output, claim):
    assert all(f"TRUE on {rank}: {claim}." in output for rank in range(2))


@pytest.mark.slow
def test_the_manuals_script_trains_and_saves_checkpoints(tmp_path):
    result = run_script(2, tmp_path, MANUAL.replace("sys.argv[1]", repr(str(tmp_path))))
    assert result.returncode == 0 and result.stdout.count("SAME True") == 2, result.stdout
    assert list((tmp_path / "train_logs").glob("model.ckpt-20.*")), "rank 0 saved no checkpoint"


# The manual's elastic script for TensorFlow 1, with a model, data, and a member that is lost during training.
ELASTIC = """
import os, signal
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow.compat.v1 as tf
import horovod.tensorflow as hvd
tf.disable_v2_behavior()

hvd.init()

config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())

slot = int(os.environ["HOROVOD_RANK"])
base_lr, epochs, batches_per_epoch, batches_per_commit = 0.01, 2, 30, 10
features = tf.random_normal([8, 3], seed=slot)
weights = tf.Variable(np.zeros([3, 1], "f"))
loss = tf.reduce_mean(tf.square(tf.matmul(features, weights) - tf.reduce_sum(features, axis=1, keepdims=True)))

lr = tf.Variable(base_lr * hvd.size())
optimizer = tf.train.GradientDescentOptimizer(lr)
optimizer = hvd.DistributedOptimizer(optimizer)

@hvd.elastic.run
def train(state, train_one_batch):
    print(f"BEGIN slot {slot} of {hvd.size()} batch {state.batch} of {state.epoch}", flush=True)
    for state.epoch in range(state.epoch, epochs):
        for state.batch in range(state.batch, batches_per_epoch):
            if slot == 1 and state.batch == 15:
                os.kill(os.getpid(), signal.SIGKILL)
            train_one_batch()
            if state.batch % batches_per_commit == 0:
                state.commit()
        state.batch = 0

with tf.Session(config=config) as session:
    session.run(tf.global_variables_initializer())

    def on_state_reset():
        lr.load(base_lr * hvd.size(), session)

    state = hvd.elastic.TensorFlowState(session=session, batch=0, epoch=0)
    state.register_reset_callbacks([on_state_reset])

    train_opt = optimizer.minimize(loss)
    train(state, lambda: session.run(train_opt))
    rate, learnt = session.run([lr, weights])
    print(f"DONE slot {slot} rate {rate:.3f} error {abs(learnt - 1).max():.3f}", flush=True)
"""


@pytest.mark.slow
def test_the_manuals_elastic_script_continues_after_a_member_is_lost(tmp_path):
    script = write_script(tmp_path, ELASTIC)
    job = Job(["-np", "2", "--min-np", "1", "-H", "localhost:2", sys.executable, script])
    assert job.end() == 0, job.text
    assert re.findall(r"BEGIN slot 0 of 1 batch (\d+) of 0", job.text) == ["10"], job.text
    done = re.search(r"DONE slot 0 rate 0\.010 error (\d\.\d+)", job.text)
    assert done is not None and float(done.group(1)) < 0.5, job.text
