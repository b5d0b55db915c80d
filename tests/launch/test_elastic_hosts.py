"""Elastic jobs whose hosts come, go and fail while the members train."""

from __future__ import annotations

import os
import re
import signal
from typing import Callable

import pytest
from elastic_jobs import Hosts as Discovery
from farandole.runner.elastic.constants import RESET_LIMIT_EXCEEDED_MESSAGE
from launched import DEADLINE_S, assert_gone, wait_until
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from test_launch_rendezvous import record_types
from workers import (
    TRAINING,
    agent_of,
    begun,
    end_training,
    exit_code,
    kill_launcher,
    python,
    wait_until_empty,
    worker_on,
)


@pytest.fixture
def discovery(hosts: SshHosts) -> Discovery:
    """The discovery script of the job."""
    return Discovery(hosts.shared)


@pytest.fixture
def train(launch: Callable[..., Process], hosts: SshHosts, discovery: Discovery) -> Callable[..., Process]:
    """Starts an elastic job with these values of -np, --min-np and --max-np; `end_training` ends it."""

    def start(size: int, fewest: int, most: int, *flags: str, **settings: str) -> Process:
        sizes = ["-np", str(size), "--min-np", str(fewest), "--max-np", str(most)]
        found = flags or ("--host-discovery-script", str(discovery.script))
        return launch(*sizes, *found, *python(hosts.shared, TRAINING, str(hosts.shared / "enough")), settings=settings)

    return start


def test_an_elastic_job_trains_on_the_hosts_that_discovery_prints(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    discovery.print_lines("a:1", "b:2")
    job = train(3, 3, 3)
    assert sorted(begun(job, 3, 3)) == ["a", "b", "b"], job.text
    end_training(job, hosts, 3)
    assert hosts.connections(1) == 1


def test_an_elastic_job_trains_on_the_hosts_of_its_command_line(train: Callable[..., Process], hosts: SshHosts) -> None:
    job = train(2, 1, 2, "-H", "a:1,b:1")
    assert sorted(begun(job, 2, 2)) == ["a", "b"], job.text
    end_training(job, hosts, 2)


def test_a_host_leaves_discovery_and_comes_back(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    discovery.print_lines("a:1", "b:1")
    job = train(2, 1, 2)
    begun(job, 2, 2)
    discovery.print_lines("a:1")
    assert begun(job, 1, 1) == ["a"]
    wait_until_empty(hosts, 1)  # the agent leaves after its workers
    discovery.print_lines("a:1", "b:1")
    assert sorted(begun(job, 2, 4)) == ["a", "a", "b", "b"], job.text
    end_training(job, hosts, 2)
    assert hosts.connections(1) == 2  # a new agent
    assert "last commit" not in job.text, job.text  # no member rolled back


def test_a_new_host_joins(train: Callable[..., Process], hosts: SshHosts, discovery: Discovery) -> None:
    discovery.print_lines("b:1")
    job = train(1, 1, 2)
    assert begun(job, 1, 1) == ["b"]
    discovery.print_lines("b:1", "c:1")
    assert sorted(begun(job, 2, 2)) == ["b", "c"], job.text
    end_training(job, hosts, 2)


@pytest.mark.parametrize("kind", ["agent", "worker"])
def test_the_other_hosts_go_on_after_a_death_on_a_host(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery, kind: str
) -> None:
    discovery.print_lines("a:1", "b:1", "c:1")
    job = train(3, 1, 3)
    begun(job, 3, 3)
    worker = worker_on(job, "b")
    os.kill(agent_of(hosts, 1, worker) if kind == "agent" else worker, signal.SIGKILL)
    assert sorted(begun(job, 2, 2)) == ["a", "c"], job.text
    assert_gone([worker])
    if kind == "agent":
        wait_until_empty(hosts, 1)
    end_training(job, hosts, 2)
    assert ("host b was lost: " in job.text) == (kind == "agent"), job.text


@pytest.mark.slow
def test_the_other_hosts_go_on_when_a_host_becomes_unreachable(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    discovery.print_lines("a:1", "b:1", "c:1")
    job = train(3, 1, 3, FARANDOLE_LINK_TIMEOUT="12")
    begun(job, 3, 3)
    worker = worker_on(job, "b")
    hosts.cut(1)
    assert sorted(begun(job, 2, 2)) == ["a", "c"], job.text
    job.read_until("host b was lost: ")
    assert_gone([worker])
    wait_until_empty(hosts, 1)
    end_training(job, hosts, 2)


def test_a_drained_host_leaves_at_a_commit_and_may_come_back(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    discovery.print_lines("a:1", "b:1")
    job = train(2, 1, 2)
    begun(job, 2, 2)
    drain = hosts.start(0, [FARANDOLE, "drain", "b"], {"XDG_RUNTIME_DIR": RUNTIME})
    assert begun(job, 1, 1) == ["a"]
    assert drain.end(DEADLINE_S) == 0, drain.text
    assert re.fullmatch(r"(rank \d \(slot \d on b\)) leaves at the next commit\n\1 is out\n", drain.text), drain.text
    discovery.print_lines("a:1")
    wait_until_empty(hosts, 1)  # the agent leaves as well
    discovery.print_lines("a:1", "b:1")
    assert sorted(begun(job, 2, 4)) == ["a", "a", "b", "b"], job.text
    end_training(job, hosts, 2)
    assert "last commit" not in job.text and "was lost" not in job.text, job.text


@pytest.mark.slow
@pytest.mark.parametrize("way", ["drain", "SIGTERM"])
def test_a_worker_of_another_host_leaves_at_a_commit(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery, way: str
) -> None:
    discovery.print_lines("a:1", "b:1", "c:1")
    job = train(3, 1, 3)
    begun(job, 3, 3)
    worker = worker_on(job, "b")
    if way == "drain":
        drain = hosts.start(0, [FARANDOLE, "drain", "1"], {"XDG_RUNTIME_DIR": RUNTIME})
        assert drain.end(DEADLINE_S) == 0, drain.text
        assert drain.text == "rank 1 (slot 1 on b) leaves at the next commit\nrank 1 (slot 1 on b) is out\n"
    else:
        os.kill(worker, signal.SIGTERM)
    assert sorted(begun(job, 2, 2)) == ["a", "c"], job.text
    assert_gone([worker])
    end_training(job, hosts, 2)
    for unplanned in ("last commit", "was lost", "exit with status", "gets no new workers"):
        assert unplanned not in job.text, job.text


def test_two_names_of_one_host_come_and_go_separately(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    """The discovery and the blacklist know a host by the name that the script printed."""
    hosts.add_name("b2", 1)
    discovery.print_lines("a:1", "b:1", "b2:1")
    job = train(3, 1, 3)
    assert sorted(begun(job, 3, 3)) == ["a", "b", "b2"], job.text
    os.kill(worker_on(job, "b2"), signal.SIGKILL)
    assert sorted(begun(job, 2, 2)) == ["a", "b"], job.text
    job.read_until("host b2 gets no new workers any more")
    discovery.print_lines("a:1", "b2:1")
    assert begun(job, 1, 1) == ["a"], job.text
    discovery.print_lines("a:1", "b:1", "b2:1")
    assert sorted(begun(job, 2, 4)) == ["a", "a", "b", "b"], job.text
    end_training(job, hosts, 2)


@pytest.mark.slow
def test_a_change_of_hosts_beyond_the_reset_limit_ends_the_job(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    discovery.print_lines("a:1", "b:1")
    job = train(2, 1, 2, "--host-discovery-script", str(discovery.script), "--reset-limit", "1")
    begun(job, 2, 2)
    discovery.print_lines("a:1")
    assert begun(job, 1, 1) == ["a"]
    discovery.print_lines("a:1", "c:1")
    assert exit_code(job) != 0, job.text
    assert RESET_LIMIT_EXCEEDED_MESSAGE.format(1) in job.text, job.text
    wait_until_empty(hosts, 0, 1, 2)


@pytest.mark.slow
def test_a_launcher_keeps_the_blacklist_in_its_journal(train: Callable[..., Process], hosts: SshHosts) -> None:
    journal = hosts.shared / "journal"
    options = ["-H", "a:1,b:1,c:1", "--journal", str(journal)]
    killed = train(3, 1, 3, *options)
    begun(killed, 3, 3)
    os.kill(worker_on(killed, "b"), signal.SIGKILL)
    assert sorted(begun(killed, 2, 2)) == ["a", "c"], killed.text
    wait_until(lambda: 3 in record_types(journal), "the blacklist is in the journal")
    kill_launcher(killed)
    wait_until_empty(hosts, 0, 1, 2)

    job = train(2, 1, 3, *options)
    assert sorted(begun(job, 2, 2)) == ["a", "c"], job.text
    end_training(job, hosts, 2)
    assert "host b gets no new workers at all: it failed before" in job.text, job.text


@pytest.mark.slow
def test_training_on_other_hosts_goes_on_while_a_separate_rendezvous_restarts(
    train: Callable[..., Process], hosts: SshHosts
) -> None:
    address = f"{hosts.addresses[0]}:4711"
    files = ["--secret-file", str(hosts.secret), "--journal", str(hosts.shared / "journal")]
    command = [FARANDOLE, "rendezvous", "-np", "2", "--min-np", "1", "--bind", hosts.addresses[0], "--port", "4711"]
    first = hosts.start(0, [*command, *files])
    first.read_until(re.escape(address))
    secret = {"FARANDOLE_SECRET_FILE": str(hosts.secret)}
    job = train(2, 1, 2, "-H", "b:1,c:1", "--rendezvous", address, **secret)
    assert sorted(begun(job, 2, 2)) == ["b", "c"], job.text
    first.kill()
    job.read_matches(rf"the rendezvous at {re.escape(address)} cannot be reached", 2)
    second = hosts.start(0, [*command, *files])
    job.read_matches(r"the rendezvous is back", 2)
    os.kill(worker_on(job, "b"), signal.SIGKILL)
    assert begun(job, 1, 1) == ["c"], job.text
    (hosts.shared / "enough").touch()
    assert exit_code(job) == 0, job.text
    second.stop()
    wait_until_empty(hosts, 0, 1, 2)


@pytest.mark.slow
def test_a_separate_rendezvous_that_other_hosts_cannot_reach_is_reported(
    train: Callable[..., Process], hosts: SshHosts
) -> None:
    command = [FARANDOLE, "rendezvous", "-np", "1", "--min-np", "1", "--secret-file", str(hosts.secret)]
    rendezvous = hosts.start(0, command)
    address = rendezvous.read_until(r"127\.0\.0\.1:\d+").group()
    job = train(1, 1, 1, "-H", "b:1", "--rendezvous", address, FARANDOLE_SECRET_FILE=str(hosts.secret))
    assert exit_code(job) == 1, job.text
    assert "the workers on b cannot reach the rendezvous at 127.0.0.1, which is an address of" in job.text, job.text
    rendezvous.stop()
    wait_until_empty(hosts, 0, 1)


@pytest.mark.slow
def test_the_job_ends_when_too_few_hosts_are_left(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    discovery.print_lines("a:1", "b:1")
    job = train(2, 2, 2, "--host-discovery-script", str(discovery.script), "--elastic-timeout", "20")
    begun(job, 2, 2)
    os.kill(agent_of(hosts, 1, worker_on(job, "b")), signal.SIGKILL)
    assert exit_code(job) != 0, job.text
    assert "host b was lost: " in job.text, job.text
    wait_until_empty(hosts, 0, 1)


@pytest.mark.slow
def test_a_new_host_that_cannot_be_reached_is_reported_once_and_tried_again(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    calls, shell = hosts.shared / "calls", hosts.shared / "shell"
    shell.write_text(f'#!/bin/sh\necho "$1" >>{calls}\nexec {hosts.rsh} "$@"\n')
    shell.chmod(0o755)
    hosts.stop_sshd(2)
    discovery.print_lines("a:1", "b:1")
    job = train(2, 2, 3, FARANDOLE_RSH=str(shell))
    begun(job, 2, 2)
    discovery.print_lines("a:1", "b:1", "c:1")
    wait_until(lambda: calls.read_text().split().count("c") >= 3, "the launcher tries c three times")
    hosts.start_sshd(2)
    assert sorted(begun(job, 3, 3)) == ["a", "b", "c"], job.text
    assert job.text.count("Connection refused") == 1, job.text
    end_training(job, hosts, 3)


def test_no_process_is_left_after_the_death_of_an_elastic_launcher(
    train: Callable[..., Process], hosts: SshHosts, discovery: Discovery
) -> None:
    discovery.print_lines("a:1", "b:1", "c:1")
    job = train(3, 1, 3)
    begun(job, 3, 3)
    workers = [worker_on(job, name) for name in hosts.names]
    kill_launcher(job)
    assert_gone(workers)
    wait_until_empty(hosts, 0, 1, 2)
