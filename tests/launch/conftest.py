"""Hosts with an sshd each, and the check that a test has left nothing on them or on this machine.

Making the hosts needs root; without root the tests are skipped with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from launched import wait_for
from namespaces import FARANDOLE, Process, fixtures
from namespaces.ssh_hosts import SshHosts, running_processes, why_not

sigterm_raises_system_exit = fixtures.sigterm_raises_system_exit

# The time that the processes of a test have to end after it.
ENDING_S = 10.0
MARK = "LAUNCH_TEST_MARK"


@pytest.fixture(scope="session")
def permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def launcher_command() -> None:
    if shutil.which(FARANDOLE) is None:
        pytest.skip(f"{FARANDOLE} is not there")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Records whether the test or its setup has failed."""
    report = yield
    item.stash[_failed] = report.failed or item.stash.get(_failed, False)
    return report


_failed = pytest.StashKey[bool]()


@pytest.fixture
def made_hosts() -> List[SshHosts]:
    """The hosts that the test has made, which `nothing_is_left` checks and removes."""
    return []


@pytest.fixture(autouse=True)
def nothing_is_left(
    request: pytest.FixtureRequest, made_hosts: List[SshHosts], monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """After the test, the process table, /dev/shm, /tmp and the namespaces are as before.

    A test that has failed is not checked: it may have stopped with its job still running.
    """
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    files, namespaces = _files(), _namespaces()

    def left() -> List[str]:
        on_hosts = [line for hosts in made_hosts for line in hosts.leftovers()]
        return on_hosts + _marked(mark, made_hosts) + sorted(_files() - files)

    try:
        yield
        if not request.node.stash.get(_failed, False) and not wait_for(lambda: not left(), ENDING_S):
            pytest.fail("the test has left:\n" + "\n".join(left()))
    finally:
        for hosts in made_hosts:
            hosts.remove()
    assert _namespaces() <= namespaces, f"network namespaces are left: {_namespaces() - namespaces}"


def _marked(mark: str, made_hosts: List[SshHosts]) -> List[str]:
    """The processes outside of the hosts that inherited the environment of the test."""
    on_hosts = {pid for hosts in made_hosts for pid in hosts.pids()}
    found = []
    for pid in running_processes():
        try:
            if f"{MARK}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if pid not in on_hosts:
                    found.append(f"process {pid}: {command}")
        except OSError:  # the process has ended, or even root may not inspect it
            continue
    return found


def _files() -> set[str]:
    """The files of this product in the folders that all processes of this machine share.

    The folder farandole-UID belongs to all jobs of a user.
    """
    found = set()
    for folder in ("/dev/shm", "/tmp"):
        found |= {f"{folder}/{name}" for name in os.listdir(folder) if re.search(r"farandole(?!-\d+$)|horovod", name)}
    return found


def _namespaces() -> set[str]:
    """The names of the network namespaces, without those of other test processes."""
    folder = Path("/run/netns")
    names = {each.name for each in folder.iterdir()} if folder.exists() else set()
    return {name for name in names if not re.match(rf"fdl(?!{os.getpid()}n)\d+", name)}


@pytest.fixture
def hosts(permitted: None, made_hosts: List[SshHosts], tmp_path: Path) -> SshHosts:
    """The hosts a, b and c."""
    made = SshHosts(tmp_path)
    made_hosts.append(made)
    made.make()
    return made


@pytest.fixture
def launch(hosts: SshHosts, launcher_command: None) -> Callable[..., Process]:
    """Starts `farandole run` on host a; see `SshHosts.launch`."""
    return hosts.launch
