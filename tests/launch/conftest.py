"""Hosts with an sshd each, and the check that a test has left nothing on them or on this machine.

The check looks only at what a test has made itself. Other jobs and tests may run on the machine at the same time, so
processes carry a mark in their environment, and temporary files are in a folder of the test. `tools/test` finds the
network namespaces that are left at the end of a run.

Making the hosts needs root; without root the tests are skipped with the reason.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Callable, Iterator, List

import pytest
from launched import DEADLINE_S, wait_for
from namespaces import FARANDOLE, Process, fixtures
from namespaces.ssh_hosts import SshHosts, why_not
from testing.processes import marked

sigterm_raises_system_exit = fixtures.sigterm_raises_system_exit


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


@pytest.fixture
def temporary(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files of the processes of this test that do not run on one of its hosts.

    Each host has a /tmp of its own, so a test with hosts does not change TMPDIR. The path is short, because launchers
    put sockets there.
    """
    folder = Path(tempfile.mkdtemp(prefix="launch-test-"))
    if "hosts" not in request.fixturenames:
        monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_is_left(
    request: pytest.FixtureRequest, made_hosts: List[SshHosts], temporary: Path, mark_of_test: str
) -> Iterator[None]:
    """After the test, nothing is left of what carries its mark: processes, and files on its hosts, which have a /tmp
    and a /dev/shm of their own, or else in its folder for temporary files.

    A test that has failed is not checked: it may have stopped with its job still running.
    """

    def left() -> List[str]:
        on_hosts = [line for hosts in made_hosts for line in hosts.leftovers()]
        return on_hosts + _marked(mark_of_test, made_hosts) + _files(temporary)

    try:
        yield
        if not request.node.stash.get(_failed, False) and not wait_for(lambda: not left(), DEADLINE_S):
            pytest.fail("the test has left:\n" + "\n".join(left()))
    finally:
        for hosts in made_hosts:
            hosts.remove()


def _marked(mark: str, made_hosts: List[SshHosts]) -> List[str]:
    """The processes outside of the hosts that inherited the environment of the test."""
    on_hosts = {pid for hosts in made_hosts for pid in hosts.pids()}
    return [process for pid, process in marked(mark).items() if pid not in on_hosts]


def _files(folder: Path) -> List[str]:
    """The files and folders of this product in a folder for temporary files.

    The folder farandole-UID belongs to all jobs of a user and stays, without files.
    """
    found = []
    for path in sorted(folder.rglob("*")):
        of_product = re.search("farandole|horovod", str(path.relative_to(folder)))
        if of_product and not re.fullmatch(r"farandole-\d+", path.name):
            found.append(str(path))
    return found


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
