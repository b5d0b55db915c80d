"""Whole jobs: the example, and the manual's elastic script when a member is lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import List

import pytest
from conftest import BINDING
from elastic_jobs import Hosts, losing_a_worker
from launched import Job, clean_environment, needs_launcher, write_script

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "keras_mnist.py"

pytestmark = needs_launcher

IMPORTS = "import keras" if BINDING == "keras" else "import tensorflow as tf\nkeras = tf.keras"

# The elastic script of the manual, with data; the worker of slot 1 is killed in the middle of the second epoch.
ELASTIC = f"""
import os, signal
import numpy as np
{IMPORTS}
import horovod.{BINDING} as hvd

hvd.init()
slot = hvd.rank()
lr, epochs = 0.02, 4
keras.utils.set_random_seed(slot)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
opt = hvd.DistributedOptimizer(keras.optimizers.SGD(lr * hvd.size(), momentum=0.9))
model.compile(loss="mse", optimizer=opt)
x = np.random.default_rng(slot).standard_normal((64, 6)).astype("float32")
y = np.sin(x.sum(axis=1, keepdims=True))


class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if slot == 1 and state.epoch == 1 and batch == 3:
            os.kill(os.getpid(), signal.SIGKILL)


def on_state_reset():
    model.optimizer.learning_rate.assign(lr * hvd.size())


state = hvd.elastic.KerasState(model, batch=0, epoch=0)
state.register_reset_callbacks([on_state_reset])
callbacks = [
    Ends(),
    hvd.elastic.CommitStateCallback(state, batches_per_commit=2),
    hvd.elastic.UpdateBatchStateCallback(state),
    hvd.elastic.UpdateEpochStateCallback(state),
]


@hvd.elastic.run
def train(state):
    print(f"BEGIN slot {{slot}} of {{hvd.size()}} epoch {{state.epoch}}", flush=True)
    model.fit(x, y, batch_size=8, callbacks=callbacks, epochs=epochs - state.epoch, verbose=0)


train(state)
rate = float(model.optimizer.learning_rate.numpy())
finite = all(np.isfinite(each).all() for each in model.get_weights())
print(f"DONE slot {{slot}} epoch {{state.epoch}} rate {{rate:.3f}} finite {{finite}}", flush=True)
"""


def test_the_remaining_member_continues_training_after_a_member_is_lost(tmp_path: Path, jobs: List[Job]) -> None:
    script = write_script(tmp_path, ELASTIC)
    flags = ["-np", "2", "--min-np", "1", "-H", "localhost:2"]
    environment = {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    jobs.append(Job([*flags, sys.executable, script], environment))
    assert jobs[-1].end() == 0, jobs[-1].text
    text = jobs[-1].text
    assert sorted(re.findall(r"BEGIN slot (\d) of (\d) epoch (\d)", text)) == [
        ("0", "1", "1"),
        ("0", "2", "0"),
        ("1", "2", "0"),
    ], text
    assert re.findall(r"DONE slot 0 epoch (\d) rate ([\d.]+) finite (\w+)", text) == [("4", "0.020", "True")], text


# Trains one epoch at a time until two members have done three of them together.
JOINING = f"""
import os
import numpy as np
{IMPORTS}
import horovod.{BINDING} as hvd

slot = int(os.environ["HOROVOD_RANK"])
keras.utils.set_random_seed(slot)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
hvd.init()
model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
x = np.random.default_rng(slot).standard_normal((32, 6)).astype("float32")
y = np.sin(x.sum(axis=1, keepdims=True))
state = hvd.elastic.KerasState(model, batch=0, epoch=0, together=0)
callbacks = [
    hvd.elastic.CommitStateCallback(state),
    hvd.elastic.UpdateBatchStateCallback(state),
    hvd.elastic.UpdateEpochStateCallback(state),
]


@hvd.elastic.run
def train(state):
    iterations = int(model.optimizer.iterations.numpy())
    print(f"BEGIN slot {{slot}} of {{hvd.size()}} epoch {{state.epoch}} iterations {{iterations}}", flush=True)
    while state.together < 3:
        model.fit(x, y, batch_size=8, callbacks=callbacks, verbose=0)
        state.together += hvd.size() == 2


train(state)
alike = bool((np.ptp(hvd.allgather(model.get_weights()[0][None]), axis=0) < 1e-6).all())
print(f"DONE slot {{slot}} alike {{alike}}", flush=True)
"""


@pytest.mark.slow
def test_a_member_that_joins_continues_with_the_model_of_the_others(tmp_path: Path, jobs: List[Job]) -> None:
    hosts = Hosts(tmp_path)
    hosts.print_lines("localhost:1")
    flags = ["-np", "1", "--min-np", "1", "--max-np", "2", "--host-discovery-script", str(hosts.script)]
    environment = {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    jobs.append(Job([*flags, sys.executable, write_script(tmp_path, JOINING)], environment))
    jobs[-1].read_until(lambda text: "BEGIN slot 0 of 1 epoch 0" in text)
    hosts.print_lines("localhost:2")
    assert jobs[-1].end() == 0, jobs[-1].text
    text = jobs[-1].text
    together = sorted(re.findall(r"BEGIN slot (\d) of 2 epoch (\d+) iterations (\d+)", text))
    assert [slot for slot, _, _ in together] == ["0", "1"] and together[0][1:] == together[1][1:], text
    assert int(together[0][2]) > 0 and sorted(re.findall(r"DONE slot (\d) alike True", text)) == ["0", "1"], text


@pytest.mark.slow
@pytest.mark.skipif(BINDING != "keras", reason="the example imports keras")
def test_the_mnist_example_reaches_50_percent_accuracy(jobs: List[Job]) -> None:
    environment = {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    jobs.append(Job(["-np", "2", sys.executable, str(EXAMPLE), "--epochs", "2", "--steps", "30"], environment))
    assert jobs[-1].end() == 0, jobs[-1].text
    accuracy = re.search(r"accuracy (0\.\d+) on", jobs[-1].text)
    assert accuracy and float(accuracy[1]) > 0.5, jobs[-1].text


@pytest.mark.slow
@pytest.mark.skipif(BINDING != "keras", reason="the example imports keras")
def test_the_elastic_example_continues_after_a_worker_is_lost(tmp_path: Path, jobs: List[Job]) -> None:
    environment = {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    example = EXAMPLE.with_name("keras_mnist_elastic.py")
    script = write_script(tmp_path, losing_a_worker(example, "--epochs 2 --steps 20", commits=2))
    flags = ["-np", "2", "--min-np", "1", "-H", "localhost:2"]
    jobs.append(Job([*flags, sys.executable, script], environment))
    assert jobs[-1].end() == 0, jobs[-1].text
    assert "epoch 0, batch 0: 2 workers" in jobs[-1].text, jobs[-1].text
    assert re.search(r"epoch 0, batch [89]: 1 workers", jobs[-1].text), jobs[-1].text
    accuracy = re.search(r"1 workers at the end, epoch 2, accuracy (0\.\d+)", jobs[-1].text)
    assert accuracy and float(accuracy[1]) > 0.3, jobs[-1].text
