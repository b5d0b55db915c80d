"""Agents that a user starts on each host, and `farandole run --agents`, which waits for them."""

from __future__ import annotations

import os
import re
import secrets
import signal
from pathlib import Path
from typing import List, Optional

import pytest
from launched import DEADLINE_S, assert_gone
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import SshHosts
from workers import (
    ENDLESS,
    PLACE,
    SUMS,
    TRAINING,
    UNTIL_FILE,
    agent_of,
    begun,
    end_training,
    exit_code,
    kill_launcher,
    lines_about,
    lines_of,
    pids_of,
    python,
    wait_until_empty,
    worker_on,
)


class Agents:
    """A job that waits for agents, and the agents that the test starts."""

    def __init__(self, hosts: SshHosts) -> None:
        self.hosts = hosts
        self.job: Optional[Process] = None
        self.addresses = ""

    def run(self, count: str, *arguments: str, **settings: str) -> Process:
        """Starts the job on host a, and reads the addresses from the line that says how to start the agents."""
        secret = {"FARANDOLE_SECRET_FILE": str(self.hosts.secret)}
        self.job = self.hosts.launch("--agents", count, *arguments, settings={**secret, **settings}, rsh="")
        line = r"waiting for (\d+)\S* agents?: farandole agent --launcher (\S+) --secret-file (\S+)"
        number, addresses, secret_file = self.job.read_until(line, DEADLINE_S).groups()
        assert (number, secret_file) == (count.split(":")[0], str(self.hosts.secret)), self.job.text
        self.addresses = addresses
        assert all(re.fullmatch(r"\S+:\d+", address) for address in self.addresses.split(",")), self.addresses
        return self.job

    def start(
        self, number: int, *options: str, secret: Optional[Path] = None, addresses: str = "", **settings: str
    ) -> Process:
        """Starts an agent on a host."""
        command = [FARANDOLE, "agent", "--launcher", addresses or self.addresses]
        words = [*command, "--secret-file", str(secret or self.hosts.secret), *options]
        return self.hosts.start(number, words, settings)


@pytest.fixture
def agents(hosts: SshHosts, launcher_command: None) -> Agents:
    return Agents(hosts)


def places(job: Process, size: int) -> List[str]:
    """Name of the host, and host name of the machine, of each rank."""
    found = [re.search(r"place (\S+) .* on (\S+)$", lines_of(job, rank)[0]) for rank in range(size)]
    return sorted(f"{each.group(1)} {each.group(2)}" for each in found if each)


def test_workers_run_on_the_hosts_whose_agents_a_user_has_started(agents: Agents) -> None:
    job = agents.run("2", "-np", "4", "sh", "-c", PLACE)
    started = [agents.start(number, "--host", name, "--slots", "2") for number, name in ((1, "b"), (2, "second"))]
    assert exit_code(job) == 0, job.text
    assert places(job, 4) == ["b b", "b b", "second c", "second c"], job.text
    for agent in started:
        assert agent.end(DEADLINE_S) == 0, agent.text
    assert agents.hosts.connections(1) == agents.hosts.connections(2) == 0


def test_an_agent_is_named_after_its_host_by_default(agents: Agents) -> None:
    job = agents.run("2", "-np", "2", "sh", "-c", PLACE)
    for number in (1, 2):
        agents.start(number, "--slots", "1")
    assert exit_code(job) == 0, job.text
    assert places(job, 2) == ["b b", "c c"], job.text


def test_an_agent_has_a_slot_for_each_core_that_it_may_use(agents: Agents) -> None:
    cores = sorted(os.sched_getaffinity(0))[:2]
    job = agents.run("1", "-np", str(len(cores)), "sh", "-c", PLACE)
    words = [FARANDOLE, "agent", "--launcher", agents.addresses, "--secret-file", str(agents.hosts.secret)]
    agents.hosts.start(1, ["taskset", "-c", ",".join(map(str, cores)), *words])
    assert exit_code(job) == 0, job.text
    assert places(job, len(cores)) == ["b b"] * len(cores), job.text


def test_an_agent_and_its_workers_ignore_the_signals_that_were_ignored_at_its_start(agents: Agents) -> None:
    """nohup ignores SIGHUP, and the shell of a script ignores SIGINT in a command in the background."""
    go = agents.hosts.shared / "go"
    job = agents.run("1", "-np", "1", *python(agents.hosts.shared, UNTIL_FILE, str(go)))
    words = [FARANDOLE, "agent", "--launcher", agents.addresses, "--secret-file", str(agents.hosts.secret)]
    agent = agents.hosts.start(1, ["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh", *words, "--slots", "1"])
    worker = pids_of(job, 1)[0]
    for process in (worker, agent.pid):
        for number in (signal.SIGHUP, signal.SIGINT):
            os.kill(process, number)
    go.touch()
    assert exit_code(job) == 0, job.text
    assert agent.end(DEADLINE_S) == 0, agent.text


def test_members_that_agents_start_compute_the_sums(agents: Agents) -> None:
    job = agents.run("3", "-np", "4", *python(agents.hosts.shared, SUMS))
    for number, slots in enumerate(("1", "2", "1")):
        agents.start(number, "--slots", slots)
    assert exit_code(job) == 0, job.text
    assert job.text.count(" on b\n") == 2, job.text


def test_an_agent_tries_all_addresses_and_takes_the_one_that_answers(agents: Agents) -> None:
    job = agents.run("1", "-np", "1", "hostname")
    # Nothing listens on the discard port of this host, and nothing has the second address.
    agent = agents.start(1, addresses=f"127.0.0.1:9,10.219.7.99:9,{agents.addresses}")
    assert exit_code(job) == 0, job.text
    assert lines_of(job, 0) == ["b"], job.text
    assert agent.end(DEADLINE_S) == 0, agent.text


def test_an_agent_may_start_before_its_launcher_has_all_the_others(agents: Agents) -> None:
    job = agents.run("2", "-np", "2", "sh", "-c", PLACE)
    first = agents.start(1, "--slots", "1")
    agents.start(2, "--slots", "1")
    assert exit_code(job) == 0, job.text
    assert first.end(DEADLINE_S) == 0, first.text


@pytest.mark.slow
def test_too_few_agents_are_reported_after_the_start_timeout(agents: Agents) -> None:
    job = agents.run("2", "-np", "2", "--start-timeout", "12", "sh", "-c", "echo started")
    agent = agents.start(1, "--slots", "1")
    assert exit_code(job) != 0, job.text
    lines = [line for line in job.text.splitlines() if "--launcher" not in line]
    assert any("1 of 2 agents have connected (b) within start timeout" in line for line in lines), job.text
    assert "started" not in job.text
    agent.end(DEADLINE_S)
    wait_until_empty(agents.hosts, 0, 1)


def test_an_agent_with_a_wrong_secret_is_rejected_and_the_job_goes_on(agents: Agents) -> None:
    job = agents.run("2", "-np", "2", "sh", "-c", PLACE)
    wrong = agents.hosts.shared / "wrong"
    wrong.write_text(secrets.token_hex(32))
    wrong.chmod(0o600)
    stranger = agents.start(1, "--slots", "1", secret=wrong)
    assert stranger.end(DEADLINE_S) != 0, stranger.text
    assert "secret" in stranger.text, stranger.text
    for number in (1, 2):
        agents.start(number, "--slots", "1")
    assert exit_code(job) == 0, job.text
    assert places(job, 2) == ["b b", "c c"], job.text
    # The launcher says so as well, with the address of the stranger.
    assert any("10.219.7.2" in line and "]<std" not in line for line in job.text.splitlines()), job.text


@pytest.mark.parametrize("problem", ["missing", "empty"])
def test_an_agent_without_a_secret_says_which_file_it_needs(agents: Agents, problem: str) -> None:
    file = agents.hosts.shared / "no_secret"
    if problem == "empty":
        file.touch(0o600)
    agent = agents.start(1, secret=file, addresses="127.0.0.1:9")
    assert agent.end(DEADLINE_S) != 0, agent.text
    assert str(file) in agent.text, agent.text


def test_a_second_agent_for_a_host_is_rejected(agents: Agents) -> None:
    enough = agents.hosts.shared / "enough"
    job = agents.run("2", "-np", "2", "sh", "-c", f"{PLACE}; until test -e {enough}; do sleep 0.05; done")
    first = agents.start(1, "--host", "b", "--slots", "1")
    agents.start(2, "--host", "c", "--slots", "1")
    job.read_matches("place ", 2)
    second = agents.start(1, "--host", "b", "--slots", "1")
    assert second.end(DEADLINE_S) != 0, second.text
    assert re.search(r"\bb\b", second.text), second.text
    enough.touch()
    assert exit_code(job) == 0, job.text
    assert any("refusing an agent" in line for line in lines_about(job, "b")), job.text
    assert first.end(DEADLINE_S) == 0, first.text


def test_an_agent_after_the_end_of_the_job_ends_with_the_addresses(agents: Agents) -> None:
    job = agents.run("1", "-np", "1", "true")
    agents.start(1)
    assert exit_code(job) == 0, job.text
    # On a busy machine, a short timeout may pass before the agent has tried once.
    for timeout_s in (2, 8, 32):
        late = agents.start(2, "--slots", "1", HOROVOD_START_TIMEOUT=str(timeout_s))
        assert late.end(DEADLINE_S) != 0, late.text
        if "trying again until" in late.text:
            break
    assert "trying again until" in late.text, late.text
    assert agents.addresses.split(",")[0] in late.text, late.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_an_agent_ends_a_fixed_job(agents: Agents, number: signal.Signals) -> None:
    job = agents.run("2", "-np", "2", "sh", "-c", ENDLESS)
    started = [agents.start(host, "--slots", "1") for host in (1, 2)]
    workers = pids_of(job, 2)
    os.kill(started[0].pid, number)
    assert exit_code(job) != 0, job.text
    assert lines_about(job, "b"), job.text
    if number == signal.SIGKILL:
        assert "host b was lost: " in job.text, job.text
    assert_gone(list(workers.values()))
    for agent in started:
        agent.end(DEADLINE_S)
    wait_until_empty(agents.hosts, 0, 1, 2)


def test_agents_end_when_their_launcher_is_killed(agents: Agents) -> None:
    job = agents.run("2", "-np", "2", "sh", "-c", ENDLESS)
    started = [agents.start(host, "--slots", "1") for host in (1, 2)]
    workers = pids_of(job, 2)
    kill_launcher(job)
    for agent in started:
        assert agent.end(DEADLINE_S) != 0, agent.text
    assert_gone(list(workers.values()))
    wait_until_empty(agents.hosts, 0, 1, 2)
    assert exit_code(job) == 137


# ---- elastic jobs ----


def train(agents: Agents, sizes: List[str], count: str) -> Process:
    return agents.run(count, *sizes, *python(agents.hosts.shared, TRAINING, str(agents.hosts.shared / "enough")))


def test_agents_join_and_leave_an_elastic_job(agents: Agents) -> None:
    job = train(agents, ["-np", "1", "--min-np", "1", "--max-np", "2"], "1:2")
    first = agents.start(1, "--slots", "1")
    assert begun(job, 1, 1) == ["b"]
    second = agents.start(2, "--slots", "1")
    assert sorted(begun(job, 2, 2)) == ["b", "c"], job.text
    # SIGTERM to an agent is a planned leave of its host.
    os.kill(second.pid, signal.SIGTERM)
    assert begun(job, 1, 2) == ["b", "b"], job.text
    assert second.end(DEADLINE_S) == 0, second.text
    assert "last commit" not in job.text and "was lost" not in job.text, job.text
    wait_until_empty(agents.hosts, 2)
    agents.start(2, "--slots", "1")
    assert sorted(begun(job, 2, 4)) == ["b", "b", "c", "c"], job.text
    end_training(job, agents.hosts, 2)
    assert first.end(DEADLINE_S) == 0, first.text


def test_an_elastic_job_goes_on_when_an_agent_is_killed(agents: Agents) -> None:
    job = train(agents, ["-np", "2", "--min-np", "1", "--max-np", "2"], "1:2")
    for number in (1, 2):
        agents.start(number, "--slots", "1")
    begun(job, 2, 2)
    worker = worker_on(job, "c")
    os.kill(agent_of(agents.hosts, 2, worker), signal.SIGKILL)
    assert begun(job, 1, 1) == ["b"], job.text
    job.read_until("host c was lost: ", DEADLINE_S)
    assert_gone([worker])
    wait_until_empty(agents.hosts, 2)
    end_training(job, agents.hosts, 1)


@pytest.mark.parametrize("count", ["0", "-1", "3:2", "two", "1:", ":"])
def test_a_number_of_agents_that_makes_no_sense_is_refused(agents: Agents, count: str) -> None:
    job = agents.hosts.launch(f"--agents={count}", "-np", "1", "true", rsh="")
    assert exit_code(job) == 2, job.text
    assert "--agents" in job.text and count in job.text, job.text


@pytest.mark.parametrize("other", [["-H", "a:1"], ["--host-discovery-script", "/bin/true"]], ids=["hosts", "script"])
def test_agents_and_hosts_exclude_each_other(agents: Agents, other: List[str]) -> None:
    job = agents.hosts.launch("--agents", "1", *other, "-np", "1", "true", rsh="")
    assert exit_code(job) == 2, job.text
    assert "--agents" in job.text and (other[0] in job.text or "--hosts" in job.text), job.text


def test_a_run_with_agents_needs_a_secret_file(agents: Agents) -> None:
    job = agents.hosts.launch("--agents", "1", "-np", "1", "true", rsh="")
    assert exit_code(job) == 2, job.text
    assert "FARANDOLE_SECRET_FILE" in job.text, job.text
