"""Process sets while members die, join and leave: the same objects, with the remaining members."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable, Dict, List

import pytest
from elastic_jobs import Hosts
from launched import Job, needs_launcher

pytestmark = needs_launcher

BEGINNING = """
import os, signal, sys
os.environ["HOROVOD_DYNAMIC_PROCESS_SETS"] = "1"
import pickle
import numpy
import farandole.numpy as hvd
from farandole.common.elastic import ObjectState, run_fn

SLOT = int(os.environ["HOROVOD_RANK"])

def reset():
    hvd.shutdown()
    hvd.init()

def elastic(train):
    return run_fn(train, reset)

def of_rank_0(value):
    packed = numpy.frombuffer(pickle.dumps(value), dtype=numpy.uint8).copy()
    size = int(hvd.broadcast(numpy.array([packed.size]), 0, name="size")[0])
    return pickle.loads(hvd.broadcast(numpy.resize(packed, size), 0, name="bytes").tobytes())

def state_of(**values):
    return ObjectState(of_rank_0, hvd.rank, **values)

def works(group, name):
    if not group.included():
        return
    assert group.ranks[group.rank()] == hvd.rank() and group.size() == len(group.ranks)
    total = hvd.allreduce(numpy.array([10.0 + hvd.rank()]), op=hvd.Sum, name=name, process_set=group)
    assert total.tolist() == [sum(10.0 + rank for rank in group.ranks)], (name, total, group)

def dies(slots, step):
    if SLOT in slots and step == 30:
        os.kill(os.getpid(), signal.SIGKILL)

def refusal(call):
    try:
        call()
    except ValueError as problem:
        return str(problem)
    return "none"
"""

# A set of ranks, an added set, and two sets by rule; one member dies, and another joins.
FOLLOW = """
wanted, victims = [int(number) for number in sys.argv[1].split(",")], [int(sys.argv[2])]
static, added = hvd.ProcessSet([0, 2]), None
odd = hvd.ProcessSet.by_rule(lambda member: member.rank % 2 == 1)
fourth = hvd.ProcessSet.by_rule(lambda member: member.rank == 3 and member.local_rank == 3)
hvd.init(process_sets=[odd, static, fourth])
state = state_of(step=0, added=False)

@elastic
def train(state):
    global added
    if not state.added:
        added = hvd.add_process_set([0, 1, 3])
        state.added = True
        state.commit()
    began = state.step
    print(f"BEGIN slot {SLOT} rank {hvd.rank()} of {hvd.size()}: static {static.ranks} odd {odd.ranks} "
          f"fourth {fourth.ranks} added {added and added.ranks}", flush=True)
    if fourth.gone:
        assert "process set 3 has no members in this generation" in fourth.gone, fourth.gone
    while hvd.size() not in wanted or state.step < began + 40:
        dies(victims, state.step)
        for name, group in (("static", static), ("odd", odd), ("fourth", fourth), ("added", added)):
            if group is not None:
                works(group, name)
        works(hvd.global_process_set, "all")
        state.step += 1
        state.commit()
    print(f"DONE slot {SLOT} ids {static.process_set_id} {odd.process_set_id} {added and added.process_set_id}",
          flush=True)

train(state)
"""

# Two of four members die. Sets 1 and 2 are left with the same member, and set 3 with none.
SHRINK = """
first, second, lost = hvd.ProcessSet([0, 1]), hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 2])
hvd.init(process_sets=[first, second, lost])
state = state_of(step=0)

@elastic
def train(state):
    while hvd.size() != 2 or state.step < 40:
        dies((1, 2), state.step)
        for name, group in (("first", first), ("second", second), ("lost", lost)):
            works(group, name)
        works(hvd.global_process_set, "all")
        state.step += 1
        state.commit()
    assert first.ranks == second.ranks == [0] and (first.process_set_id, second.process_set_id) == (1, 2)
    if hvd.rank() == 0:
        pending = [hvd.allreduce_async(numpy.ones(1), name="same", process_set=group) for group in (first, second)]
        assert [hvd.synchronize(handle).tolist() for handle in pending] == [[1.0], [1.0]]
    print("USED", refusal(lambda: hvd.allreduce(numpy.ones(1), name="lost", process_set=lost)), flush=True)
    print("ASKED", refusal(lost.size), refusal(lambda: hvd.barrier(process_set=lost)), flush=True)
    assert not lost.included() and lost.gone
    print("ADDED", refusal(lambda: hvd.add_process_set([0])), flush=True)
    works(hvd.global_process_set, "all")

train(state)
"""

TRAINS = """
import torch, horovod.torch as hvd
group = hvd.ProcessSet([0, 1, 2])
hvd.init(process_sets=[group])
model = torch.nn.Linear(1, 1, bias=False)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), process_set=group)
state = hvd.elastic.TorchState(model, optimizer, step=0)

@hvd.elastic.run
def train(state):
    while hvd.size() == 4 or state.step < 40:
        dies((1,), state.step)
        before = model.weight.item()
        optimizer.zero_grad()
        (model(torch.ones(1, 1)) * (hvd.rank() + 1)).sum().backward()
        optimizer.step()
        ranks = group.ranks if group.included() else [hvd.rank()]
        mean = sum(rank + 1 for rank in ranks) / len(ranks)
        assert abs(before - mean - model.weight.item()) < 1e-4, (before, model.weight.item(), ranks)
        with torch.no_grad():
            model.weight.zero_()
        state.step += 1
        state.commit()
    print(f"DONE slot {SLOT} {group.ranks}", flush=True)

train(state)
"""

# Set 1 fails alone, with or without operations of all ranks in the same steps.
FAILS = """
mixed = sys.argv[1] == "mixed"
halves = [hvd.ProcessSet([0, 1]), hvd.ProcessSet([2, 3])]
hvd.init(process_sets=halves)
os.environ.pop("FARANDOLE_TEST_FAULT")  # the fault is injected once
own_half = halves[hvd.rank() // 2]
state = state_of(step=0)
begun = []

@elastic
def train(state):
    begun.append(state.step)
    while state.step < 120:
        for part in range(2):
            sent = numpy.full(50_000, float(hvd.rank() + state.step))
            # Asynchronous operations go through the leader, whose messages the faults count.
            handle = hvd.allreduce_async(sent, op=hvd.Sum, name=f"half {part}", process_set=own_half)
            total = hvd.synchronize(handle)
            assert total[-1].item() == sum(own_half.ranks) + 2 * state.step, (total, state.step)
        if mixed:
            works(hvd.global_process_set, "all")
        state.step += 1
        if state.step % 2:
            state.check_host_updates()
        else:
            state.commit()
    works(hvd.global_process_set, "the end")

train(state)
print(f"DONE slot {SLOT} began at {begun}", flush=True)
"""


def begun(text: str, size: int) -> Dict[int, str]:
    """The line of each slot at the beginning of the generation of this size."""
    return {int(slot): line for slot, line in re.findall(rf"BEGIN slot (\d+) rank \d+ of {size}: (.*)", text)}


def test_sets_keep_their_members_and_rules_admit_new_members(elastic: Callable[..., Job], tmp_path: Path) -> None:
    hosts = Hosts(tmp_path)
    hosts.print_lines("localhost:3", "127.0.0.1:1")
    flags = ["-np", "4", "--min-np", "2", "--max-np", "4", "--host-discovery-script", str(hosts.script)]
    job = elastic(BEGINNING + FOLLOW, flags, "4", "3")
    job.read_until(lambda text: len(begun(text, 3)) >= 3)
    hosts.print_lines("localhost:4")
    assert job.end() == 0, job.text
    first = "static [0, 2] odd [1, 3] fourth [3] added [0, 1, 3]"
    assert begun(job.text, 3) == dict.fromkeys((0, 1, 2), "static [0, 2] odd [1] fourth [] added [0, 1]")
    last = begun(job.text, 4)
    newest = max(last)
    assert newest > 3 and last.pop(3) == first, job.text
    assert last.pop(newest) == "static [0, 2] odd [1, 3] fourth [3] added None", job.text
    assert last == dict.fromkeys((0, 1, 2), "static [0, 2] odd [1, 3] fourth [3] added [0, 1]"), job.text
    assert sorted(re.findall(r"DONE slot \d+ ids (.*)", job.text)) == ["1 2 4"] * 3 + ["1 2 None"]


def test_sets_of_equal_members_stay_separate_and_an_empty_set_names_its_cause(elastic: Callable[..., Job]) -> None:
    job = elastic(BEGINNING + SHRINK, ["-np", "4", "--min-np", "2", "-H", "localhost:4"])
    assert job.end() == 0, job.text
    used = re.findall(r"USED (.*)", job.text)
    assert len(used) == 2 and all("process set 3 is gone: it had ranks [" in message for message in used), job.text
    asked = re.findall(r"ASKED (.*)", job.text)
    assert len(asked) == 2 and all(message.count("none of them is in the job any more") == 2 for message in asked), (
        job.text
    )
    added = re.findall(r"ADDED (.*)", job.text)
    assert len(added) == 2 and all("exists already: it has id 1" in message for message in added), job.text


@pytest.mark.slow
def test_an_optimizer_continues_with_the_remaining_members_of_its_set(elastic: Callable[..., Job]) -> None:
    job = elastic(BEGINNING + TRAINS, ["-np", "4", "--min-np", "2", "-H", "localhost:4"])
    assert job.end() == 0, job.text
    assert sorted(re.findall(r"DONE slot (\d) (.*)", job.text)) == [(slot, "[0, 1]") for slot in "023"]


@pytest.mark.parametrize(
    "actor", ["set_client,message=150", "path_connector,at=set_client,message=91", "negotiator,message=151"]
)
def test_a_set_that_fails_alone_rolls_back_only_its_members(actor: str, elastic: Callable[..., Job]) -> None:
    rank = 0 if actor.startswith("negotiator") else 1
    fault = f"set=1,rank={rank},actor={actor}"
    job = elastic(
        BEGINNING + FAILS,
        ["-np", "4", "--min-np", "4", "-H", "localhost:4"],
        "apart",
        FARANDOLE_TESTING="1",
        FARANDOLE_TEST_FAULT=fault,
    )
    assert job.end() == 0, job.text
    starts = dict(re.findall(r"DONE slot (\d) began at \[(.*)\]", job.text))
    assert starts["2"] == starts["3"] == "0", job.text
    again = [int(step) for step in starts["0"].split(",")]
    assert len(again) == 2 and again[1] > 0 and again[1] % 2 == 0, job.text
    assert starts["0"] == starts["1"], job.text


@pytest.mark.slow
@pytest.mark.parametrize("flags, steps", [(["--min-np", "4"], "mixed"), ([], "apart")])
def test_a_failed_set_rolls_back_all_members_if_others_took_part_or_the_job_is_not_elastic(
    flags: List[str], steps: str, elastic: Callable[..., Job]
) -> None:
    fault = "set=1,rank=1,actor=set_client,message=150"
    job = elastic(
        BEGINNING + FAILS,
        ["-np", "4", *flags, "-H", "localhost:4"],
        steps,
        FARANDOLE_TESTING="1",
        FARANDOLE_TEST_FAULT=fault,
    )
    assert job.end() == 0, job.text
    starts = re.findall(r"DONE slot \d began at \[(.*)\]", job.text)
    assert len(starts) == 4 and len(set(starts)) == 1 and len(starts[0].split(",")) == 2, job.text
