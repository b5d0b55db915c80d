"""The end of a job on several hosts: signals to the launcher, and the sudden death of one of its processes.

In each case, no process is left on any host. `nothing_is_left` in conftest.py checks that once more.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Callable, Dict

import pytest
from launched import DEADLINE_S, assert_gone, stop, wait_until
from namespaces import Process
from namespaces.ssh_hosts import SshHosts
from workers import (
    ENDLESS,
    STUBBORN,
    UNTIL_FILE,
    agent_of,
    exit_code,
    kill_launcher,
    lines_of,
    only,
    pids_of,
    python,
    wait_until_empty,
)

# A worker that says which signal it got.
TOLD = """
import os, signal, sys

def told(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    sys.exit(0)

signal.signal(signal.SIGTERM, told)
print("pid", os.getpid(), "of", os.environ["HOROVOD_RANK"], flush=True)
while True:
    signal.pause()
"""


def victim(hosts: SshHosts, kind: str, workers: Dict[int, int]) -> int:
    """The process id of the agent on b, or of a process of the ssh connection to b."""
    if kind == "agent":
        return agent_of(hosts, 1, workers[1])
    if kind == "ssh client":
        on_a = hosts.processes(0)
        return only(on_a, lambda each: os.path.basename(each.command.split()[0]) == "ssh" and " b " in each.command)
    # The sshd of the host, which is not in the list, starts one process for each connection.
    on_b = hosts.processes(1)
    children = {each.pid for each in on_b}
    return only(on_b, lambda each: each.command.startswith("sshd: ") and each.parent not in children)


@pytest.mark.parametrize(
    "stubborn", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["obedient", "ignoring-sigterm"]
)
@pytest.mark.parametrize("kind", ["launcher", "agent", "ssh client", "ssh session"])
def test_no_process_is_left_after_a_sudden_death(
    launch: Callable[..., Process], hosts: SshHosts, kind: str, stubborn: bool
) -> None:
    command = python(hosts.shared, STUBBORN) if stubborn else ["sh", "-c", ENDLESS]
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", *command)
    workers = pids_of(job, 3)
    if kind == "launcher":
        kill_launcher(job)
    else:
        os.kill(victim(hosts, kind, workers), signal.SIGKILL)
    assert_gone(list(workers.values()))
    code = exit_code(job)
    assert code == 137 if kind == "launcher" else code != 0, job.text
    wait_until_empty(hosts, 0, 1, 2)
    if kind != "launcher":
        assert "host b was lost: " in job.text, job.text
        assert "host c was lost" not in job.text, job.text


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["SIGTERM", "SIGINT"])
def test_a_signal_to_the_launcher_ends_the_workers_of_all_hosts(
    launch: Callable[..., Process], hosts: SshHosts, number: signal.Signals, code: int
) -> None:
    settings = {"FARANDOLE_TERMINATION_GRACE": "240"}
    job = launch("-np", "3", "-H", "a:1,b:2", *python(hosts.shared, TOLD), settings=settings)
    workers = pids_of(job, 3)
    os.kill(job.pid, number)
    assert exit_code(job) == code, job.text
    for rank in range(3):
        assert "got SIGTERM" in lines_of(job, rank), job.text
    assert_gone(list(workers.values()))
    wait_until_empty(hosts, 0, 1)


def test_a_worker_that_ignores_sigterm_is_killed_after_a_signal_to_the_launcher(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    job = launch("-np", "2", "-H", "a:1,b:1", *python(hosts.shared, STUBBORN))
    workers = pids_of(job, 2)
    os.kill(job.pid, signal.SIGTERM)
    assert exit_code(job) == 143, job.text
    assert_gone(list(workers.values()))


def test_children_of_a_remote_worker_end_with_it(launch: Callable[..., Process], hosts: SshHosts) -> None:
    # The worker ends, and leaves a child that holds its output open.
    script = 'if [ "$HOROVOD_RANK" = 1 ]; then sleep 3600 & echo "pid $! of 1"; else echo "pid $$ of 0"; fi'
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", script)
    child = pids_of(job, 2)[1]
    assert exit_code(job) == 0, job.text
    assert_gone([child])
    wait_until_empty(hosts, 1)


def test_the_failure_of_a_worker_ends_the_workers_of_the_other_hosts(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    script = f'if [ "$HOROVOD_RANK" = 2 ]; then echo failing; exit 5; fi; {ENDLESS}'
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", "sh", "-c", script)
    workers = pids_of(job, 2)
    assert exit_code(job) == 5, job.text
    assert lines_of(job, 2) == ["failing"], job.text
    assert_gone(list(workers.values()))
    wait_until_empty(hosts, 0, 1, 2)


@pytest.mark.slow
def test_a_host_that_becomes_unreachable_ends_the_job_after_the_link_timeout(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    job = launch(
        *("-np", "3", "-H", "a:1,b:1,c:1", "sh", "-c", ENDLESS),
        settings={"FARANDOLE_LINK_TIMEOUT": "4"},
    )
    workers = pids_of(job, 3)
    hosts.cut(1)
    assert exit_code(job) != 0, job.text
    assert "host b was lost: " in job.text, job.text
    assert "host c was lost" not in job.text, job.text
    # The agent on b ends its worker by itself, for nothing can reach it.
    assert_gone(list(workers.values()))
    wait_until_empty(hosts, 0, 1, 2)


def test_the_start_of_a_job_can_be_interrupted(launch: Callable[..., Process], hosts: SshHosts) -> None:
    # The remote shell never starts an agent.
    shell = hosts.shared / "shell"
    shell.write_text(f"#!/bin/sh\n: >{hosts.shared}/asked\nexec sleep 3600\n")
    shell.chmod(0o755)
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", sys.executable, "-c", "print('started')", rsh=str(shell))
    wait_until((hosts.shared / "asked").exists, "the launcher reaches for the hosts")
    os.kill(job.pid, signal.SIGTERM)
    assert exit_code(job) == 143, job.text
    assert "started" not in job.text
    wait_until_empty(hosts, 0, 1, 2)


def test_an_agent_that_is_stopped_for_a_while_only_delays_its_workers_output(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    enough = hosts.shared / "enough"
    job = launch("-np", "2", "-H", "a:1,b:1", *python(hosts.shared, UNTIL_FILE, str(enough)))
    agent = agent_of(hosts, 1, pids_of(job, 2)[1])
    stop(agent)
    enough.touch()
    job.read_until(r"\[0\]<stdout>:done", DEADLINE_S)  # the worker on a has ended, and the launcher waits for b
    assert lines_of(job, 1)[-1] != "done" and not job.has_ended()
    os.kill(agent, signal.SIGCONT)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 1)[-1] == "done"
    assert "was lost" not in job.text, job.text
    wait_until_empty(hosts, 0, 1)
