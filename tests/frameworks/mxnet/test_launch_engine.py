"""Jobs in which collectives run beside computation, fail, or are still in flight when a script ends."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from launched import DEADLINE_S, Job, launch, needs_launcher, run_script

__all__ = ["launch"]  # the fixture

pytestmark = needs_launcher

START = """
import os, signal, sys
import mxnet as mx
import horovod.mxnet as hvd
from mxnet import nd
from mxnet.base import MXNetError
hvd.init()
rank = hvd.rank()
"""

# Rank 1 starts its collectives after rank 0 has computed the part that does not depend on the collectives.
# There are more collectives than engine threads: if collectives held their threads, the job would hang.
OVERLAP = (
    START
    + """
ready, size = sys.argv[1], int(sys.argv[2])
def start():
    return [hvd.allreduce(nd.ones((size,)), name=f"slow.{i}", op=hvd.Sum, priority=i) for i in range(6)]
if rank == 0:
    pending = start()
    after = [nd.square(each) for each in pending]
    independent = nd.dot(nd.ones((200, 200)), nd.ones((200, 200)))
    print("independent", independent.asnumpy().sum(), flush=True)
    open(ready, "w").close()
else:
    open(ready).close()
    after = [nd.square(each) for each in start()]
print("reduced", [each.asnumpy().mean() for each in after], flush=True)
"""
)


@pytest.mark.parametrize("size", [4, pytest.param(300000, marks=pytest.mark.slow)], ids=["small", "large"])
def test_an_independent_operator_completes_before_a_slow_collective(
    size: int, tmp_path: Path, launch: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    monkeypatch.setenv("MXNET_CPU_WORKER_NTHREADS", "1")
    monkeypatch.setenv("MXNET_CPU_PRIORITY_NTHREADS", "1")
    job = launch(2, OVERLAP, str(ready), str(size))
    assert job.end() == 0, job.text
    # Rank 1 began only after rank 0 had computed the independent part, so the job would not have ended otherwise.
    assert job.text.index("independent 8000000.0") < job.text.index("[0]<stdout>:reduced")
    assert job.text.count(f"reduced {[4.0] * 6}") == 2


@pytest.mark.slow
def test_the_naive_engine_runs_each_operation_in_its_call(tmp_path: Path) -> None:
    """The naive engine does not store failures for later, so the call itself raises."""
    script = (
        START
        + """
value = hvd.allreduce(nd.full((3,), rank), op=hvd.Sum)
hvd.broadcast_(value, 0)
print("values", value.asnumpy().tolist(), hvd.allgather(nd.full((1,), rank)).asnumpy().tolist(), flush=True)
try:
    hvd.allreduce(nd.ones((2 + rank,)), name="gradient")
except MXNetError as problem:
    print("TOLD", problem, flush=True)
print("on", hvd.allreduce(nd.ones((1,)), name="gradient", op=hvd.Sum).asscalar(), flush=True)
"""
    )
    ended = run_script(2, tmp_path, script, MXNET_ENGINE_TYPE="NaiveEngine")
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("values [1.0, 1.0, 1.0] [0.0, 1.0]") == 2
    assert len(re.findall(r"TOLD .*gradient: shapes differ: rank 0 has \[2\], rank 1 has \[3\]", ended.stdout)) == 2
    assert ended.stdout.count("on 2.0") == 2


def test_a_script_may_end_before_the_engine_has_finished(tmp_path: Path) -> None:
    script = (
        START
        + """
value = nd.ones((20000,))
for step in range(30):
    hvd.allreduce_(value, name="value")
if rank == 0:
    print("mean", value.mean().asscalar(), flush=True)
"""
    )
    ended = run_script(2, tmp_path, script)
    assert ended.returncode == 0 and "mean 1.0" in ended.stdout, ended.stdout
    assert "MXNetError" not in ended.stdout and "Exception" not in ended.stdout, ended.stdout


@pytest.mark.parametrize("leaving_rank", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_an_operation_that_is_pending_when_a_rank_leaves_fails(leaving_rank: int, tmp_path: Path) -> None:
    script = (
        START
        + f"""
if rank == 0:
    lonely = hvd.allreduce(nd.ones((3,)), name="lonely")
if rank == {leaving_rank}:
    hvd.shutdown()
if rank == 0:
    try:
        lonely.wait_to_read()
    except MXNetError as problem:
        print("TOLD", problem, flush=True)
else:
    try:
        hvd.barrier()
    except MXNetError as problem:
        print("TOLD", problem, flush=True)
"""
    )
    ended = run_script(2, tmp_path, script, survivors_report=True, FARANDOLE_SHUTDOWN_TIMEOUT="1")
    assert ended.returncode == 0, ended.stdout
    assert re.search(r"\[0\]<stdout>:TOLD .*shut", ended.stdout), ended.stdout


def test_a_failing_script_does_not_wait_for_operations_that_cannot_complete(tmp_path: Path) -> None:
    script = (
        START
        + """
if rank == 0:
    lonely = hvd.allreduce(nd.ones((3,)), name="lonely")
    raise RuntimeError("the script's own")
other = hvd.allreduce(nd.ones((3,)), name="other")
try:
    other.wait_to_read()
except MXNetError:
    print("TOLD", flush=True)
"""
    )
    ended = run_script(2, tmp_path, script, FARANDOLE_SHUTDOWN_TIMEOUT="600")
    assert ended.returncode == 1 and "the script's own" in ended.stdout, ended.stdout


def test_reading_an_array_after_a_rank_has_died_names_the_rank(tmp_path: Path) -> None:
    script = (
        START
        + """
hvd.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
values = [hvd.allreduce(nd.ones((size,)), name=f"gradient.{size}") for size in (4, 500000)]
for each in values:
    try:
        each.wait_to_read()
    except MXNetError as problem:
        print("TOLD", problem, flush=True)
"""
    )
    ended = run_script(2, tmp_path, script, survivors_report=True)
    assert ended.returncode != 0
    assert len(re.findall(r"\[0\]<stdout>:TOLD .*rank 1", ended.stdout)) == 2, ended.stdout


@pytest.mark.slow
def test_the_stall_report_names_a_gradient_that_one_rank_does_not_submit(
    tmp_path: Path, launch: Callable[..., Job]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = (
        START
        + """
from mxnet import autograd, gluon
net = gluon.nn.Dense(2, in_units=3)
net.initialize(mx.init.One())
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, prefix="dense.")
for step in range(4):
    with autograd.record():
        loss = net(nd.ones((1, 3))).sum()
    loss.backward()
    if step == 3 and rank == 1:
        open(sys.argv[1]).close()
    trainer.step(1)
print("weight", net.weight.data().asnumpy().tolist(), flush=True)
"""
    )
    job = launch(2, script, str(pipe), flags=["--stall-check-warning-time-seconds", "1"])
    both = r"horovod_grouped_allreduce\.dense\.0_1of2, horovod_grouped_allreduce\.dense\.0_2of2"
    report = r"Missing ranks:\n(?:\[\d\]<stderr>:)?1: \[" + both + r"\]"
    job.read_until(lambda text: re.search(report, text) is not None)
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text
    assert job.text.count("weight [[-3.0, -3.0, -3.0], [-3.0, -3.0, -3.0]]") == 2


def test_a_data_loader_may_fork_while_gradients_are_in_flight(tmp_path: Path) -> None:
    script = (
        START
        + """
import atexit
from mxnet import autograd, gluon
rows = nd.array([[each] * 3 for each in range(24)])
data = gluon.data.ArrayDataset(rows, rows.sum(axis=1))
net = gluon.nn.Dense(1, in_units=3)
net.initialize(mx.init.Zero())
trainer = hvd.DistributedTrainer(net.collect_params(), "sgd", {"learning_rate": 1e-4})
for epoch in range(2):
    for x, y in gluon.data.DataLoader(data, batch_size=6, num_workers=2):  # forks at each epoch
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(x), y)
        loss.backward()
        trainer.step(6)
print("weight", net.weight.data().asnumpy().round(4).tolist(), flush=True)
if rank == 0:
    child = os.fork()
    if child == 0:
        atexit._run_exitfuncs()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("last", hvd.allreduce(nd.ones((1,)), op=hvd.Sum).asscalar(), flush=True)
"""
    )
    ended = run_script(2, tmp_path, script, FARANDOLE_SHUTDOWN_TIMEOUT="600")
    assert ended.returncode == 0, ended.stdout
    first, second = re.findall(r"weight (\[.*\])", ended.stdout)
    assert first == second and "0.0" not in first
    assert ended.stdout.count("last 2.0") == 2


def test_calls_before_init_ask_for_init() -> None:
    script = """
import mxnet as mx, horovod.mxnet as hvd
for call in (lambda: hvd.allreduce(mx.nd.ones((1,))), lambda: hvd.allgather(mx.nd.ones((1,))), hvd.barrier):
    try:
        call()
    except mx.base.MXNetError as problem:
        print("TOLD", problem)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S
    )
    assert ended.stdout.count("call init() first") == 3, ended.stdout


def test_without_mxnet_the_import_names_the_package_to_install() -> None:
    script = """
import sys
sys.modules["mxnet"] = None
try:
    import horovod.mxnet
except ImportError as problem:
    print("TOLD", problem)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S
    )
    assert "pip install mxnet==1.9.1" in ended.stdout
