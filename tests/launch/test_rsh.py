"""`farandole rsh HOST COMMAND`: a command on a host of a running job, through the host's agent."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from typing import Callable, Iterator, List

import pytest
from launched import DEADLINE_S, wait_until
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import RUNTIME, SshHosts
from workers import ENDLESS, exit_code, pids_of, wait_until_empty

MIB = 1 << 20


class Job:
    """A job on the hosts a and b that runs until the test ends it."""

    def __init__(self, hosts: SshHosts, job: Process) -> None:
        self.hosts = hosts
        self.process = job
        self.workers = pids_of(job, 2)

    def rsh(self, *words: str, shell: str = "") -> Process:
        """Runs `farandole rsh` with these words on host a; ``shell`` is appended to the command line."""
        line = f"exec {shlex.join([FARANDOLE, 'rsh', *words])} {shell}"
        return self.hosts.start(0, ["sh", "-c", line], {"XDG_RUNTIME_DIR": RUNTIME})

    def command_runs(self, word: str) -> bool:
        """Whether a process on host b has this word in its command line."""
        return any(word in each.command for each in self.hosts.processes(1))


@pytest.fixture
def job(launch: Callable[..., Process], hosts: SshHosts) -> Iterator[Job]:
    made = Job(hosts, launch("-np", "2", "-H", "a:1,b:1", "sh", "-c", ENDLESS))
    yield made
    if not made.process.has_ended():
        made.process.stop()


def ended(process: Process) -> List[object]:
    """The exit code of a command, and what it has printed."""
    code = process.end(DEADLINE_S)
    return [code, process.text]


def test_a_command_runs_on_a_host_with_the_streams_and_the_exit_code_of_rsh(job: Job) -> None:
    errors, source = job.hosts.shared / "errors", job.hosts.shared / "source"
    source.write_bytes(os.urandom(4 * MIB))
    assert ended(job.rsh("b", "hostname; pwd; exit 3")) == [3, f"b\n{job.hosts.shared}\n"]
    assert ended(job.rsh("b", "echo", "two  words", "$((6", "*", "7))")) == [0, "two words 42\n"]  # as in ssh
    copy = job.hosts.shared / "copy"
    assert ended(job.rsh("b", "cat; echo bad >&2", shell=f"<{source} >{copy} 2>{errors}")) == [0, ""]
    assert copy.read_bytes() == source.read_bytes()
    assert errors.read_text() == "bad\n"
    assert ended(job.rsh("b", "kill -9 $$", shell="</dev/null")) == [137, ""]
    assert ended(job.rsh("b", "no-such-program", shell="2>/dev/null")) == [127, ""]
    assert ended(job.rsh("b", "--", "-no-such-program", shell="2>/dev/null")) == [127, ""]  # no option of the shell
    assert ended(job.rsh("b", "yes", shell="| head -n 1")) == [0, "y\n"]  # SIGPIPE ends the command, without a message
    assert job.hosts.connections(1) == 1  # no further login


@pytest.mark.slow
def test_a_command_runs_on_the_launchers_own_host(job: Job) -> None:
    assert ended(job.rsh("a", "cat; hostname; exit 4", shell="</dev/null")) == [4, "a\n"]


@pytest.mark.slow
def test_signals_and_the_death_of_rsh_reach_the_command(job: Job) -> None:
    asked = job.rsh("b", "trap 'echo asked; exit 5' INT; echo ready; while :; do sleep 0.05; done")
    asked.read_until("ready")
    os.kill(asked.pid, signal.SIGINT)
    assert ended(asked) == [5, "ready\nasked\n"]
    killed = job.rsh("b", "exec sleep 3333")
    wait_until(lambda: job.command_runs("sleep 3333"), "the command runs")
    os.kill(killed.pid, signal.SIGKILL)
    killed.end(DEADLINE_S)
    wait_until(lambda: not job.command_runs("sleep 3333"), "the command ends")
    # This one waits in its own write, because nothing reads its output. The agent can end nevertheless.
    unread = job.rsh("b", "yes unread", shell="| sleep 3333")
    wait_until(lambda: job.command_runs("yes unread"), "the command runs")
    unread.kill()
    wait_until(lambda: not job.command_runs("yes unread"), "the command ends")
    assert not job.process.has_ended()


@pytest.mark.slow
def test_a_command_ends_with_its_job(job: Job) -> None:
    command = job.rsh("b", "echo ready; exec sleep 3333")
    command.read_until("ready")
    os.kill(job.process.pid, signal.SIGTERM)
    assert exit_code(job.process) == 143
    assert command.end(DEADLINE_S) == 255, command.text
    assert "farandole rsh: the job has ended" in command.text, command.text
    wait_until_empty(job.hosts, 0, 1)


@pytest.mark.slow
def test_a_command_that_cannot_run_is_refused_with_the_reason(job: Job) -> None:
    unknown = job.rsh("x", "true")
    assert unknown.end(DEADLINE_S) == 255
    assert "host x has no agent in this job; these have one: b" in unknown.text, unknown.text
    assert job.rsh("b").end(DEADLINE_S) == 2
    other = job.rsh("--job", "train-1", "b", "true")
    assert other.end(DEADLINE_S) == 255
    assert "there is no job train-1" in other.text, other.text
    assert not job.process.has_ended()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_mpirun_starts_its_daemons_through_the_agents_of_a_job(job: Job) -> None:
    words = ["mpirun", "--allow-run-as-root", "-np", "2", "-H", "b:2", "--mca", "plm_rsh_agent", f"{FARANDOLE} rsh"]
    script = "echo $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE on $(hostname); exit 0"
    ran = job.hosts.start(0, [*words, "sh", "-c", script], {"XDG_RUNTIME_DIR": RUNTIME})
    code, text = ended(ran)
    assert [code, sorted(str(text).splitlines())] == [0, ["0 of 2 on b", "1 of 2 on b"]]
    wait_until(lambda: not job.command_runs("orted"), "the daemons of mpirun end")
    assert job.hosts.connections(1) == 1  # no login
