"""Modules of ``horovod.runner`` on several hosts, called by a program on host a."""

from __future__ import annotations

import os
from typing import Callable

import pytest
from launched import write_script
from namespaces import Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from workers import SUMS, exit_code, python, wait_until_empty


@pytest.fixture
def call(hosts: SshHosts, launcher_command: None) -> Callable[..., Process]:
    """Starts a Python program on host a. The secret is in a file that all hosts share."""
    secret = hosts.shared / "secret"
    secret.write_text(os.urandom(32).hex())
    secret.chmod(0o600)

    def start(script: str, *arguments: str, rsh: str = "") -> Process:
        environment = {
            "HOME": str(hosts.home),
            "XDG_RUNTIME_DIR": RUNTIME,
            "FARANDOLE_RSH": rsh or hosts.rsh,
            "FARANDOLE_SECRET_FILE": str(secret),
        }
        return hosts.start(0, python(hosts.shared, script, *arguments), environment)

    return start


def test_the_caller_starts_workers_on_other_hosts(call: Callable[..., Process], hosts: SshHosts) -> None:
    """It asks for the interfaces that the hosts have in common first, and reaches all hosts but its own by ssh."""
    folder = hosts.shared / "worker"
    folder.mkdir()
    worker = write_script(folder, SUMS)
    job = call(
        """
        import os, shlex, sys, time
        from horovod.runner import gloo_run
        from horovod.runner.common.util import safe_shell_exec
        from horovod.runner.common.util.settings import Settings
        from horovod.runner.driver.driver_service import get_common_interfaces
        from horovod.runner.util import network

        settings = Settings(hosts="a:1,b:2", num_proc=3)
        nics = get_common_interfaces(settings, ["a", "b"])
        assert nics and "lo" not in nics, nics
        address = network.get_driver_ip(nics)
        remote = network.filter_local_addresses(["a", "b"])
        assert remote == ["b"], remote

        def execute(command, slot, events):
            words = ["sh", "-c", command]
            if slot.hostname in remote:
                words = [*shlex.split(os.environ["FARANDOLE_RSH"]), slot.hostname, command]
            return safe_shell_exec.execute(words, index=slot.rank, events=events), time.time()

        environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        gloo_run.launch_gloo([sys.executable, sys.argv[1]], execute, settings, nics, environment, address)
        print("checked")
        """,
        worker,
    )
    assert exit_code(job) == 0, job.text
    assert "checked" in job.text
    wait_until_empty(hosts, 0, 1, 2)


def test_a_host_that_the_filter_returns_is_reached_by_ssh(call: Callable[..., Process], hosts: SshHosts) -> None:
    """Host a is the host of the launcher."""
    log = hosts.shared / "log"
    shell = hosts.shared / "shell"
    shell.write_text(f'#!/bin/sh\necho "$1" >>{log}\nexec {hosts.rsh} "$@"\n')
    shell.chmod(0o755)
    job = call(
        """
        from horovod.runner import _HorovodArgs, launch
        from horovod.runner.util import network

        network.filter_local_addresses = lambda names: list(names)
        arguments = _HorovodArgs()
        arguments.num_proc, arguments.hosts, arguments.command = 2, "a:1,b:1", ["sh", "-c", "echo on $(hostname)"]
        launch._run(arguments)
        """,
        rsh=str(shell),
    )
    assert exit_code(job) == 0, job.text
    assert sorted(log.read_text().split()) == ["a", "b"]
    assert "[0]<stdout>:on a\n" in job.text and "[1]<stdout>:on b\n" in job.text
    wait_until_empty(hosts, 0, 1, 2)
