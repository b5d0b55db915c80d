"""The hosts of these tests: their names, their sshd and the check that nothing is left on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from launched import wait_until
from namespaces.ssh_hosts import SshHosts


def run(hosts: SshHosts, number: int, *command: str) -> str:
    process = hosts.start(number, list(command), {"HOME": str(hosts.home)})
    assert process.end() == 0, process.text
    return process.text


def test_hosts_have_names_and_reach_each_other_by_ssh(hosts: SshHosts) -> None:
    for number, name in enumerate(hosts.names):
        assert run(hosts, number, "hostname") == f"{name}\n"
        for other in hosts.names:
            assert run(hosts, number, *hosts.rsh.split(), other, "hostname") == f"{other}\n"
    assert [hosts.connections(number) for number in range(3)] == [3, 3, 3]


def test_names_resolve_to_the_addresses_of_the_hosts(hosts: SshHosts) -> None:
    hosts.add_name("b2", 1)
    for name, address in zip([*hosts.names, "b2"], [*hosts.addresses, hosts.addresses[1]]):
        assert run(hosts, 0, "getent", "hosts", name).split() == [address, name]
    assert run(hosts, 0, "ssh", "b2", "hostname") == "b\n"
    assert hosts.start(0, ["getent", "hosts", "nowhere"]).end() == 2


@pytest.mark.parametrize(
    "shell, command, answer",
    [
        ("bash", "echo bash ${BASH_VERSION:+1}", "bash 1\n"),
        ("tcsh", "echo csh $?tcsh", "csh 1\n"),
        ("fish", "echo fish (count one)", "fish 1\n"),
    ],
)
def test_the_login_shell_of_a_host_is_the_one_that_the_test_chose(
    hosts: SshHosts, shell: str, command: str, answer: str
) -> None:
    hosts.use_shell(1, f"/usr/bin/{shell}")
    assert run(hosts, 0, "ssh", "b", command) == answer


def test_a_hidden_folder_is_empty_on_one_host_alone(hosts: SshHosts) -> None:
    folder = hosts.shared / "folder"
    (folder / "inner").mkdir(parents=True)
    hosts.hide(1, folder)
    assert run(hosts, 0, "ls", str(folder)) == "inner\n"
    assert run(hosts, 1, "ls", str(folder)) == ""


def test_what_processes_leave_on_a_host_is_found(hosts: SshHosts) -> None:
    assert hosts.leftovers() == []
    process = hosts.start(0, ["ssh", "b", "touch /tmp/file /dev/shm/memory; echo ready; exec sleep 3600"])
    process.read_until("ready")
    left = hosts.leftovers()
    assert {"b: /tmp/file", "b: /dev/shm/memory"} <= set(left)
    assert any(line.startswith("a: process") and "ssh b" in line for line in left), left
    assert any(line.startswith("b: process") and "sleep 3600" in line for line in left), left
    assert any(line.startswith("b: process") and "sshd: root" in line for line in left), left
    process.kill()
    hosts.stop_sshd(1)
    for process_on_b in hosts.processes(1):
        hosts.start(1, ["kill", "-KILL", str(process_on_b.pid)]).end()
    run(hosts, 1, "rm", "/tmp/file", "/dev/shm/memory")
    wait_until(lambda: hosts.leftovers() == [], "nothing is left")


def test_the_folders_of_a_host_are_its_own(hosts: SshHosts, tmp_path: Path) -> None:
    run(hosts, 1, "touch", "/tmp/farandole-of-b", "/dev/shm/farandole-of-b", str(tmp_path / "shared" / "file"))
    assert not Path("/tmp/farandole-of-b").exists() and not Path("/dev/shm/farandole-of-b").exists()
    assert run(hosts, 0, "ls", str(hosts.shared)) == "file\n"
    assert run(hosts, 0, "ls", "/dev/shm") == ""
    run(hosts, 1, "rm", "/tmp/farandole-of-b", "/dev/shm/farandole-of-b")


def test_a_stopped_sshd_refuses_connections_and_one_without_keys_asks_for_a_password(hosts: SshHosts) -> None:
    hosts.stop_sshd(1)
    refused = hosts.start(0, ["ssh", "b", "true"])
    assert refused.end() == 255 and "Connection refused" in refused.text
    hosts.start_sshd(1, keys=Path("/dev/null"))
    rejected = hosts.start(0, ["ssh", "b", "true"])
    assert rejected.end() == 255 and "Permission denied" in rejected.text
    assert hosts.connections(1) == 0
