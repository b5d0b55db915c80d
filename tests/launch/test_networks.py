"""Hosts in several networks, of which the other hosts reach only some."""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Callable, List

import pytest
from namespaces import Process
from namespaces.ssh_hosts import SshHosts
from workers import (
    SUMS,
    TRAINING,
    begun,
    end_training,
    exit_code,
    lines_about,
    lines_of,
    python,
    wait_until_empty,
    worker_on,
)

# Nothing on the other hosts leads there.
BLIND = "10.220.0.1"

SUM = """
import farandole.numpy as hvd, numpy

hvd.init()
print(f"sum {hvd.allreduce(numpy.ones(3), op=hvd.Sum)[0]} local {hvd.local_size()}")
hvd.shutdown()
"""


@pytest.mark.slow
def test_ranks_of_torchrun_try_all_addresses_of_rank_0(hosts: SshHosts) -> None:
    """As on Debian, the name of the host of rank 0 leads to its loopback interface there."""
    hosts.add_first_address(0, BLIND)
    hosts.write_hosts(0, ["127.0.0.1 localhost", "127.0.1.1 a"])
    place = {"WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    jobs = [hosts.start(rank, python(hosts.shared, SUM), {**place, "RANK": str(rank)}) for rank in range(2)]
    assert [exit_code(job) for job in jobs] == [0, 0], "\n".join(job.text for job in jobs)
    assert [job.text.splitlines()[-1] for job in jobs] == ["sum 2.0 local 1"] * 2, [job.text for job in jobs]


@pytest.fixture
def blind(hosts: SshHosts) -> SshHosts:
    """The launcher on host a offers an address that the others cannot reach; b and c reach each other."""
    hosts.add_address(0, f"{BLIND}/32")
    for number in (1, 2):
        hosts.add_address(number, f"10.221.0.{number}/24")
    return hosts


WANTED = ["--network-interfaces", "10.220.0.0/16,10.221.0.0/16"]
"""Without the network in which a reaches the others by ssh."""


def test_agents_and_workers_reach_the_launcher_through_ssh_where_its_addresses_cannot_be_reached(
    blind: SshHosts, launch: Callable[..., Process]
) -> None:
    job = launch("-np", "2", "-H", "b:1,c:1", *WANTED, *python(blind.shared, SUM))
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank) for rank in range(2)] == [["sum 2.0 local 1"]] * 2, job.text
    wait_until_empty(blind, 0, 1, 2)
    # One connection that failed to reach the launcher, and one with forwarded ports.
    assert [blind.connections(number) for number in (1, 2)] == [2, 2]


@pytest.mark.parametrize("placed, missing", [("a:1,b:1", "this host"), ("b:1,c:1", "c")])
def test_hosts_that_have_no_wanted_network_are_named_with_the_reason_for_each_address(
    launch: Callable[..., Process], placed: str, missing: str
) -> None:
    job = launch("-np", "2", "-H", placed, "--network-interfaces", "10.99.0.0/16", "sh", "-c", "echo started")
    assert exit_code(job) == 1, job.text
    assert "some hosts have no address at which the others can reach them in 10.99.0.0/16:\n" in job.text, job.text
    assert f"\n  {missing}:\n" in job.text, job.text
    assert "it is not in 10.99.0.0/16 (--network-interfaces)\n" in job.text, job.text
    assert "started" not in job.text


@pytest.fixture
def apart(hosts: SshHosts) -> SshHosts:
    """The hosts accept from each other only what belongs to ssh in their common network, so b and c reach the launcher
    through ssh alone."""
    for number in range(3):
        for rule in (
            "add pref 10 lookup local",
            "del pref 0",
            "add pref 1 to 10.219.7.0/24 dev net0 ipproto 6 dport 22 lookup local",
            "add pref 2 to 10.219.7.0/24 dev net0 ipproto 6 sport 22 lookup local",
            "add pref 3 to 10.219.7.0/24 dev net0 ipproto 6 prohibit",
        ):
            process = hosts.start(number, ["ip", "rule", *rule.split()])
            assert process.end() == 0, process.text
    return hosts


TESTED = [
    "Testing interfaces on all the hosts.",
    "Waiting for hosts to perform host-to-host interface checking.",
]
SUCCESSFUL = "Host-to-host interface checking successful."


def test_workers_use_the_addresses_that_other_hosts_reach(apart: SshHosts, launch: Callable[..., Process]) -> None:
    """No network is named, and the first network of b and c leads nowhere."""
    for number in (1, 2):
        apart.add_address(number, f"10.221.0.{number}/24")
    job = launch("-np", "2", "-H", "b:1,c:1", "--verbose", *python(apart.shared, SUM))
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank) for rank in range(2)] == [["sum 2.0 local 1"]] * 2, job.text
    said = job.text.splitlines()
    assert [line for line in said if line in [*TESTED, SUCCESSFUL]] == [*TESTED, SUCCESSFUL], job.text
    wait_until_empty(apart, 0, 1, 2)


def add_blind_interface(hosts: SshHosts, number: int) -> None:
    """Gives a host an interface whose network has the addresses of all hosts, and no way to them."""
    for words in (
        "link add blind0 type veth peer name blind1",
        f"addr add 10.222.0.{number}/24 dev blind0",
        "link set blind0 up",
        "link set blind1 up",
    ):
        process = hosts.start(number, ["ip", *words.split()])
        assert process.end() == 0, process.text


@pytest.mark.slow
@pytest.mark.parametrize("path", ["gloo", "ucx"])
def test_data_paths_of_other_libraries_use_the_interface_that_other_hosts_reach(
    hosts: SshHosts, launch: Callable[..., Process], path: str
) -> None:
    for number in (1, 2):
        add_blind_interface(hosts, number)
    settings = {"FARANDOLE_CPU_PATH": path, "FARANDOLE_TRUSTED_NETWORK": "1"}
    job = launch("-np", "2", "-H", "b:1,c:1", "--verbose", *python(hosts.shared, SUMS), settings=settings)
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank)[-1] for rank in range(2)] == ["local 0 of 1 on b", "local 0 of 1 on c"], job.text
    assert SUCCESSFUL in job.text, job.text
    wait_until_empty(hosts, 0, 1, 2)


@pytest.mark.slow
def test_gloo_uses_the_address_that_other_hosts_reach(apart: SshHosts, launch: Callable[..., Process]) -> None:
    for number in (1, 2):
        apart.add_first_address(number, f"10.222.0.{number}")
        apart.add_address(number, f"10.221.0.{number}/24")
    settings = {"FARANDOLE_CPU_PATH": "gloo", "FARANDOLE_TRUSTED_NETWORK": "1"}
    job = launch("-np", "2", "-H", "b:1,c:1", *python(apart.shared, SUMS), settings=settings)
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank)[-1] for rank in range(2)] == ["local 0 of 1 on b", "local 0 of 1 on c"], job.text


@pytest.mark.slow
def test_ucx_names_the_address_that_it_takes_instead(apart: SshHosts, launch: Callable[..., Process]) -> None:
    for number in (1, 2):
        apart.add_first_address(number, f"10.222.0.{number}")
        apart.add_address(number, f"10.221.0.{number}/24")
    settings = {"FARANDOLE_CPU_PATH": "ucx", "FARANDOLE_TRUSTED_NETWORK": "1"}
    job = launch("-np", "2", "-H", "b:1,c:1", *python(apart.shared, SUMS), settings=settings)
    assert exit_code(job) == 1, job.text
    assert re.search("UCX uses 10.222.0.[12], the first address of net0 on this host, and not 10.221.0.", job.text)
    wait_until_empty(apart, 0, 1, 2)


def test_hosts_that_do_not_reach_each_other_are_reported_before_any_worker_starts(
    apart: SshHosts, launch: Callable[..., Process]
) -> None:
    apart.add_address(1, "10.222.0.1/24")
    apart.add_address(2, "10.223.0.2/24")
    job = launch("-np", "2", "-H", "b:1,c:1", "--verbose", "sh", "-c", "echo started")
    assert exit_code(job) == 1, job.text
    assert "started" not in job.text
    for address, reporter in (
        (apart.addresses[1], "c"),
        ("10.222.0.1", "c"),
        (apart.addresses[2], "b"),
        ("10.223.0.2", "b"),
    ):
        assert re.search(rf"^ +net0 {re.escape(address)}: {reporter} cannot reach it: ", job.text, re.M), job.text
    assert "--network-interfaces" in job.text and "docs/guides/firewalls.md" in job.text, job.text
    assert TESTED[1] in job.text and SUCCESSFUL not in job.text, job.text
    wait_until_empty(apart, 0, 1, 2)


def test_workers_on_the_launchers_host_use_an_address_that_other_hosts_reach(
    hosts: SshHosts, launch: Callable[..., Process]
) -> None:
    hosts.add_first_address(0, BLIND)
    hosts.add_first_address(1, "10.221.0.1")
    job = launch("-np", "2", "-H", "a:1,b:1", "--verbose", *python(hosts.shared, SUM))
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank)[-1] for rank in range(2)] == ["sum 2.0 local 1"] * 2, job.text
    assert SUCCESSFUL in job.text, job.text


def test_hosts_whose_addresses_are_certain_test_nothing(hosts: SshHosts, launch: Callable[..., Process]) -> None:
    job = launch("-np", "2", "-H", "b:1,c:1", "--verbose", "true")
    assert exit_code(job) == 0, job.text
    assert not any(line in job.text for line in [*TESTED, SUCCESSFUL]), job.text


def test_workers_get_the_names_of_the_interfaces_of_their_host(hosts: SshHosts, launch: Callable[..., Process]) -> None:
    hosts.rename_interface(1, "fast0")
    told = 'echo "$HOROVOD_GLOO_IFACE $NCCL_SOCKET_IFNAME"'
    for named in ("net0,fast0", "10.219.7.0/24"):
        job = launch("-np", "2", "-H", "a:1,b:1", "--network-interfaces", named, "sh", "-c", told)
        assert exit_code(job) == 0, job.text
        assert [lines_of(job, rank) for rank in range(2)] == [["net0 net0"], ["fast0 fast0"]], (named, job.text)


@pytest.mark.slow
def test_a_host_without_forwarding_is_reported_with_both_causes(
    blind: SshHosts, launch: Callable[..., Process]
) -> None:
    blind.stop_sshd(2)
    blind.start_sshd(2, lines=["AllowTcpForwarding no"])
    job = launch("-np", "2", "-H", "b:1,c:1", *WANTED, "sh", "-c", "echo started")
    assert exit_code(job) == 1, job.text
    assert lines_about(job, "c"), job.text
    assert "the launcher cannot be reached" in job.text and f"{BLIND}:" in job.text, job.text
    assert "remote port forwarding failed" in job.text, job.text
    assert "started" not in job.text
    wait_until_empty(blind, 0, 1, 2)


@pytest.mark.slow
def test_a_worker_of_an_elastic_job_that_is_replaced_joins_through_ssh(
    blind: SshHosts, launch: Callable[..., Process]
) -> None:
    sizes = ["-np", "2", "--min-np", "1", "--max-np", "2", "--blacklist-cooldown-range", "1", "1"]
    training = python(blind.shared, TRAINING, str(blind.shared / "enough"))
    job = launch(*sizes, "-H", "b:1,c:1", *WANTED, *training)
    assert sorted(begun(job, 2, 2)) == ["b", "c"], job.text
    os.kill(worker_on(job, "c"), signal.SIGKILL)
    assert sorted(begun(job, 2, 4))[2:] == ["c", "c"], job.text
    end_training(job, blind, 2)


@pytest.fixture
def ipv6_hosts(permitted: None, made_hosts: List[SshHosts], launcher_command: None, tmp_path: Path) -> SshHosts:
    """Hosts that have no IPv4 address but that of the loopback interface."""
    made = SshHosts(tmp_path, has_only_ipv6=True)
    made_hosts.append(made)
    made.make()
    return made


@pytest.mark.slow
def test_mpirun_starts_the_workers_of_hosts_with_only_ipv6_addresses(ipv6_hosts: SshHosts) -> None:
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not on PATH")
    own = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    command = ["--mpi", "-np", "2", "-H", "a:1,b:1", *python(ipv6_hosts.shared, SUM)]
    for data in ({}, {"FARANDOLE_CPU_PATH": "mpi", "FARANDOLE_TRUSTED_NETWORK": "1"}):
        job = ipv6_hosts.launch(*command, settings={**own, **data})
        assert exit_code(job) == 0, (data, job.text)
        assert job.text.count("sum 2.0 local 1") == 2, (data, job.text)


@pytest.mark.slow
def test_hosts_with_only_ipv6_addresses_run_jobs_on_every_path(ipv6_hosts: SshHosts) -> None:
    for path in ("auto", "ucx", "gloo"):
        settings = {} if path == "auto" else {"FARANDOLE_CPU_PATH": path, "FARANDOLE_TRUSTED_NETWORK": "1"}
        command = python(ipv6_hosts.shared, SUMS)
        job = ipv6_hosts.launch("-np", "4", "-H", "a:2,b:2", *command, settings=settings)
        assert exit_code(job) == 0, (path, job.text)
        places = [lines_of(job, rank)[-1] for rank in (1, 3)]
        assert places == ["local 1 of 2 on a", "local 1 of 2 on b"], (path, job.text)
    wait_until_empty(ipv6_hosts, 0, 1, 2)
