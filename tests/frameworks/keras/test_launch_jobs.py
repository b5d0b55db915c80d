"""Whole jobs: the example, and the manual's elastic script when a member is lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import List

import pytest
from conftest import DOOR
from launched import Job, clean_environment, needs_launcher, write_script

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "keras_mnist.py"

pytestmark = needs_launcher

IMPORTS = "import keras" if DOOR == "keras" else "import tensorflow as tf\nkeras = tf.keras"

# The elastic script of the manual, with data; slot 1 ends in the middle of the second epoch.
ELASTIC = f"""
import os, signal
import numpy as np
{IMPORTS}
import horovod.{DOOR} as hvd

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


def test_those_who_are_left_train_on(tmp_path: Path, jobs: List[Job]) -> None:
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


@pytest.mark.skipif(DOOR != "keras", reason="the example imports keras")
def test_the_example_learns(jobs: List[Job]) -> None:
    environment = {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    jobs.append(Job(["-np", "2", sys.executable, str(EXAMPLE), "--epochs", "2", "--steps", "30"], environment))
    assert jobs[-1].end() == 0, jobs[-1].text
    accuracy = re.search(r"accuracy (0\.\d+) on", jobs[-1].text)
    assert accuracy and float(accuracy[1]) > 0.5, jobs[-1].text
