"""A fault in one process set: its pending operations fail on all its ranks, it restarts, and other sets go on."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Dict, List, Tuple

import pytest
from launched import DEADLINE_S, LAUNCHER, SURVIVORS_REPORT, needs_launcher

pytestmark = needs_launcher

BEGINNING = """
import os
import sys
import farandole.numpy as hvd
import numpy

RANK = int(os.environ["HOROVOD_RANK"])
ELEMENTS = 50_000  # too many for the fast path

def check_sum(group, name):
    sums = hvd.allreduce(numpy.full(ELEMENTS, float(RANK)), op=hvd.Sum, name=name, process_set=group)
    assert (sums == sum(group.ranks)).all(), sums

def submit_alone(group, name):
    return hvd.allreduce_async(numpy.ones(ELEMENTS), op=hvd.Sum, name=name, process_set=group)

def failure(call):
    try:
        call()
    except hvd.HorovodInternalError as problem:
        return str(problem)
    return None
"""

# The fault that is injected into each set. Operations in a disjoint set and in the global set must not fail.
EACH_ACTOR = {
    (0, 1): "rank=0,actor=negotiator,message=1",
    (0, 2): "rank=2,actor=set_client,message=3",
    (1, 2): "rank=2,actor=path_connector,at=set_client,message=2",
    (0, 1, 2): "rank=0,actor=scheduler,message=1",
    (0, 1, 3): "rank=0,actor=set_client,message=2",
    (0, 2, 3): "rank=0,actor=path_connector,at=set_client,message=2",
    (1, 2, 3): "rank=0,actor=address_exchange,message=2",
}
# Rank 2 is the relay of rank 3.
RELAYS = {(0, 2, 3): "rank=2,actor=relay,message=1", (1, 3): "rank=2,actor=relay,message=1"}
NEIGHBOURS = [(2, 3), (1, 3), (0, 3)]

ONE_SET_AFTER_THE_OTHER = """
faults, neighbours, hosts = eval(sys.argv[1])
os.environ["FARANDOLE_HOST_ID"] = hosts[RANK]
groups = {ranks: hvd.ProcessSet(list(ranks)) for ranks in [*faults, *neighbours]}

def check_failures(group, fault):
    messages, steps, pending = [], [], []
    message = failure(lambda: pending.append(submit_alone(group, f"rank {RANK} alone")))
    if message:  # the set failed before this submission
        messages.append(message)
        steps.append(0)
    for step in range(6):
        while message := failure(lambda: check_sum(group, f"step {step}")):
            messages.append(message)
            steps.append(step)
    assert len(messages) == 1, messages
    if pending:
        messages.append(failure(lambda: hvd.synchronize(pending[0])))
    fault_rank, actor = [part.split("=")[1] for part in fault.split(",")[:2]]
    for text in messages:
        assert f"process set {group.process_set_id} was restarted" in text, text
        assert f"on rank {fault_rank}: '" in text and f"a fault was injected into the {actor}" in text, text
        assert "the set goes on" in text, text
    return steps[0]

hvd.init(process_sets=list(groups.values()))
global_sum = hvd.allreduce_async(numpy.ones(3), op=hvd.Sum, name="all") if RANK else None
for ranks, fault in faults.items():
    neighbour = groups.get(tuple(sorted({0, 1, 2, 3} - set(ranks))))
    pending = submit_alone(neighbour, "beside") if neighbour and RANK == neighbour.ranks[0] else None
    step = check_failures(groups[ranks], fault) if RANK in ranks else -2
    steps = hvd.allgather(numpy.array([step]), name=f"step {ranks}").tolist()
    assert len(set(steps) - {-2}) == 1, steps
    if neighbour and RANK in neighbour.ranks:
        pending = submit_alone(neighbour, "beside") if pending is None else pending
        assert hvd.synchronize(pending).tolist() == [2] * ELEMENTS
if global_sum is None:
    global_sum = hvd.allreduce_async(numpy.ones(3), op=hvd.Sum, name="all")
assert hvd.synchronize(global_sum).tolist() == [4, 4, 4]
for group in groups.values():
    for _ in range(3 if RANK in group.ranks else 0):
        check_sum(group, "after all")
        assert hvd.allreduce(numpy.ones(2), op=hvd.Sum, process_set=group).tolist() == [group.size()] * 2
hvd.barrier()
hvd.shutdown()
print("all is well")
"""

# An operation may succeed on one rank and fail on another; the ranks agree on the step from which they continue.
AT_ANY_MOMENT = """
group = hvd.ProcessSet([0, 1, 2])
hvd.init(process_sets=[group])
failures, step = 0, 0

def agree(step):
    least = []
    call = lambda: least.append(hvd.allreduce(numpy.array([step]), op=hvd.Min, name="agree", process_set=group))
    while failure(call):
        pass
    return int(least[0][0])

while step < 30 and RANK < 3:
    if failure(lambda: check_sum(group, f"step {step}")):
        failures += 1
        step = agree(step)
    else:
        step += 1
assert failures == (RANK < 3), failures
hvd.barrier()
hvd.shutdown()
print("all is well")
"""

GLOBAL_SET = """
hvd.init()
everyone = hvd.global_process_set
pending = [submit_alone(everyone, f"rank {RANK} alone")]
for step in range(1000):
    if message := failure(lambda: check_sum(everyone, f"step {step}")):
        break
cause = "a fault was injected into the" if f"rank={RANK}" in os.environ["FARANDOLE_TEST_FAULT"] else f"rank {1 - RANK}"
for later in [message, failure(lambda: hvd.synchronize(pending[0])), failure(lambda: check_sum(everyone, "later"))]:
    assert cause in later, later
print("all is well")
"""

REPEATED = """
group = hvd.ProcessSet([0, 1])
hvd.init(process_sets=[group])
message = ""
while "failed 4 times within 10 s" not in message:
    message = failure(lambda: check_sum(group, "sum") if RANK < 2 else hvd.barrier())
    assert message, "nothing failed"
    assert RANK < 2 or "process set 1 failed 4 times" in message, message
assert "a fault was injected into the set_client" in message, message
print("all is well")
"""

# Rank 1 cannot allocate the rows that it receives, but has enough memory to go on. Rank 2 only watches.
NO_MEMORY = """
import resource
group = hvd.ProcessSet([0, 1]) if sys.argv[1] == "set" else hvd.global_process_set
hvd.init(process_sets=[group] if sys.argv[1] == "set" else None)
rows = numpy.zeros((1 if RANK else 256, 1 << 20), numpy.uint8)

def send(splits):
    hvd.alltoall(rows, splits=splits, name="rows", process_set=group)

if RANK < 2:
    for _ in range(3):  # then on the fast path
        send([len(rows), 0])
    if RANK == 1:
        most = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + (192 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    message = failure(lambda: send([0, len(rows)]))
    assert "rows: no memory for the" in message and "bytes that come" in message, message
    if sys.argv[1] == "set":
        assert f"process set {group.process_set_id} was restarted" in message, message
        assert "on rank 1" in message, message
        send([len(rows), 0])
    else:
        assert RANK == 1 or "rank 1 on" in message, message
        assert failure(lambda: send([len(rows), 0])), "the generation goes on"
if sys.argv[1] == "set":
    hvd.barrier()
print("all is well")
"""

# A fault occurs while the set is removed, while the ranks shut down, or while a member dies.
REMOVED = """
hvd.init(process_sets="dynamic")
for _ in range(4):
    group = hvd.add_process_set([0, 1])
    pending = []
    if RANK < 2:
        message = failure(lambda: pending.append(submit_alone(group, "sum")))
        assert not message or "was restarted" in message, message
    hvd.remove_process_set(group)
    if pending:
        message = failure(lambda: hvd.synchronize(pending[0]))
        assert not message or "was restarted" in message or "was removed" in message, message
assert hvd.allreduce(numpy.ones(1), op=hvd.Sum, name="all").tolist() == [3]
hvd.shutdown()
print("all is well")
"""

SHUT_DOWN = """
group = hvd.ProcessSet([0, 1])
hvd.init(process_sets=[group])
hvd.barrier()
pending = []
if RANK < 2:
    failure(lambda: pending.append(submit_alone(group, "sum")))
hvd.shutdown()
for handle in pending:
    failure(lambda: hvd.synchronize(handle))
print("all is well")
"""

KILLED = """
import signal
group = hvd.ProcessSet([0, 1, 2])
hvd.init(process_sets=[group])
print("all is well", flush=True)
hvd.barrier()
if RANK < 3:
    failure(lambda: submit_alone(group, "first"))
if RANK == 2:
    os.kill(os.getpid(), signal.SIGKILL)
message = ""
while "rank 2" not in message or "signal" not in message:
    message = failure(lambda: check_sum(group, "sum") if RANK < 2 else hvd.barrier()) or ""
print("told")
"""


def run(ranks: int, script: str, tmp_path: Path, faults: str, *arguments: str, **settings: str) -> str:
    path = tmp_path / "worker.py"
    path.write_text(BEGINNING + script)
    environment: Dict[str, str] = {
        key: value for key, value in os.environ.items() if not key.startswith(("HOROVOD_", "PYTEST_"))
    }
    environment.update({"FARANDOLE_TESTING": "1", "FARANDOLE_TEST_FAULT": faults, **SURVIVORS_REPORT, **settings})
    command = [LAUNCHER, "-np", str(ranks), sys.executable, str(path), *arguments]
    done = subprocess.run(
        command,
        check=False,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.stdout.count("all is well") == ranks, done.stdout
    return done.stdout


@pytest.mark.parametrize(
    ("faults", "neighbours", "hosts"),
    [(EACH_ACTOR, NEIGHBOURS, "aaaa"), (RELAYS, [], "aabb")],
    ids=["each-actor", "relays"],
)
def test_a_fault_in_a_set_fails_only_operations_of_that_set(
    faults: Dict[Tuple[int, ...], str], neighbours: List[Tuple[int, ...]], hosts: str, tmp_path: Path
) -> None:
    injected = ";".join(f"set={number},{fault}" for number, fault in enumerate(faults.values(), start=1))
    arguments = repr((faults, neighbours, hosts))
    run(4, ONE_SET_AFTER_THE_OTHER, tmp_path, injected, arguments, FARANDOLE_RELAY_RANKS="2")


@pytest.mark.parametrize("actor", ["negotiator,message=11", "path_connector,at=negotiator,message=30"])
def test_ranks_agree_and_continue_after_a_fault_at_any_message(actor: str, tmp_path: Path) -> None:
    run(4, AT_ANY_MOMENT, tmp_path, f"set=1,rank=0,actor={actor}")


@pytest.mark.parametrize("fault", ["rank=0,actor=negotiator,message=9", "rank=1,actor=set_client,message=4"])
def test_a_fault_in_the_global_set_fails_the_operations_of_all_ranks(fault: str, tmp_path: Path) -> None:
    run(2, GLOBAL_SET, tmp_path, f"set=0,{fault}")


@pytest.mark.parametrize(("ranks", "group"), [(3, "set"), (2, "all")])
def test_an_operation_on_the_fast_path_that_fails_on_one_rank_fails_on_all(
    ranks: int, group: str, tmp_path: Path
) -> None:
    run(ranks, NO_MEMORY, tmp_path, "", group)


def test_a_set_that_fails_repeatedly_ends_the_job_with_the_cause(tmp_path: Path) -> None:
    run(3, REPEATED, tmp_path, "set=1,rank=1,actor=set_client,message=1,times=100")


@pytest.mark.parametrize("script", [REMOVED, SHUT_DOWN, KILLED], ids=["removed", "shut-down", "member-killed"])
@pytest.mark.parametrize(
    "fault", ["rank=0,actor=negotiator,message=1", "rank=1,actor=path_connector,at=set_client,message=1"]
)
def test_a_set_may_end_while_it_restarts(script: str, fault: str, tmp_path: Path) -> None:
    text = run(4 if script == KILLED else 3, script, tmp_path, f"set=1,{fault},times=2")
    assert script != KILLED or text.count("told") == 3, text


def test_fault_injection_is_refused_without_the_testing_variable(tmp_path: Path) -> None:
    refused = """
    try:
        hvd.init()
    except ValueError as problem:
        assert "FARANDOLE_TESTING=1" in str(problem)
        print("all is well")
    """
    run(1, textwrap.dedent(refused), tmp_path, "set=1,rank=0,actor=set_client", FARANDOLE_TESTING="")
