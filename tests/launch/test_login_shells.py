"""Login shells of the remote user: bash, tcsh and fish, and startup files that print text."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Callable

import pytest
from namespaces import Process
from namespaces.ssh_hosts import SshHosts
from workers import PLACE, exit_code, lines_about, lines_of

PLACES = ["place a rank 0 of 2 local 0 of 1 cross 0 of 2 on a", "place b rank 1 of 2 local 0 of 1 cross 1 of 2 on b"]
SHELLS = ["bash", "tcsh", "fish"]


def print_at_login(home: Path) -> None:
    """Startup files of all three shells print lines, a part of a line and bytes that are not UTF-8."""
    text = r"""printf 'Welcome!\nsecret: 0123\n\377\376\000 farandole agent\nno newline'; printf 'Error\n' >&2"""
    (home / ".config" / "fish").mkdir(parents=True)
    (home / ".config" / "fish" / "config.fish").write_text("sh -c " + shlex.quote(text) + "\n")
    script = home / "greeting"
    script.write_text(text + "\n")
    for name in (".bashrc", ".cshrc", ".tcshrc"):
        (home / name).write_text(f"sh {script}\n")


@pytest.mark.parametrize("greeting", [pytest.param(False, marks=pytest.mark.slow), True], ids=["silent", "printing"])
@pytest.mark.parametrize("shell", SHELLS)
def test_the_login_shell_does_not_disturb_the_start(
    launch: Callable[..., Process], hosts: SshHosts, shell: str, greeting: bool
) -> None:
    hosts.use_shell(1, f"/usr/bin/{shell}")
    if greeting:
        print_at_login(hosts.home)
    folder = hosts.shared / "it's a folder"
    folder.mkdir()
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", PLACE, folder=folder)
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank) for rank in range(2)] == [[line] for line in PLACES], job.text


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_a_remote_shell_that_is_not_ssh_starts_the_agent_through_any_shell(
    launch: Callable[..., Process], hosts: SshHosts, shell: str
) -> None:
    # HOST COMMAND…: the command runs on the host as sshd would run it, with a shell that gets all words as one.
    cases = "".join(
        f'{name}) exec {shlex.join([*hosts.entering(number), shell, "-c"])} "$*" ;;\n'
        for number, name in enumerate(hosts.names)
    )
    remote_shell = hosts.shared / "remote_shell"
    remote_shell.write_text(f'#!/bin/sh\nhost=$1\nshift\ncase "$host" in\n{cases}esac\nexit 9\n')
    remote_shell.chmod(0o755)
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", PLACE, rsh=str(remote_shell))
    assert exit_code(job) == 0, job.text
    assert [lines_of(job, rank) for rank in range(2)] == [[line] for line in PLACES], job.text
    assert hosts.connections(1) == 0


@pytest.mark.slow
def test_a_login_shell_that_ends_at_once_is_reported_with_its_host(
    launch: Callable[..., Process], hosts: SshHosts
) -> None:
    shell = hosts.shared / "shell"
    shell.write_text("#!/bin/sh\necho 'This account is not available.'\nexit 1\n")
    os.chmod(shell, 0o755)
    hosts.use_shell(1, str(shell))
    job = launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", PLACE)
    assert exit_code(job) == 1, job.text
    assert "This account is not available." in job.text
    assert lines_about(job, "b"), job.text
    assert "place" not in job.text
