"""Elastic training with a compiled program when a member is lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import List

from launched import Job, needs_launcher, write_script

pytestmark = needs_launcher

# The worker of slot 1 is killed in the middle; the other one notices in an operation inside a program.
SCRIPT = """
import os, signal
import jax, jax.numpy as jnp, optax
import farandole.jax as hvd

hvd.init()
slot = hvd.rank()
optimizer = hvd.DistributedOptimizer(optax.sgd(1.0))
params = {"w": jnp.full(3, float(slot))}
state = hvd.elastic.JaxState(params=params, opt=optimizer.init(params), step=0)

@jax.jit
def step(params, opt):
    updates, opt = optimizer.update(jax.tree.map(lambda each: -jnp.ones_like(each), params), opt, params)
    return optax.apply_updates(params, updates), opt, hvd.allreduce(jnp.ones(()), name="count", op=hvd.Sum)

@hvd.elastic.run
def train(state):
    print(f"BEGIN slot {slot} of {hvd.size()} step {state.step}", flush=True)
    while state.step < 40:
        if slot == 1 and state.step == 15:
            os.kill(os.getpid(), signal.SIGKILL)
        state.params, state.opt, count = step(state.params, state.opt)
        assert count == hvd.size()
        state.step += 1
        if state.step % 5 == 0:
            state.commit()

train(state)
print(f"DONE slot {slot} step {state.step} weights {state.params['w'].tolist()}", flush=True)
"""


def test_the_remaining_member_resumes_from_the_last_commit(tmp_path: Path, jobs: List[Job]) -> None:
    flags = ["-np", "2", "--min-np", "1", "-H", "localhost:2"]
    jobs.append(Job([*flags, sys.executable, write_script(tmp_path, SCRIPT)]))
    assert jobs[-1].end() == 0, jobs[-1].text
    text = jobs[-1].text
    began = sorted(re.findall(r"BEGIN slot (\d) of (\d) step (\d+)", text))
    assert began == [("0", "1", "15"), ("0", "2", "0"), ("1", "2", "0")], text
    # Each of the forty steps adds one to rank 0's weights; no step is lost and none runs twice.
    assert "DONE slot 0 step 40 weights [40.0, 40.0, 40.0]" in text, text
