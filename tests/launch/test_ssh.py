"""Workers that the launcher starts on other hosts by ssh: their places, exit codes and the way to the hosts."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Callable, List, Optional

import pytest
from launched import SURVIVORS_REPORT, wait_until
from namespaces import Process
from namespaces.ssh_hosts import SshHosts, make_key
from workers import PLACE, SUMS, exit_code, lines_about, lines_of, python


def place(host: str, rank: int, size: int, local: str, cross: str, machine: str = "") -> str:
    return f"place {host} rank {rank} of {size} local {local} cross {cross} on {machine or host}"


def test_workers_on_two_hosts_get_their_places(launch: Callable[..., Process]) -> None:
    job = launch("-np", "4", "-H", "a:2,b:2", "sh", "-c", PLACE)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == [place("a", 0, 4, "0 of 2", "0 of 2")], job.text
    assert lines_of(job, 1) == [place("a", 1, 4, "1 of 2", "0 of 2")], job.text
    assert lines_of(job, 2) == [place("b", 2, 4, "0 of 2", "1 of 2")], job.text
    assert lines_of(job, 3) == [place("b", 3, 4, "1 of 2", "1 of 2")], job.text


def test_hosts_need_not_have_the_same_number_of_workers(launch: Callable[..., Process]) -> None:
    job = launch("-np", "4", "-H", "b:1,a:2,c:2", "sh", "-c", PLACE)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == [place("b", 0, 4, "0 of 1", "0 of 3")], job.text
    assert lines_of(job, 1) == [place("a", 1, 4, "0 of 2", "1 of 3")], job.text
    assert lines_of(job, 2) == [place("a", 2, 4, "1 of 2", "0 of 1")], job.text
    assert lines_of(job, 3) == [place("c", 3, 4, "0 of 1", "2 of 3")], job.text


def test_a_job_may_run_on_other_hosts_alone(launch: Callable[..., Process], hosts: SshHosts) -> None:
    file = hosts.shared / "hostfile"
    file.write_text("b slots=1\n\nc slots=1\n")
    job = launch("-np", "2", "-hostfile", str(file), "sh", "-c", PLACE)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == [place("b", 0, 2, "0 of 1", "0 of 2")], job.text
    assert lines_of(job, 1) == [place("c", 1, 2, "0 of 1", "1 of 2")], job.text


@pytest.mark.parametrize("placement", ["a:2,b:2", "b:1,c:1", "b:2,a:1"])
def test_members_on_several_hosts_compute_the_sums(
    launch: Callable[..., Process], hosts: SshHosts, placement: str
) -> None:
    size = sum(int(entry.split(":")[1]) for entry in placement.split(","))
    job = launch("-np", str(size), "-H", placement, *python(hosts.shared, SUMS))
    assert exit_code(job) == 0, job.text
    assert job.text.count("]<stdout>:local ") + job.text.count("]<stdout>: local ") == size, job.text


def test_two_names_of_one_host_are_one_host(launch: Callable[..., Process], hosts: SshHosts) -> None:
    hosts.add_name("b2", 1)
    job = launch("-np", "3", "-H", "a:1,b:1,b2:1", *python(hosts.shared, SUMS))
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == ["local 0 of 1 on a"], job.text
    assert lines_of(job, 1) == ["local 0 of 2 on b"], job.text
    assert lines_of(job, 2) == ["local 1 of 2 on b2"], job.text
    assert lines_about(job, "b") and lines_about(job, "b2"), job.text


def test_each_host_gets_one_connection_and_this_host_none(launch: Callable[..., Process], hosts: SshHosts) -> None:
    job = launch("-np", "5", "-H", "a:2,b:3", "true")
    assert exit_code(job) == 0, job.text
    assert [hosts.connections(number) for number in range(3)] == [0, 1, 0]


def test_a_job_on_this_host_alone_needs_no_remote_shell(launch: Callable[..., Process]) -> None:
    job = launch("-np", "2", "-H", "a:1,localhost:1", "sh", "-c", "echo here", rsh="/nonexistent/shell")
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == lines_of(job, 1) == ["here"], job.text


def test_no_worker_starts_before_all_hosts_have_their_agents(launch: Callable[..., Process], hosts: SshHosts) -> None:
    # The remote shell to b waits; the agent of c is connected meanwhile. Both hosts have the same clock.
    asked, gate = hosts.shared / "asked", hosts.shared / "gate"
    os.mkfifo(gate)
    shell = hosts.shared / "shell"
    shell.write_text(
        f'#!/bin/sh\nif [ "$1" = b ]; then : >{asked}; cat {gate} >/dev/null; date +%s%N >{hosts.shared}/let_go; fi\n'
        f'exec {hosts.rsh} "$@"\n'
    )
    shell.chmod(0o755)
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", "date", "+began %s%N", rsh=str(shell))
    wait_until(asked.exists, "the launcher reaches for b")
    wait_until(lambda: hosts.dialled_by(2) != [], "the agent of c is connected to the launcher")
    wait_until(lambda: opened(gate), "the remote shell waits")
    assert exit_code(job) == 0, job.text
    let_go = int((hosts.shared / "let_go").read_text())
    for rank in range(3):
        word, began = lines_of(job, rank)[0].split()
        assert word == "began" and int(began) > let_go, f"rank {rank} began before b had its agent:\n{job.text}"


def opened(pipe: Path) -> bool:
    """Opens a named pipe for a moment, so that its reader comes to the end; False where it has no reader."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as refused:
        if refused.errno != errno.ENXIO:
            raise
        return False
    return True


def test_the_remote_shell_is_ssh_by_default(launch: Callable[..., Process], hosts: SshHosts) -> None:
    job = launch("-np", "2", "-H", "a:1,b:1", "hostname", rsh="")
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 1) == ["b"], job.text
    assert hosts.connections(1) == 1


@pytest.mark.parametrize(
    "options, rsh",
    [(["-p", "-i"], ""), (["--ssh-port", "--ssh-identity-file"], None)],
    ids=["by-default", "with-FARANDOLE_RSH"],
)
def test_port_and_key_of_the_command_line_are_used(
    launch: Callable[..., Process], hosts: SshHosts, options: List[str], rsh: Optional[str]
) -> None:
    key = hosts.shared / "other_key"
    make_key(key)
    hosts.stop_sshd(1)
    hosts.start_sshd(1, port=2222, keys=key.with_suffix(".pub"))
    # ssh finds the key of a host on another port than 22 under another name.
    known = hosts.home / ".ssh" / "known_hosts"
    known.write_text(known.read_text().replace("b ssh-", "[b]:2222 ssh-"))
    port, identity = options
    job = launch("-np", "2", "-H", "a:1,b:1", port, "2222", identity, str(key), "hostname", rsh=rsh)
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 1) == ["b"], job.text


def test_hosts_may_be_aliases_of_the_configuration_of_ssh(launch: Callable[..., Process], hosts: SshHosts) -> None:
    """The names are in the configuration alone: two ports of host b, and host c, which is reached through b."""
    hosts.stop_sshd(1)
    hosts.start_sshd(1, lines=["Port 2222"])  # besides the usual port
    aliases = {"near": "HostName b", "other": "HostName b\n  Port 2222", "far": "HostName c\n  ProxyJump near"}
    before = "".join(
        f"Host {alias}\n  {lines}\n  HostKeyAlias {lines.split()[1]}\n" for alias, lines in aliases.items()
    )
    hosts.ssh_config.write_text(before + hosts.ssh_config.read_text())
    job = launch("-np", "3", "-H", "near:1,other:1,far:1", *python(hosts.shared, SUMS))
    assert exit_code(job) == 0, job.text
    expected = [["local 0 of 2 on near"], ["local 1 of 2 on other"], ["local 0 of 1 on far"]]
    assert [lines_of(job, rank) for rank in range(3)] == expected, job.text
    log = hosts.log(1).read_text()
    assert [log.count(f" on {hosts.addresses[1]} port {port} ") for port in (22, 2222)] == [2, 1], log
    assert re.findall(r"Accepted publickey for root from (\S+)", hosts.log(2).read_text()) == [hosts.addresses[1]]


@pytest.mark.parametrize("variable", ["FARANDOLE_RSH", "OMPI_MCA_plm_rsh_agent"])
def test_another_remote_shell_is_called_with_host_and_command(
    launch: Callable[..., Process], hosts: SshHosts, variable: str
) -> None:
    shell = hosts.shared / "shell"
    shell.write_text(f'#!/bin/sh\necho "$1" >>{hosts.shared}/called\nexec {hosts.rsh} "$@"\n')
    shell.chmod(0o755)
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", "hostname", rsh="", settings={variable: str(shell)})
    assert exit_code(job) == 0, job.text
    assert (lines_of(job, 1), lines_of(job, 2)) == (["b"], ["c"]), job.text
    assert sorted((hosts.shared / "called").read_text().split()) == ["b", "c"]


# The lines that log scrapers look for, in the order in which they become true.
VERBOSE = [
    r"Filtering local host names\.",
    r"Remote host found: b",
    r"Launched horovod server\.",
    r"Checking ssh on all remote hosts\.",
    r"Waiting for the hosts to acknowledge\.",
    r"Launching horovod task function: .* b .*farandole agent --launcher .*--host b.*",
    r"Attempted to launch horovod task servers\.",
    r"SSH was successful into all the remote hosts\.",
    r"Notified all the hosts that the registration is complete\.",
    r"Interfaces on all the hosts were successfully checked\.",
    r"Common interface found: \S+",
]


def test_verbose_lines_tell_each_step_of_a_start_on_several_hosts(launch: Callable[..., Process]) -> None:
    job = launch("-np", "2", "-H", "a:1,b:1", "--verbose", "true")
    assert exit_code(job) == 0, job.text
    lines = job.text.splitlines()
    found = [pattern for line in lines for pattern in VERBOSE if re.fullmatch(pattern, line)]
    assert found == VERBOSE, job.text
    assert not any(line.startswith(("All hosts are local", "Local interface found")) for line in lines), job.text


@pytest.mark.parametrize("code", [7, 1, 255])
def test_the_job_exits_with_the_code_of_a_remote_worker(launch: Callable[..., Process], code: int) -> None:
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", f'test "$HOROVOD_RANK" = 0 || exit {code}')
    assert exit_code(job) == code, job.text
    assert f"Exit code: {code}" in job.text


@pytest.mark.slow
def test_a_remote_worker_that_ends_before_init_is_named_by_the_ranks_that_wait_for_it(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    script = "import os, sys\nif os.environ['HOROVOD_RANK'] == '1':\n    sys.exit(5)\n" + SUMS
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", *python(hosts.shared, script), settings=SURVIVORS_REPORT)
    assert exit_code(job) == 5, job.text
    for rank in (0, 2):
        (line,) = lines_of(job, rank, "stderr")
        assert "slot 1 exited with code 5" in line, job.text
    assert "Process name: 1\nExit code: 5\nCause: Process 1 on b exited with code 5\n" in job.text, job.text


def test_a_remote_worker_that_a_signal_kills_gives_128_plus_the_signal(launch: Callable[..., Process]) -> None:
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", 'test "$HOROVOD_RANK" = 0 || kill -KILL $$')
    assert exit_code(job) == 137, job.text


def test_a_command_that_a_host_lacks_gives_127_and_names_host_and_path(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    folder = hosts.shared / "programs"
    folder.mkdir()
    program = folder / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    hosts.hide(1, folder)
    job = launch("-np", "2", "-H", "a:1,b:1", str(program))
    assert exit_code(job) == 127, job.text
    assert any(str(program) in line for line in lines_about(job, "b")), job.text


def test_two_jobs_on_the_same_hosts_do_not_mix(launch: Callable[..., Process], hosts: SshHosts) -> None:
    command = python(hosts.shared, SUMS)
    first = launch("-np", "2", "-H", "a:1,b:1", *command)
    second = launch("-np", "3", "-H", "b:1,a:2", *command)
    assert exit_code(first) == 0, first.text
    assert exit_code(second) == 0, second.text
