"""Peers without the job's secret at the port to which agents connect: they are rejected, and the job is undisturbed."""

from __future__ import annotations

import re
import sys
from typing import Callable

import pytest
from launched import wait_until
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import SshHosts
from workers import PLACE, SUMS, UNTIL_FILE, exit_code, lines_about, lines_of, pids_of, python

# A stranger opens connections to an address, sends what the test says on each, and keeps them until the launcher closes
# them or the stranger is killed.
STRANGER = """
import os, select, socket, sys

host, port = sys.argv[1].rsplit(":", 1)
manner, count = sys.argv[2], int(sys.argv[3])
sockets = [socket.create_connection((host, int(port)), 60) for _ in range(count)]
for each in sockets:
    try:
        if manner == "garbage":
            each.sendall(os.urandom(1 << 16))
        elif manner == "http":
            each.sendall(b"GET / HTTP/1.1\\r\\nHost: launcher\\r\\n\\r\\n")
        elif manner == "half":
            each.sendall(b"\\x16\\x03\\x01\\x02\\x00\\x01")
    except OSError:
        pass  # the launcher has closed the connection
print("connected", flush=True)
while sockets:
    for each in select.select(sockets, [], [])[0]:
        try:
            if each.recv(1 << 16):
                continue
        except OSError:
            pass
        sockets.remove(each)
print("closed", flush=True)
"""

MANNERS = ["garbage", *(pytest.param(name, marks=pytest.mark.slow) for name in ("http", "half")), "silent"]


def stranger(hosts: SshHosts, address: str, manner: str, count: int = 1) -> Process:
    process = hosts.start(2, [sys.executable, "-c", STRANGER, address, manner, str(count)])
    process.read_until("connected")
    return process


class WaitingJob:
    """A job on a and b whose workers wait until `end_well`."""

    def __init__(self, launch: Callable[..., Process], hosts: SshHosts) -> None:
        self._enough = hosts.shared / "enough"
        self._job = launch("-np", "2", "-H", "a:1,b:1", *python(hosts.shared, UNTIL_FILE, str(self._enough)))
        pids_of(self._job, 2)
        wait_until(lambda: hosts.dialled_by(1) != [], "the agent of b is connected to the launcher")
        self.addresses = hosts.dialled_by(1)

    def end_well(self) -> None:
        self._enough.touch()
        assert exit_code(self._job) == 0, self._job.text
        assert lines_of(self._job, 0)[-1] == lines_of(self._job, 1)[-1] == "done", self._job.text

    def has_named(self, address: str) -> bool:
        """Whether the launcher has said something about an address."""
        return bool(lines_about(self._job, re.escape(address)))


@pytest.fixture
def waiting_job(launch: Callable[..., Process], hosts: SshHosts) -> WaitingJob:
    return WaitingJob(launch, hosts)


@pytest.mark.parametrize("manner", MANNERS)
def test_a_stranger_does_not_disturb_a_running_job(waiting_job: WaitingJob, hosts: SshHosts, manner: str) -> None:
    strangers = [stranger(hosts, address, manner, 20) for address in waiting_job.addresses]
    waiting_job.end_well()
    for process in strangers:
        process.read_until("closed")
        process.end()


@pytest.mark.parametrize("manner", ["garbage", pytest.param("half", marks=pytest.mark.slow)])
def test_a_stranger_that_sends_a_wrong_start_is_closed_while_the_job_runs(
    waiting_job: WaitingJob, hosts: SshHosts, manner: str
) -> None:
    for address in waiting_job.addresses:
        stranger(hosts, address, manner).read_until("closed")
    waiting_job.end_well()
    assert waiting_job.has_named(hosts.addresses[2])


@pytest.mark.parametrize("manner", MANNERS)
def test_strangers_that_come_before_the_agents_do_not_keep_them_out(
    hosts: SshHosts, launcher_command: None, manner: str
) -> None:
    secret = {"FARANDOLE_SECRET_FILE": str(hosts.secret)}
    job = hosts.launch("--agents", "1", "-np", "2", *python(hosts.shared, SUMS), settings=secret, rsh="")
    addresses = job.read_until(r"waiting for 1 agents?: farandole agent --launcher (\S+) --secret-file").group(1)
    reachable = [each for each in addresses.split(",") if each.startswith(hosts.addresses[0] + ":")]
    assert reachable, addresses
    process = stranger(hosts, reachable[0], manner, 300)
    hosts.start(1, [FARANDOLE, "agent", "--launcher", addresses, "--secret-file", str(hosts.secret), "--slots", "2"])
    assert exit_code(job) == 0, job.text
    assert len(re.findall("local . of 2 on b", job.text)) == 2, job.text
    process.read_until("closed")
    process.end()


def test_the_agent_of_another_job_is_rejected(
    launch: Callable[..., Process], hosts: SshHosts, waiting_job: WaitingJob
) -> None:
    addresses = ",".join(waiting_job.addresses)
    agent = hosts.start(2, [FARANDOLE, "agent", "--launcher", addresses, "--secret-file", str(hosts.secret)])
    assert agent.end() != 0, agent.text
    assert "secret" in agent.text, agent.text
    other = launch("-np", "2", "-H", "b:1,c:1", "sh", "-c", PLACE)
    assert exit_code(other) == 0, other.text
    waiting_job.end_well()
    assert waiting_job.has_named(hosts.addresses[2])
