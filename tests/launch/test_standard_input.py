"""`--stdin RANK`: one worker, also on another host, gets the launcher's standard input."""

from __future__ import annotations

import hashlib
import os
import secrets
import select
import time
from pathlib import Path
from typing import Callable, Iterator

import pytest
from launched import DEADLINE_S
from namespaces import Process
from namespaces.ssh_hosts import SshHosts
from workers import exit_code, lines_of, python

KIB, MIB = 1 << 10, 1 << 20
RANKS = [pytest.param(0, id="own-host", marks=pytest.mark.slow), pytest.param(1, id="other-host")]
"""The rank that gets the input."""

# Rank 1 stops in the debugger twice.
DEBUGGED = """
import os
value = 41
for turn in range(2):
    if os.environ["HOROVOD_RANK"] == "1":
        breakpoint()
    print("went on with", value, flush=True)
"""


class Keyboard:
    """A pipe with a name, from which a launcher reads while the test writes."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.redirection = f"<{path}"
        # Open in both directions, so that neither this nor the launcher's shell waits for the other.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._open = True

    def type(self, text: str) -> None:
        assert os.write(self._descriptor, text.encode()) == len(text)

    def fill(self, expected: int) -> int:
        """Writes at least so many bytes, and on until nothing is taken for a while; the number of bytes."""
        written = looks = 0
        end = time.monotonic() + DEADLINE_S
        while looks < 20 and written < 8 * MIB:
            _, writable, _ = select.select([], [self._descriptor], [], 0.05)
            looks = 0 if writable or written < expected else looks + 1
            assert time.monotonic() < end, f"{written} bytes were taken within {DEADLINE_S} s"
            if writable:
                written += os.write(self._descriptor, b"x" * 4096)
        return written

    def close(self) -> None:
        if self._open:
            os.close(self._descriptor)
        self._open = False


@pytest.fixture
def keyboard(hosts: SshHosts) -> Iterator[Keyboard]:
    made = Keyboard(hosts.shared / "keyboard")
    yield made
    made.close()


def test_breakpoint_works_in_a_worker_on_another_host(
    launch: Callable[..., Process], hosts: SshHosts, keyboard: Keyboard
) -> None:
    command = python(hosts.shared, DEBUGGED)
    job = launch("-np", "2", "-H", "a:1,b:1", "--stdin", "1", *command, shell=keyboard.redirection)
    # What a debugger asks is written at once, so a line of the other rank may follow it before the answer does.
    job.read_until(r"^\[1\]<stdout>:\(Pdb\) ")
    keyboard.type("p value + 1\n")
    job.read_until(r"(?:\(Pdb\) |^)42$")
    keyboard.type("value = 7\n")
    keyboard.type("continue\n")
    job.read_matches(r"\(Pdb\) ", 4)  # the debugger has stopped again
    assert "went on with 7" in job.text, job.text
    keyboard.close()  # to a debugger, the end of the input is the end of the program
    assert exit_code(job) == 1, job.text
    assert "bdb.BdbQuit" in job.text, job.text
    assert job.text.count("[0]<stdout>:went on with 41\n") == 2, job.text


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("elastic", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["fixed", "elastic"])
def test_all_bytes_of_the_input_go_to_one_worker_and_none_to_the_other(
    launch: Callable[..., Process], hosts: SshHosts, rank: int, elastic: bool
) -> None:
    source = hosts.shared / "source"
    source.write_bytes(secrets.token_bytes(5 * MIB))
    sizes = ["-np", "2", "-H", "a:1,b:1", *(["--min-np", "2"] if elastic else [])]
    command = ["sh", "-c", "sha256sum | cut -c 1-64; hostname"]
    job = launch(*sizes, "--stdin", str(rank), *command, shell=f"<{source}")
    assert exit_code(job) == 0, job.text
    digests = [hashlib.sha256(source.read_bytes() if each == rank else b"").hexdigest() for each in range(2)]
    assert [lines_of(job, each) for each in range(2)] == [[digests[0], "a"], [digests[1], "b"]], job.text


@pytest.mark.parametrize("rank", RANKS)
def test_a_worker_that_does_not_read_holds_the_input_back(
    launch: Callable[..., Process], hosts: SshHosts, keyboard: Keyboard, rank: int
) -> None:
    go = hosts.shared / "go"
    script = f"echo ready; until test -e {go}; do sleep 0.05; done; wc -c"
    job = launch(
        *("-np", "2", "-H", "a:1,b:1", "--stdin", str(rank)), *("sh", "-c", script), shell=keyboard.redirection
    )
    job.read_matches("ready", 2)
    written = keyboard.fill(MIB)
    # One MiB on the way, and the pipes of the launcher and of the worker.
    assert written <= MIB + 2 * 64 * KIB, written
    go.touch()
    keyboard.close()
    assert exit_code(job) == 0, job.text
    assert lines_of(job, rank) == ["ready", str(written)], job.text


def test_the_input_of_a_worker_that_has_ended_is_left_to_others(
    launch: Callable[..., Process], hosts: SshHosts, keyboard: Keyboard
) -> None:
    job = launch(
        "-np", "1", "-H", "b:1", "--stdin", "0", "sh", "-c", "read line; echo got $line", shell=keyboard.redirection
    )
    keyboard.type("hello\n")
    assert exit_code(job) == 0, job.text  # although the input is still open
    assert lines_of(job, 0) == ["got hello"], job.text
