"""Rules of elastic jobs: limits, discovery that fails, and workers that communicate before the elastic loop."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Callable

import pytest
from elastic_jobs import TRAINING, Hosts, beginnings, of_size
from horovod.runner.elastic.constants import RESET_LIMIT_EXCEEDED_MESSAGE
from launched import Job, needs_launcher

pytestmark = needs_launcher


def test_the_reset_limit_ends_the_job_with_the_message_of_horovod(elastic: Callable[..., Job]) -> None:
    job = elastic(TRAINING, ["-np", "3", "--min-np", "1", "--reset-limit", "0", "-H", "localhost:3"], "2", "1")
    assert job.end() == 1, job.text
    assert RESET_LIMIT_EXCEEDED_MESSAGE.format(0) in job.text


def test_a_failed_host_gets_a_new_worker_after_its_cooldown(elastic: Callable[..., Job]) -> None:
    flags = ["-np", "2", "--min-np", "1", "--blacklist-cooldown-range", "1", "2", "-H", "localhost:2"]
    job = elastic(TRAINING, flags, "2", "1")
    assert job.end() == 0, job.text
    assert "host localhost gets no new workers for " in job.text
    # The survivor is the job's only member for a while, unless it needs longer for the regroup than the cooldown takes.
    assert of_size(job.text, 1) in ([(0, 0)], [])
    assert of_size(job.text, 2) == [(0, 0), (0, 0), (1, 1), (2, 1)]


def test_a_job_with_too_few_slots_ends_at_the_timeout_and_names_the_remedy(
    elastic: Callable[..., Job], hosts: Hosts
) -> None:
    hosts.print_lines("localhost:1")
    job = elastic(TRAINING, ["-np", "2", "--elastic-timeout", "3", "--host-discovery-script", str(hosts.script)], "2")
    assert job.end() == 1, job.text
    assert "waited 3 s (--elastic-timeout) for more slots" in job.text
    assert "Add hosts" in job.text
    assert not beginnings(job.text)


# ---- discovery ----


def test_discovery_that_fails_at_the_first_call_ends_the_job_with_its_output(
    elastic: Callable[..., Job], hosts: Hosts
) -> None:
    hosts.run_commands("echo halfway:1; echo the inventory is away >&2; exit 3\n")
    job = elastic(TRAINING, ["-np", "1", "--host-discovery-script", str(hosts.script)], "1")
    assert job.end() == 1, job.text
    assert f"the host discovery script {hosts.script} exited with code 3" in job.text
    assert "halfway:1" in job.text and "the inventory is away" in job.text
    assert "job has been shutdown" in job.text
    assert not beginnings(job.text)


WRONG = {
    "echo the inventory is away; exit 3": "the inventory is away",
    "echo localhost:2; echo '<html>502</html>'": "line 2 of the discovered hosts, '<html>502</html>', is no host",
    "echo localhost:-1": "line 1 of the discovered hosts, 'localhost:-1', is no host",
    "echo localhost:0": "line 1 of the discovered hosts, 'localhost:0', has no slots",
    "echo localhost:1; echo localhost:1": "line 2 of the discovered hosts, 'localhost:1', is a host that was printed",
    "exec sleep 1000": "did not end within 10 s (FARANDOLE_DISCOVERY_TIMEOUT) and was killed",
}
"""The commands of the discovery script, and the message of the launcher about them."""


@pytest.mark.slow
def test_discovery_that_fails_later_is_reported_and_the_hosts_stay(elastic: Callable[..., Job], hosts: Hosts) -> None:
    hosts.print_lines("localhost:2")
    flags = ["-np", "2", "--max-np", "3", "--host-discovery-script", str(hosts.script)]
    job = elastic(TRAINING, flags, "3", FARANDOLE_DISCOVERY_TIMEOUT="10")
    job.read_until(lambda text: len(beginnings(text)) >= 2)
    for commands, told in WRONG.items():
        hosts.run_commands(commands + "\n")
        job.read_until(lambda text, told=told: told in text)
        hosts.print_lines("localhost:2")
    hosts.print_lines("localhost:9")  # more than --max-np
    assert job.end() == 0, job.text
    assert of_size(job.text, 3) == [(0, 0), (1, 1), (2, 2)]
    assert len(beginnings(job.text)) == 5  # no member left or joined meanwhile
    assert "last commit" not in job.text
    assert job.text.count("the job goes on with the hosts that it knows") >= len(WRONG) - 1


# ---- before the elastic loop ----

BROADCASTS_BEFORE = """
import os, pathlib, sys
import numpy, farandole.numpy as hvd

end = pathlib.Path(sys.argv[1])
hvd.init()
weight = hvd.broadcast(numpy.ones((1, 2)), root_rank=0, name="weight")
state = hvd.elastic.NumPyState(weight=weight, step=0)

@hvd.elastic.run
def train(state):
    print(f"BEGIN slot {os.environ['HOROVOD_RANK']} rank {hvd.rank()} of {hvd.size()} step {state.step} "
          f"pid {os.getpid()}", flush=True)
    while not int(hvd.allreduce(numpy.array([int(end.exists())]), op=hvd.Max, name="end")[0]):
        state.step += 1
        state.commit()

train(state)
"""


def test_a_collective_before_the_loop_fails_on_a_late_worker_and_warns_the_others(
    elastic: Callable[..., Job], hosts: Hosts, tmp_path: Path
) -> None:
    hosts.print_lines("localhost:2")
    flags = ["-np", "2", "--max-np", "3", "--host-discovery-script", str(hosts.script)]
    job = elastic(BROADCASTS_BEFORE, flags, str(tmp_path / "end"))
    rule = "In an elastic job, call collective operations only inside the function that elastic.run"
    warning = rf"(?m)^\[0\]<stderr>:.*A worker that joins later raises an error here.*{rule}"
    job.read_until(lambda text: len(beginnings(text)) >= 2 and re.search(warning, text) is not None)
    hosts.print_lines("localhost:3")
    job.read_until(
        lambda text: re.search(rf"(?m)^\[2\]<stderr>:.*joined a job that was running.*{rule}", text) is not None
    )
    job.read_until(
        lambda text: len([beginning for beginning in beginnings(text) if beginning.size == 2]) >= 4
    )  # the late worker has left
    (tmp_path / "end").touch()
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(0, 0), (0, 0), (1, 1), (1, 1)]
    assert len(re.findall(warning, job.text)) == 1, job.text


# ---- memory after resets ----

RESETS = """
import os, sys
import numpy, farandole.numpy as hvd

hvd.init()
state = hvd.elastic.NumPyState(weights=numpy.zeros((100, 100)), step=0)
resets = int(sys.argv[1])
seen = []

def held():
    with open("/proc/self/status") as status:
        said = dict(line.split(":", 1) for line in status)
    return int(said["RssAnon"].split()[0]), int(said["Threads"]), len(os.listdir("/proc/self/fd"))

@hvd.elastic.run
def train(state):
    while len(seen) <= resets:
        total = hvd.allreduce(numpy.ones(200000), op=hvd.Sum, name="big")
        assert total[0] == hvd.size() == 2
        hvd.allreduce(numpy.ones(100), name="small")
        state.step += 1
        state.commit()
        seen.append(held())
        if len(seen) <= resets:
            raise hvd.HorovodInternalError("scripted")

train(state)
# The minimum of ten steps: at some of them, connections and buffers of two generations exist at the same time.
before, after = ([min(values) for values in zip(*part)] for part in (seen[10:20], seen[-10:]))
kib, threads, descriptors = (late - early for early, late in zip(before, after))
print(f"HELD {kib} KiB, {threads} threads, {descriptors} descriptors more", flush=True)
"""


@pytest.mark.parametrize("resets", [45, pytest.param(130, marks=pytest.mark.slow)])
def test_memory_threads_and_descriptors_do_not_grow_with_resets(resets: int, elastic: Callable[..., Job]) -> None:
    job = elastic(RESETS, ["-np", "2", "--min-np", "1", "-H", "localhost:2"], str(resets))
    assert job.end() == 0, job.text
    held = re.findall(r"HELD (-?\d+) KiB, (-?\d+) threads, (-?\d+) descriptors more", job.text)
    assert len(held) == 2, job.text
    for kib, threads, descriptors in held:
        assert int(kib) < 2048, job.text
        # A leak at each reset, or at every third one, is more.
        assert int(threads) < 8 and int(descriptors) < 8, job.text
