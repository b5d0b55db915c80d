"""Parameters that some workers do not use, while the members of an elastic job change."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from launched import Job, needs_launcher, write_script

pytestmark = needs_launcher

# In each step one rank uses the dense layer, and another one the sparse table, with which each reduction takes two
# rounds. The worker of slot 1 kills itself after a backward pass, when the others wait for it.
TRAINING = """
import os, signal
import torch, horovod.torch as hvd

torch.manual_seed(3)
slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
model = torch.nn.ModuleDict({
    "always": torch.nn.Linear(3, 3), "dense": torch.nn.Linear(3, 3), "never": torch.nn.Linear(3, 3),
    "table": torch.nn.Embedding(4, 3, sparse=True),
})
unused = model["never"].weight.detach().clone()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), groups=2)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)

@hvd.elastic.run
def train(state):
    began = state.step
    while hvd.size() != 2 or state.step < began + 20:
        x = model["always"](torch.full((1, 3), 0.1 * state.step))
        if hvd.rank() == state.step % hvd.size():
            x = x + model["dense"](x)
        if hvd.rank() == (state.step + 1) % hvd.size():
            x = x + model["table"](torch.tensor([state.step % 4]))
        optimizer.zero_grad()
        x.square().sum().backward()
        if slot == 1 and state.step == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
        assert model["never"].weight.grad is None and model["dense"].weight.grad is not None
        state.step += 1
        state.commit()
    weights = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    everyone = hvd.allgather(weights.unsqueeze(0), name="weights")
    assert all(torch.equal(each, weights) for each in everyone)
    assert torch.equal(model["never"].weight, unused)
    print(f"DONE slot {slot} from {began} step {state.step}", flush=True)

train(state)
"""


@pytest.mark.slow
def test_survivors_go_on_with_parameters_that_not_all_of_them_use(tmp_path: Path) -> None:
    words = ["-np", "3", "--min-np", "2", "-H", "localhost:3", sys.executable, write_script(tmp_path, TRAINING)]
    job = Job(words)
    assert job.end() == 0, job.text
    assert sorted(re.findall(r"DONE slot (\d from \d+ step \d+)", job.text)) == [
        "0 from 10 step 30",
        "2 from 10 step 30",
    ]
