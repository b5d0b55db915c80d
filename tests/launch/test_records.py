"""The event records of the workers on other hosts: of a running job, and of a job that has failed."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Callable

from launched import DEADLINE_S, wait_until
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from workers import exit_code, pids_of, python

# Rank 1, on host b, never calls the second operation.
STUCK = """
import os, signal
import numpy, farandole.numpy as hvd

hvd.init()
hvd.allreduce(numpy.ones(4), name="loaded")
print("pid", os.getpid(), "of", os.environ["HOROVOD_RANK"], flush=True)
if hvd.rank() == 1:
    signal.pause()
hvd.allreduce(numpy.ones(4), name="gradient")
"""


def test_a_command_on_the_launchers_host_explains_the_ranks_of_all_hosts(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    def explain(*words: str) -> str:
        command = hosts.start(0, [FARANDOLE, "explain", *words], {"XDG_RUNTIME_DIR": RUNTIME})
        code = command.end(DEADLINE_S)
        assert code == 0, command.text
        return command.text

    hosts.stop_sshd(1)
    hosts.start_sshd(1, clock_ahead_s=5000)
    job = launch("-np", "3", "-H", "a:1,b:2", *python(hosts.shared, STUCK))
    workers = pids_of(job, 3)
    waiting = r"rank 0 on a has waited for allreduce\.gradient for .*\n  rank 1 on b has been in user code for "
    wait_until(lambda: re.search(waiting, explain()) is not None, "ranks 0 and 2 wait for rank 1")
    wait_until(
        lambda: "ranks 0 and 2 wait for rank 1, which has not called allreduce.gradient: it has been" in explain(),
        "ranks 0 and 2 wait for rank 1",
    )

    # The hosts share the system clock of this machine, so the true difference is 0 although their steady clocks differ.
    trace = hosts.start(
        0, [FARANDOLE, "trace", "merge", "--output", str(hosts.shared / "trace.json")], {"XDG_RUNTIME_DIR": RUNTIME}
    )
    assert trace.end(DEADLINE_S) == 0, trace.text
    assert "ahead of a, with an error of at most" in trace.text, trace.text
    merged = json.loads((hosts.shared / "trace.json").read_text())
    clock = merged["metadata"]["hosts"]["b"]
    assert abs(clock["clock_offset_ns"]) <= clock["error_ns"] and clock["contradiction_ns"] == 0, clock
    assert "according to the transfers" not in trace.text, trace.text
    processes = [each["args"]["name"] for each in merged["traceEvents"] if each.get("name") == "process_name"]
    assert processes == ["rank 0 on a", "rank 1 on b", "rank 2 on b"]

    # Each host traces its own workers.
    def trace_command(*words: str) -> str:
        command = hosts.start(0, [FARANDOLE, "trace", *words], {"XDG_RUNTIME_DIR": RUNTIME})
        assert command.end(DEADLINE_S) == 0, command.text
        return command.text

    trace_command("start")
    assert "of 3 ranks\n" in trace_command("stop", "--output", str(hosts.shared / "traces"))
    assert sorted(each.name for each in (hosts.shared / "traces").iterdir()) == [
        "rank-0.trace",
        "rank-1.trace",
        "rank-2.trace",
    ]

    os.kill(workers[1], signal.SIGKILL)
    assert exit_code(job) == 137, job.text
    told = re.search(r"^farandole: what each rank was doing: farandole explain (\S+)\n\Z", job.text, re.M)
    assert told, job.text
    text = explain(told.group(1))
    assert "rank 1 on b was killed by signal 9 (Killed); its record ends at" in text, text
    assert "rank 2 on b waited for allreduce.gradient for" in text, text
