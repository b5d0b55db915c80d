"""Variables that only some members of a process set use, in an elastic job whose members change."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, List

import pytest
from launched import Job, clean_environment, needs_launcher, write_script

pytestmark = needs_launcher

# Ranks 0 and 1 are in the set. The worker of slot 1 kills itself, and that of slot 2 takes its place in the set, with
# the functions that it has traced outside of the set. A weight that no member uses stays as it is, without decay. The
# last weight is local.
REPLACED = """
import os, signal
import keras, numpy as np, tensorflow as tf
import horovod.tensorflow as hvd

pair = hvd.ProcessSet.by_rule(lambda member: member.rank < 2)
hvd.init(process_sets=[pair])
slot = hvd.rank()
variables = [keras.Variable(np.ones(2, "float32"), name=f"part{each}") for each in range(6)]
used = [[True, each == 0, each == 1, each == 2, False, True] for each in range(3)]

def step_of(options):
    kind = keras.optimizers.SGD(0.5, weight_decay=0.5)
    optimizer = hvd.DistributedOptimizer(kind, process_set=pair, **options)
    optimizer.register_local_var(variables[-1])
    optimizer.build(variables)

    @tf.function(autograph=False)
    def step(own):
        optimizer.apply([own if each else None for each in used[slot]], variables)

    return step, options.get("backward_passes_per_step", 1)

steps = [step_of(options) for options in ({}, {"groups": 2}, {"backward_passes_per_step": 2})]

@tf.function
def gradient():
    with hvd.DistributedGradientTape(tf.GradientTape(), process_set=pair) as tape:
        loss = tf.add_n([tf.reduce_sum(each) for each, here in zip(variables, used[slot]) if here])
    return tape.gradient(loss, variables[:2])[0]

def check(members):
    own = tf.fill([2], 1.0 + slot)
    for step, passes in steps:
        for each in variables:
            each.assign([1.0, 1.0])
        for _ in range(passes):
            step(own)
        for place, each in enumerate(variables):
            users = [1.0 + member for member in members if used[member][place]] if place < 5 else [1.0 + slot]
            wanted = 0.75 - 0.5 * passes * sum(users) / len(members) if users else 1.0
            np.testing.assert_allclose(each.numpy(), [wanted] * 2, 1e-6, err_msg=f"{place}: {users}")
    try:
        gradient()
    except tf.errors.InvalidArgumentError as problem:
        assert slot > 0 and pair.included() and "grad_1_part1" in problem.message, problem
    else:
        assert slot == 0 or not pair.included()

state = hvd.elastic.TensorFlowState(variables=[], step=0)

@hvd.elastic.run
def train(state):
    slots = hvd.allgather(tf.constant([slot]), name="slots").numpy()
    print(f"BEGIN slot {slot} of {hvd.size()}", flush=True)
    while hvd.size() == 3 or state.step < 8:
        check([int(slots[rank]) for rank in pair.ranks] if pair.included() else [slot])
        state.step += 1
        if slot == 1 and state.step == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        state.commit()

train(state)
print(f"DONE slot {slot} included {pair.included()} traces {steps[0][0].experimental_get_tracing_count()}", flush=True)
"""


@pytest.mark.slow
def test_a_graph_of_a_rank_that_enters_a_set_reduces_the_gradients_that_it_lacks(
    keras: Any, backend: str, tmp_path: Path, jobs: List[Job]
) -> None:
    if backend != "tensorflow" or not hasattr(keras, "ops"):
        pytest.skip("functions of TensorFlow, and Keras 3")
    flags = ["-np", "3", "--min-np", "2", "-H", "localhost:3"]
    environment = {**clean_environment(), "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"}
    jobs.append(Job([*flags, sys.executable, write_script(tmp_path, REPLACED)], environment))
    assert jobs[-1].end() == 0, jobs[-1].text
    done = sorted(re.findall(r"DONE slot (\d) included True traces 1\n", jobs[-1].text))
    assert done == ["0", "2"], jobs[-1].text
