"""Members that die, come and go while a script trains on."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from elastic_jobs import Hosts, beginnings, of_size
from launched import Job, assert_gone, needs_launcher

pytestmark = needs_launcher

# Trains until a generation of the wanted size has made fifty steps, and says of each generation how it began.
SCRIPT = """
import os, signal, sys
import torch, horovod.torch as hvd

wanted, victims = int(sys.argv[1]), [int(slot) for slot in sys.argv[2:]]
slot = int(os.environ["HOROVOD_RANK"])
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 1), step=0)

@hvd.elastic.run
def train(state):
    began = state.step
    print(f"BEGIN slot {slot} rank {hvd.rank()} of {hvd.size()} step {began} pid {os.getpid()}", flush=True)
    while hvd.size() != wanted or state.step < began + 50:
        if victims and victims[0] == slot and state.step == 30:
            os.kill(os.getpid(), signal.SIGKILL)
        count = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="count")
        assert int(count) == hvd.size()
        with torch.no_grad():
            state.model.weight += 1.0
        state.step += 1
        state.commit()
    weights = hvd.allgather(state.model.weight.detach(), name="weights")
    assert torch.equal(weights, weights[:1].expand(hvd.size(), 2))
    print(f"DONE slot {slot} step {state.step}", flush=True)

train(state)
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path)


@pytest.fixture
def elastic(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    jobs: List[Job] = []

    def start(flags: List[str], *arguments: str) -> Job:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(SCRIPT))
        jobs.append(Job([*flags, sys.executable, str(path), *arguments]))
        return jobs[-1]

    yield start
    for each in jobs:
        each.kill()


def test_survivors_go_on_where_they_were(elastic: Callable[..., Job]) -> None:
    job = elastic(["-np", "3", "--min-np", "2", "-H", "localhost:3"], "2", "1")
    assert job.end() == 0, job.text
    assert of_size(job.text, 3) == [(0, 0), (1, 1), (2, 2)]
    assert of_size(job.text, 2) == [(0, 0), (2, 1)]
    assert {each.step for each in beginnings(job.text) if each.size == 2} == {30}
    assert len({each.pid for each in beginnings(job.text)}) == 3  # nobody was restarted
    assert_gone([each.pid for each in beginnings(job.text)])


def test_when_rank_0_dies_the_oldest_survivor_takes_its_place(elastic: Callable[..., Job]) -> None:
    job = elastic(["-np", "3", "--min-np", "1", "-H", "localhost:3"], "2", "0")
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(1, 0), (2, 1)]


def test_a_new_member_gets_the_state_and_nobody_loses_a_step(elastic: Callable[..., Job], hosts: Hosts) -> None:
    hosts.are("localhost:2")
    job = elastic(["-np", "2", "--max-np", "3", "--host-discovery-script", str(hosts.script)], "3")
    job.read_until(lambda text: len(beginnings(text)) == 2)
    hosts.are("localhost:3")
    assert job.end() == 0, job.text
    assert of_size(job.text, 3) == [(0, 0), (1, 1), (2, 2)]
    together = {each.step for each in beginnings(job.text) if each.size == 3}
    assert len(together) == 1
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1", "2"]


def test_a_host_that_is_taken_out_leaves_in_order(elastic: Callable[..., Job], hosts: Hosts) -> None:
    hosts.are("localhost:2", "127.0.0.1:1")
    job = elastic(["-np", "3", "--min-np", "2", "--host-discovery-script", str(hosts.script)], "2")
    job.read_until(lambda text: len(beginnings(text)) == 3)
    hosts.are("localhost:2")
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(0, 0), (1, 1)]
    assert "last commit" not in job.text  # nobody went back
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1"]


def test_too_few_survivors_end_the_job(elastic: Callable[..., Job]) -> None:
    job = elastic(["-np", "2", "--min-np", "2", "-H", "localhost:2"], "1", "1")
    assert job.end() == 137, job.text
    assert "localhost[1]" in job.text
