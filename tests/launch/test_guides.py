"""Every command of the guides to launching, as a reader would type it, on hosts with the names that the guides use."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Dict, Iterator, List

import pytest
from launched import DEADLINE_S, wait_until
from namespaces import FARANDOLE, Process
from namespaces.ssh_hosts import SshHosts
from workers import exit_code, wait_until_empty

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
PROGRAMS = "horovodrun|farandole|mpirun|srun|torchrun|source|sysctl|ss|python"
COMMAND = re.compile(rf"\(umask |([A-Z_]+=\S* )*({PROGRAMS})\s")

# `test_other_launchers.py` runs srun in a cluster, and `parallel/test_launch_reference.py` loads the completion.
# `test_schedulers.py` runs the commands of the page on schedulers, in their jobs.
RUN_BY_OTHER_TESTS = re.compile(r".*\bsrun\b|source |farandole (completion|manual) ")

# A worker prints its place, as the worker of the guide does, and takes part in one operation.
TRAIN = """
import numpy, farandole.numpy as hvd

hvd.init()
total = hvd.allreduce(numpy.ones(1000), op=hvd.Sum, name="ones")
assert (total == hvd.size()).all()
print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
hvd.shutdown()
"""


def commands_of(page: str) -> List[str]:
    """The commands in the code blocks of a page, without the output below them."""
    text = re.sub(r"\\\n\s*", "", (GUIDES / f"{page}.md").read_text())
    found = []
    for line in text.splitlines():
        command = line.strip().removeprefix("$ ")
        if line.startswith("    ") and COMMAND.match(command) and not RUN_BY_OTHER_TESTS.match(command):
            found.append(command)
    return found


class Reader:
    """Types the commands of one page on the hosts, and knows which it has not typed yet."""

    def __init__(self, hosts: SshHosts, page: str) -> None:
        self.hosts = hosts
        self.left = list(dict.fromkeys(commands_of(page)))
        self.page = page

    def take(self, *words: str) -> str:
        """The command of the page that contains all these words. It counts as typed."""
        found = [command for command in self.left if all(word in command for word in words)]
        assert len(found) == 1, f"{words} must be in one command of {self.page}.md, not in {found} of {self.left}"
        self.left.remove(found[0])
        return found[0]

    def start(self, number: int, command: str) -> Process:
        path = f"{Path(FARANDOLE).parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        # mpirun refuses to run as root, and to start more processes than the machine has cores. All workers share the
        # cores of this machine, so that the last one may call init() late.
        settings = {
            "HOME": str(self.hosts.home),
            "XDG_RUNTIME_DIR": "/run/user/0",
            "PATH": path,
            "OMP_NUM_THREADS": "1",
            "HOROVOD_START_TIMEOUT": "80",
            # torchrun leaves a folder for logs there.
            "TMPDIR": str(self.hosts.shared),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }
        return self.hosts.start(number, ["bash", "-c", command], settings)

    def run(self, command: str) -> str:
        """Types a command on the first host; its output."""
        process = self.start(0, command)
        assert exit_code(process) == 0, f"{command}:\n{process.text}"
        return process.text

    def run_job(self, command: str) -> None:
        assert_all_ranks(self.run(command), command)


def assert_all_ranks(text: str, command: str) -> None:
    """Every rank of the job has printed its place, once."""
    places = re.findall(r"rank (\d+) of (\d+)", text)
    sizes = {int(size) for _, size in places}
    assert len(sizes) == 1, f"{command}:\n{text}"
    assert sorted(int(rank) for rank, _ in places) == list(range(sizes.pop())), f"{command}:\n{text}"


def runs(hosts: SshHosts, number: int, command: str) -> bool:
    return any(each.command == command for each in hosts.processes(number))


@pytest.fixture
def hosts(permitted: None, launcher_command: None, made_hosts: List[SshHosts], tmp_path: Path) -> SshHosts:
    made = SshHosts(tmp_path, ["alpha", "beta"])
    made_hosts.append(made)
    made.make()
    (made.shared / "train.py").write_text(TRAIN)
    return made


@pytest.fixture
def reader(request: pytest.FixtureRequest, hosts: SshHosts) -> Iterator[Reader]:
    """A reader of the page that the test names. After the test, no command of the page is left."""
    made = Reader(hosts, request.param)
    yield made
    assert made.left == [], f"no test runs these commands of {made.page}.md"


def page(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("reader", [name], indirect=True)


def test_every_page_about_launching_is_tested() -> None:
    linked = re.findall(r"\]\((\w[\w-]*)\.md\)", (GUIDES / "launching.md").read_text())
    tested = {"ssh", "agents", "mpirun", "torchrun", "by-hand", "functions", "running-jobs", "firewalls", "elastic"}
    elsewhere = {"schedulers", "sessions", "security", "troubleshooting"}
    assert tested <= set(linked) <= tested | elsewhere
    assert len(commands_of("launching")) >= 5


@page("launching")
def test_commands_of_the_page_with_all_ways(reader: Reader) -> None:
    # The pages of these commands explain them, and the tests of these pages run them.
    for other in ("ssh", "agents", "mpirun", "torchrun"):
        reader.left = [command for command in reader.left if command not in commands_of(other)]
    reader.run_job(reader.take("horovodrun -np 2"))
    reader.run_job(reader.take("--start-timeout 120"))


@page("ssh")
def test_commands_of_the_page_on_ssh(reader: Reader) -> None:
    reader.run_job(reader.take("horovodrun -np 8 -H alpha:4,beta:4"))
    assert reader.hosts.connections(0) == 0 and reader.hosts.connections(1) == 1


@page("agents")
def test_commands_of_the_page_on_agents(reader: Reader) -> None:
    reader.run(reader.take("openssl rand"))
    for words in (("--agents 2 ", "-np 8"), ("--agents 2:8",)):
        command = reader.take(*words)
        job = reader.start(0, command)
        # The launcher prints the command for the hosts, which have eight slots.
        printed = job.read_until(r"waiting for 2\S* agents: (farandole agent .*)\n", DEADLINE_S).group(1)
        agents = [reader.start(number, f"{printed} --slots 4") for number in range(2)]
        assert exit_code(job) == 0, job.text
        assert_all_ranks(job.text, command)
        assert [agent.end(DEADLINE_S) for agent in agents] == [0, 0]


@page("mpirun")
def test_commands_of_the_page_on_mpirun(reader: Reader) -> None:
    reader.run_job(reader.take("mpirun -np 4 python"))
    reader.run_job(reader.take("horovodrun --mpi"))

    # A job without work keeps agents on both hosts, and mpirun reaches the hosts through them.
    reader.run(reader.take("openssl rand"))
    job = reader.start(0, reader.take("farandole run --agents 2").replace(" &", ""))
    printed = job.read_until(r"waiting for 2 agents: (farandole agent .*)\n", DEADLINE_S).group(1)
    agents = [reader.start(number, f"{printed} --slots 1") for number in range(2)]
    wait_until(lambda: all(runs(reader.hosts, number, "sleep infinity") for number in range(2)), "the workers start")
    reader.run_job(reader.take("farandole rsh"))
    job.stop()
    assert [exit_code(agent) for agent in agents] == [0, 0], [agent.text for agent in agents]
    wait_until_empty(reader.hosts, 0, 1)


@page("torchrun")
def test_commands_of_the_page_on_torchrun(reader: Reader) -> None:
    reader.run(reader.take("openssl rand"))
    with_secret = reader.take("FARANDOLE_SECRET_FILE", "torchrun")
    reader.run_job(with_secret)
    # Each run imports PyTorch in all workers. `parallel/test_launch_foreign.py` runs torchrun without a secret file.
    plain = reader.take("torchrun --nproc-per-node 4 train.py")
    assert with_secret.endswith(f" {plain}")
    first = reader.take("--nnodes 2").replace("10.0.0.1", reader.hosts.addresses[0])
    jobs = [reader.start(0, first), reader.start(1, first.replace("--node-rank 0", "--node-rank 1"))]
    assert [exit_code(job) for job in jobs] == [0, 0], "\n".join(job.text for job in jobs)
    assert_all_ranks(jobs[0].text + jobs[1].text, first)


@page("by-hand")
def test_commands_of_the_page_without_a_launcher(reader: Reader) -> None:
    reader.run(reader.take("openssl rand"))
    address = reader.hosts.addresses[0]
    rendezvous = reader.start(0, reader.take("farandole rendezvous").replace("10.0.0.1", address))
    rendezvous.read_until(f"{address}:4711", DEADLINE_S)
    command = reader.take("HOROVOD_RANK=0").replace("10.0.0.1", address)
    workers = [reader.start(0, command), reader.start(1, command.replace("HOROVOD_RANK=0", "HOROVOD_RANK=1"))]
    assert [exit_code(worker) for worker in workers] == [0, 0], "\n".join(worker.text for worker in workers)
    assert_all_ranks(workers[0].text + workers[1].text, command)
    rendezvous.stop()


# A worker of an elastic job prints its place when it begins to train.
TRAIN_ELASTICALLY = """
import numpy, farandole.numpy as hvd

hvd.init()
state = hvd.elastic.NumPyState(step=0)

@hvd.elastic.run
def train(state):
    print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
    while state.step < 20:
        hvd.allreduce(numpy.ones(1000), op=hvd.Sum, name="ones")
        state.step += 1
        state.commit()

train(state)
"""


@page("elastic")
def test_commands_of_the_page_on_elastic_jobs(reader: Reader) -> None:
    shared = reader.hosts.shared
    (shared / "train.py").write_text(TRAIN_ELASTICALLY)
    reader.run_job(reader.take("FARANDOLE_STUCK_TIMEOUT"))
    script = re.search(r"^```sh\n(#!.*?)^```", (GUIDES / "elastic.md").read_text(), re.MULTILINE | re.DOTALL)
    assert script
    (shared / "hosts.sh").write_text(script.group(1))
    (shared / "hosts.sh").chmod(0o755)
    reader.run_job(reader.take("--host-discovery-script ./hosts.sh"))
    reader.run(reader.take("openssl rand"))
    rendezvous = reader.start(0, reader.take("farandole rendezvous"))
    rendezvous.read_until("127.0.0.1:4711", DEADLINE_S)
    reader.run_job(reader.take("farandole run --rendezvous"))
    rendezvous.stop()
    reader.run_job(reader.take("horovodrun -np 4"))


@page("functions")
def test_the_functions_page_has_no_commands(reader: Reader) -> None:
    assert reader.left == []


@page("running-jobs")
def test_commands_of_the_page_on_running_jobs(reader: Reader) -> None:
    shared = reader.hosts.shared
    # A worker reads a line of the terminal, and is there for the commands until it does.
    asks = 'if hvd.rank() == 5:\n    print("line", input(), flush=True)\n'
    (shared / "train.py").write_text(TRAIN.replace("hvd.shutdown()", f"{asks}hvd.shutdown()"))
    terminal = shared / "terminal"
    os.mkfifo(terminal)
    job = reader.start(0, f"{reader.take('--stdin 5')} 0<>{terminal}")
    job.read_matches(r"rank \d of 8", 8, DEADLINE_S)
    for name, prints in (("nvidia-smi", "hostname"), ("py-spy", 'echo "stack of $3"')):
        (shared / name).write_text(f"#!/bin/sh\n{prints}\n")
        (shared / name).chmod(0o755)
    on_beta = reader.take("rsh beta nvidia-smi").replace("nvidia-smi", str(shared / "nvidia-smi"))
    assert reader.run(on_beta) == "beta\n"
    stacks = reader.take("py-spy dump").replace("py-spy", str(shared / "py-spy"))
    workers = {
        each.pid for each in reader.hosts.processes(1) if "train.py" in each.command and "python" in each.command
    }
    assert {int(pid) for pid in re.findall(r"stack of (\d+)", reader.run(stacks))} & workers
    terminal.write_text("typed here\n")
    assert exit_code(job) == 0, job.text
    assert "[5]<stdout>:line typed here" in job.text
    wait_until_empty(reader.hosts, 0, 1)


# ---- firewalls ----

# Trains until the file of the first argument exists, so that the test can list the listeners.
WAITS = """
import os, sys
import numpy, farandole.numpy as hvd

hvd.init()
print(f"rank {hvd.rank()} of {hvd.size()}", flush=True)
while not hvd.allreduce(numpy.array([float(os.path.exists(sys.argv[1]))]), op=hvd.Sum, name="done")[0]:
    pass
hvd.shutdown()
"""


def listeners(hosts: SshHosts, number: int) -> Dict[int, str]:
    """By port: the address on which a process of a host listens, apart from its sshd; that of the last one counts."""
    process = hosts.start(number, ["cat", "/proc/net/tcp", "/proc/net/tcp6"])
    assert process.end(DEADLINE_S) == 0, process.text
    found = {}
    for fields in (line.split() for line in process.text.splitlines() if ":" in line):
        if len(fields) > 3 and fields[3] == "0A":
            address, port = fields[1].split(":")
            if int(port, 16) != 22:
                found[int(port, 16)] = address
    return found


def close_all_ports_but(hosts: SshHosts, number: int, first: int, last: int) -> None:
    """Drops what comes from other hosts by TCP, by rules of the routing policy. What comes to or from these ports and
    22 passes, because a firewall lets the answers to a connection through."""
    received = "dev net0 ipproto tcp"
    passes = [f"{end} {ports}" for end in ("dport", "sport") for ports in ("22", f"{first}-{last}")]
    rules = ["add pref 10 lookup local", "del pref 0"]
    rules += [f"add pref {pref} {received} {which} lookup local" for pref, which in enumerate(passes, 1)]
    rules.append(f"add pref {len(passes) + 1} {received} blackhole")
    for rule in rules:
        process = hosts.start(number, ["ip", "rule", *rule.split()])
        assert process.end(DEADLINE_S) == 0, process.text


def runs_on_ports_between(reader: Reader, command: str, first: int, last: int) -> None:
    """The command runs a job on both hosts, whose processes listen on ports of this range alone."""
    hosts, enough = reader.hosts, reader.hosts.shared / "enough"
    job = reader.start(0, command.replace("train.py", f"waits.py {enough}"))
    job.read_matches(r"rank \d of 4", 4, DEADLINE_S)
    on_alpha, on_beta = listeners(hosts, 0), listeners(hosts, 1)
    # On alpha: the agents' port, the rendezvous, and two workers. On beta: two workers.
    wait_until(lambda: len(listeners(hosts, 0)) == 4 and len(listeners(hosts, 1)) == 2, "the listeners for data close")
    assert all(first <= port <= last for port in [*on_alpha, *on_beta]), (on_alpha, on_beta)
    assert reader.run("ss -tlnp").count("LISTEN") >= 4
    enough.touch()
    assert exit_code(job) == 0, job.text
    wait_until_empty(hosts, 0, 1)
    enough.unlink()


@page("firewalls")
def test_a_job_passes_a_firewall_that_lets_the_ports_of_the_guide_through(reader: Reader) -> None:
    hosts = reader.hosts
    (hosts.shared / "waits.py").write_text(WAITS)
    assert reader.take("ss -tlnp") == "ss -tlnp"
    with_range = reader.take("FARANDOLE_PORT_RANGE").replace("-np 8 -H alpha:4,beta:4", "-np 4 -H alpha:2,beta:2")
    for_all_programs = reader.take("sysctl")
    found = re.search(r"RANGE=(\d+)-(\d+) ", with_range)
    assert found
    first, last = int(found.group(1)), int(found.group(2))
    assert f'"{first} {last}"' in for_all_programs
    for number in range(2):
        close_all_ports_but(hosts, number, first, last)
    # The firewall is closed for a port outside of the range.
    refused = reader.start(0, f"timeout 1 bash -c 'echo > /dev/tcp/{hosts.addresses[1]}/9000'")
    assert refused.end(DEADLINE_S) == 124, refused.text  # without the firewall, the connection is refused at once

    runs_on_ports_between(reader, with_range, first, last)
    for number in range(2):
        process = reader.start(number, for_all_programs)
        assert process.end(DEADLINE_S) == 0, process.text
    runs_on_ports_between(reader, "horovodrun -np 4 -H alpha:2,beta:2 python train.py", first, last)
    wait_until_empty(hosts, 0, 1)


def test_a_range_that_is_full_is_named_with_the_process_that_uses_it(hosts: SshHosts) -> None:
    script = (
        "import os, socket, subprocess, sys\n"
        "taken = socket.socket()\n"
        "taken.bind(('127.0.0.1', 40960))\n"
        "taken.listen()\n"
        "os.environ['FARANDOLE_PORT_RANGE'] = '40960-40960'\n"
        "print('I am', os.getpid(), flush=True)\n"
        "sys.exit(subprocess.call(sys.argv[1:], timeout=60))\n"
    )
    job = hosts.start(0, [sys.executable, "-c", script, str(FARANDOLE), "run", "-np", "2", "true"])
    assert exit_code(job) == 2, job.text
    holder = re.search(r"I am (\d+)", job.text)
    assert holder
    assert re.search(
        rf"FARANDOLE_PORT_RANGE=40960-40960 are in use \(40960 by .* \(process {holder.group(1)}\)\)", job.text
    ), job.text
