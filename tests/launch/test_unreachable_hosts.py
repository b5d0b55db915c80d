"""Hosts on which no agent can be started: the launcher says which and why, and leaves no agent on the others."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Callable, List

import pytest
from launched import DEADLINE_S
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from workers import SILENT, exit_code, lines_about, lines_of, wait_until_empty

STARTED = ["sh", "-c", "echo started"]


def assert_not_connected(job: Process, hosts: SshHosts, *causes: str) -> None:
    """The launcher ends with 1, each cause is in its output, and nothing has started on any host."""
    assert exit_code(job) == 1, job.text
    assert "could not connect to some hosts via ssh" in job.text, job.text
    for cause in causes:
        assert cause in job.text, job.text
    assert "started" not in job.text, job.text
    wait_until_empty(hosts, 0, 2)


def without_name(hosts: SshHosts) -> None:
    """Nothing has to be done: no host has the name."""


def without_sshd(hosts: SshHosts) -> None:
    hosts.stop_sshd(1)


def without_key(hosts: SshHosts) -> None:
    hosts.stop_sshd(1)
    hosts.start_sshd(1, keys=Path("/dev/null"))


def with_another_host_key(hosts: SshHosts) -> None:
    hosts.write_known_hosts({"b": 2})


@pytest.mark.parametrize(
    "host, prepare, cause",
    [
        ("nowhere", without_name, "Could not resolve hostname"),
        ("b", without_sshd, "Connection refused"),
        ("b", without_key, "Permission denied"),
        ("b", with_another_host_key, "Host key verification failed"),
    ],
    ids=["does-not-resolve", "refuses", "wants-a-password", "has-another-key"],
)
def test_an_unreachable_host_is_reported_with_its_cause(
    launch: Callable[..., Process], hosts: SshHosts, host: str, prepare: Callable[[SshHosts], None], cause: str
) -> None:
    prepare(hosts)
    errors = hosts.shared / "errors"
    job = launch("-np", "3", "-H", f"a:1,{host}:1,c:1", *STARTED, shell=f"2>{errors}")
    job.end(DEADLINE_S)
    assert "could not connect" not in job.text  # it is on stderr
    job.text += errors.read_text()
    assert_not_connected(job, hosts, cause)
    assert "tried again" not in job.text and " tries" not in job.text, job.text
    assert lines_about(job, host), job.text
    assert not lines_about(job, "c"), job.text


# Runs a command on a terminal of its own.
ON_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


def test_a_remote_shell_has_no_terminal_on_which_it_could_ask(hosts: SshHosts) -> None:
    shell, log = hosts.shared / "shell", hosts.shared / "log"
    has_terminal = "if (: </dev/tty) 2>/dev/null; then echo terminal; else echo none; fi"
    shell.write_text(f'#!/bin/sh\n{{ {has_terminal}; }} >>{log}\nexec {hosts.rsh} "$@"\n')
    shell.chmod(0o755)
    command = [FARANDOLE, "run", "-np", "2", "-H", "a:1,b:1", "sh", "-c", has_terminal]
    environment = {"HOME": str(hosts.home), "XDG_RUNTIME_DIR": RUNTIME, "FARANDOLE_RSH": str(shell)}
    job = hosts.start(0, [sys.executable, "-c", ON_A_TERMINAL, *command], environment)
    assert exit_code(job) == 0, job.text
    assert [line.strip() for line in lines_of(job, 0)] == ["terminal"], f"the launcher has none itself:\n{job.text}"
    assert log.read_text() == "none\n"


@pytest.mark.slow
def test_all_unreachable_hosts_are_reported_at_once(launch: Callable[..., Process], hosts: SshHosts) -> None:
    hosts.stop_sshd(1)
    job = launch("-np", "4", "-H", "a:1,b:1,nowhere:1,c:1", *STARTED)
    assert_not_connected(job, hosts, "Connection refused", "Could not resolve hostname")
    assert lines_about(job, "b") and lines_about(job, "nowhere"), job.text


@pytest.mark.slow
def test_a_host_that_does_not_answer_is_reported_after_the_start_timeout(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    hosts.stop_sshd(1)
    silent = hosts.start(1, [sys.executable, "-c", SILENT])
    silent.read_until("ready")
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", "--start-timeout", "5", *STARTED)
    assert_not_connected(job, hosts)
    assert lines_about(job, "b"), job.text
    silent.kill()


@pytest.mark.slow
def test_a_host_without_farandole_is_named_with_the_paths(launch: Callable[..., Process], hosts: SshHosts) -> None:
    path = "/nonexistent/farandole"
    own = Path(FARANDOLE).resolve()
    for number in (1, 2):
        hosts.hide(number, own.parent)
    job = launch("-np", "3", "-H", "a:1,b:1,c:1", *STARTED, settings={"FARANDOLE_REMOTE_PROGRAM": path})
    assert exit_code(job) == 127, job.text
    for host in ("b", "c"):
        assert any(f"{own}, farandole on PATH, {path}" in line for line in lines_about(job, host)), job.text
    assert "started" not in job.text
    wait_until_empty(hosts, 0, 1, 2)


@pytest.mark.slow
def test_a_remote_shell_that_does_not_exist_is_named(launch: Callable[..., Process], hosts: SshHosts) -> None:
    job = launch("-np", "2", "-H", "a:1,b:1", *STARTED, rsh="/nonexistent/shell -x")
    assert exit_code(job) != 0, job.text
    assert "/nonexistent/shell" in job.text and "FARANDOLE_RSH" in job.text, job.text
    assert "started" not in job.text


@pytest.mark.slow
def test_a_host_uses_the_path_of_the_launcher_then_its_own_program_then_the_remote_program(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    called = hosts.shared / "called"

    def stand_in(path: Path) -> None:
        """Makes a program that writes its path, and then does the work of farandole."""
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\necho "$0" >>{called}\nexec {hosts.shared}/copy "$@"\n')
        path.chmod(0o755)

    def programs_used() -> List[str]:
        called.write_text("")
        job = launch("-np", "2", "-H", "a:1,b:1", *STARTED, settings={"FARANDOLE_REMOTE_PROGRAM": str(given)})
        assert exit_code(job) == 0, job.text
        return called.read_text().splitlines()

    own = Path(FARANDOLE).resolve()
    shutil.copy(own, hosts.shared / "copy")
    given, on_path = hosts.shared / "the program", hosts.shared / "bin" / "farandole"
    stand_in(given)
    stand_in(on_path)
    (hosts.home / ".bashrc").write_text(f"PATH={on_path.parent}:$PATH\n")
    assert programs_used() == []
    hosts.hide(1, own.parent)
    assert programs_used() == [str(on_path)]
    on_path.unlink()
    assert programs_used() == [str(given)]


@pytest.mark.slow
def test_too_few_slots_are_reported_before_any_host_is_reached(launch: Callable[..., Process], hosts: SshHosts) -> None:
    job = launch("-np", "5", "-H", "a:2,b:2", *STARTED)
    assert exit_code(job) == 2, job.text
    assert re.search(r"\b5\b", job.text) and re.search(r"\b4\b", job.text), job.text
    assert hosts.connections(1) == 0
