"""The manual's PyTorch snippets, the synthetic benchmark, and the thread settings that init() leaves unchanged."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import List

import pytest
from launched import Job, needs_launcher, run_script, write_script

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"

pytestmark = needs_launcher


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--fp16-allreduce"], ["--use-adasum"]], ids=" ".join)
def test_the_synthetic_benchmark_reports_images_per_second(options: List[str]) -> None:
    small = (
        "--model resnet18 --image-size 32 --batch-size 2 --num-warmup-batches 1 --num-batches-per-iter 1 --num-iters 2"
    )
    script = str(EXAMPLES / "pytorch_synthetic_benchmark.py")
    job = Job(["-np", "2", sys.executable, script, *small.split(), "--no-cuda", *options])
    assert job.end() == 0, job.text
    assert len(re.findall(r"Iter #\d: [\d.]+ img/sec per worker", job.text)) == 2, job.text
    assert re.search(r"Total img/sec on 2 worker\(s\): [\d.]+ \+-[\d.]+", job.text), job.text


# The parts that the manual leaves to the reader.
AROUND = """
import types
import torch.nn.functional as F
from torch import optim
args = types.SimpleNamespace(log_interval=1, lr=0.05, momentum=0.5)
inputs = torch.randn(16, 4, generator=torch.Generator().manual_seed(1))
train_dataset_of_ours = torch.utils.data.TensorDataset(inputs, (inputs.sum(1) > 0).long())
def model_of_ours():
    return torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.LogSoftmax(1))
"""

# Changed from the manual: data, model and batch size in place of dots; GPUs only where there are some; two epochs.
TRAINING = """
import torch
import horovod.torch as hvd
{around}
# Initialize Horovod
hvd.init()

# Pin GPU to be used to process local rank (one GPU per process)
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())

# Define dataset...
train_dataset = train_dataset_of_ours

# Partition dataset among workers using DistributedSampler
train_sampler = torch.utils.data.distributed.DistributedSampler(
    train_dataset, num_replicas=hvd.size(), rank=hvd.rank())

train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=4, sampler=train_sampler)

# Build model...
model = model_of_ours()

optimizer = optim.SGD(model.parameters())

# Add Horovod Distributed Optimizer
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

# Broadcast parameters from rank 0 to all other processes.
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for epoch in range(2):
   for batch_idx, (data, target) in enumerate(train_loader):
       optimizer.zero_grad()
       output = model(data)
       loss = F.nll_loss(output, target)
       loss.backward()
       optimizer.step()
       if batch_idx % args.log_interval == 0:
           print('Train Epoch: {{}} [{{}}/{{}}]\\tLoss: {{}}'.format(
               epoch, batch_idx * len(data), len(train_sampler), loss.item()), flush=True)

compression = hvd.Compression.none
optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(),
    compression=compression, backward_passes_per_step = 5, op=hvd.AdaSum)
for _ in range(5):
    F.nll_loss(model(data), target).backward()
optimizer.step()
tensor = torch.ones(3)
assert hvd.allreduce(tensor, op=hvd.AdaSum).equal(tensor)
weights = hvd.allgather(model[0].weight.detach().unsqueeze(0))
assert all(each.equal(weights[0]) for each in weights)
print("DONE", flush=True)
"""

# Changed from the manual: as above, and get_random_batch() is added.
ELASTIC = """
import torch
import horovod.torch as hvd
{around}
hvd.init()

if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_rank())

dataset = train_dataset_of_ours
model = model_of_ours()
lr, epochs, batches_per_epoch, batches_per_commit = 0.1, 2, 4, 2
def get_random_batch():
    chosen = torch.randint(len(dataset), (4,))
    return dataset[chosen]

optimizer = optim.SGD(model.parameters(), lr * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer)

@hvd.elastic.run
def train(state):
    batch_offset = state.batch
    for state.epoch in range(state.epoch, epochs):
        for state.batch in range(state.batch, batches_per_epoch):
            data, target = get_random_batch()

            optimizer.zero_grad()
            output = model(data)
            loss = F.nll_loss(output, target)
            loss.backward()
            optimizer.step()

            if state.batch % batches_per_commit == 0:
                state.commit()
        state.batch = 0

def on_state_reset():
    # adjust learning rate on reset
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr * hvd.size()

state = hvd.elastic.TorchState(model, optimizer, batch=0, epoch=0)
state.register_reset_callbacks([on_state_reset])
train(state)
print("DONE", state.epoch, state.batch, flush=True)
"""


def test_the_manuals_training_script_trains_on_two_ranks(tmp_path: Path) -> None:
    done = run_script(2, tmp_path, TRAINING.format(around=AROUND))
    assert done.returncode == 0 and done.stdout.count("DONE") == 2, done.stdout
    assert done.stdout.count("Train Epoch: 1") == 4, done.stdout


@pytest.mark.slow
def test_the_manuals_elastic_script_finishes_on_two_ranks(tmp_path: Path, jobs: List[Job]) -> None:
    script = write_script(tmp_path, ELASTIC.format(around=AROUND))
    jobs.append(Job(["-np", "2", "--min-np", "1", "-H", "localhost:2", sys.executable, script]))
    assert jobs[-1].end() == 0, jobs[-1].text
    assert jobs[-1].text.count("DONE 1 0") == 2, jobs[-1].text


UNTOUCHED = """
import os, torch

def cores_of(tasks):
    return {{task: os.sched_getaffinity(int(task)) for task in tasks}}

torch.mm(torch.ones(300, 300), torch.ones(300, 300))  # starts PyTorch's own threads
tasks = sorted(os.listdir("/proc/self/task"))
before = (torch.get_num_threads(), torch.get_num_interop_threads(), cores_of(tasks), dict(os.environ))
import horovod.torch as hvd
hvd.init()
hvd.barrier() if {barrier} else None
after = (torch.get_num_threads(), torch.get_num_interop_threads(), cores_of(tasks))
assert before[:3] == after, (before[:3], after)
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "KMP_AFFINITY", "GOMP_CPU_AFFINITY", "OMP_PROC_BIND"):
    assert before[3].get(name) == os.environ.get(name), name
print("UNTOUCHED", flush=True)
"""


@pytest.mark.parametrize("barrier", [pytest.param(False, marks=pytest.mark.slow), True])
def test_init_leaves_threads_and_their_cores_unchanged(
    barrier: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    done = run_script(2, tmp_path, UNTOUCHED.format(barrier=barrier))
    assert done.returncode == 0 and done.stdout.count("UNTOUCHED") == 2, done.stdout
