"""Every command of the guides to launching, as a reader would type it, on hosts with the names that the guides use."""

from __future__ import annotations

import os
import re
import sys
from typing import Dict

import pytest
from guides import (
    GUIDES,
    TRAIN,
    TRAIN_ELASTICALLY,
    Reader,
    assert_all_ranks,
    commands_of,
    hosts,
    message_of,
    page,
    reader,
)
from launched import DEADLINE_S, wait_until
from namespaces import FARANDOLE
from namespaces.ssh_hosts import SshHosts
from workers import exit_code, wait_until_empty

__all__ = ["hosts", "reader"]  # the fixtures


def runs(hosts: SshHosts, number: int, command: str) -> bool:
    return any(each.command == command for each in hosts.processes(number))


def test_every_page_about_launching_is_tested() -> None:
    linked = re.findall(r"\]\((\w[\w-]*)\.md[)#]", (GUIDES / "launching.md").read_text())
    tested = {"ssh", "agents", "mpirun", "torchrun", "by-hand", "functions", "running-jobs", "firewalls", "elastic"}
    tested |= {"troubleshooting"}
    elsewhere = {"schedulers", "sessions"}
    assert tested | elsewhere == set(linked)
    assert len(commands_of("launching")) >= 5


@page("launching")
def test_commands_of_the_page_with_all_ways(reader: Reader) -> None:
    # The pages of these commands explain them, and the tests of these pages run them.
    for other in ("ssh", "agents", "mpirun", "torchrun"):
        reader.left = [command for command in reader.left if command not in commands_of(other)]
    reader.run_job(reader.take("horovodrun -np 2"))
    reader.run_job(reader.take("--start-timeout 120"))


# Starts the workers of a job as the guide says.
PYTHON_OF_THE_PAGE = re.compile(r"^```python\n(import time.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_program_of_the_page_with_all_ways_starts_the_workers(hosts: SshHosts) -> None:
    program = PYTHON_OF_THE_PAGE.search((GUIDES / "launching.md").read_text())
    assert program
    (hosts.shared / "program.py").write_text(program.group(1))
    started = Reader(hosts, "launching").start(0, "python program.py")
    assert exit_code(started) == 0, started.text
    assert_all_ranks(started.text, program.group(1))


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


@pytest.mark.slow
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

    place = "import os\nprint('rank', os.environ['HOROVOD_RANK'], 'of', os.environ['HOROVOD_SIZE'])\n"
    (shared / "train.py").write_text(place)
    command = reader.take("nohup")
    reader.run(command)  # the shell ends at once, and the job goes on
    wait_until(lambda: (shared / "log").read_text().count("of 8\n") == 8, "the workers have printed their places")
    assert_all_ranks((shared / "log").read_text(), command)
    wait_until_empty(reader.hosts, 0, 1)


@page("security")
def test_commands_of_the_page_on_security(reader: Reader) -> None:
    secret = reader.hosts.shared / "secret"
    reader.run(reader.take("openssl rand"))
    reader.run_job(reader.take("mpirun"))
    assert reader.take("torchrun") in commands_of("torchrun")  # the test of that page runs it

    secret.chmod(0o644)
    job = reader.start(0, "FARANDOLE_SECRET_FILE=$PWD/secret farandole run --agents 1 -np 1 true")
    assert exit_code(job) == 2, job.text
    readable = message_of("security", "FARANDOLE_SECRET_FILE=/home/me/secret can be read", 2)
    assert readable.replace("/home/me/secret", str(secret)) in job.text

    gloo = reader.take("FARANDOLE_CPU_PATH=gloo")
    job = reader.start(0, gloo)
    assert exit_code(job) == 2, job.text
    assert message_of("security", "horovodrun: error: FARANDOLE_CPU_PATH=gloo", 3) in job.text
    trusted = f"FARANDOLE_TRUSTED_NETWORK=1 {gloo}"
    text = reader.run(trusted)
    assert_all_ranks(text, trusted)
    assert text.count(message_of("security", "tensors travel by gloo", 2)) == 1, text

    (reader.hosts.shared / "train.py").write_text(
        "import fractions\nimport farandole.numpy as hvd\n\nhvd.init()\n"
        "hvd.broadcast_object({'parts': [1, 2]}, 0)\nhvd.broadcast_object(fractions.Fraction(1, 2), 0)\n"
    )
    job = reader.start(0, reader.take("FARANDOLE_SAFE_OBJECTS=1"))
    assert exit_code(job) == 1, job.text
    assert message_of("security", "_pickle.UnpicklingError", 2) in job.text


@page("troubleshooting")
def test_commands_of_the_page_on_troubleshooting(reader: Reader) -> None:
    """`parallel/test_launch_troubleshooting.py` compares the messages of the page with those of the product."""
    reader.run(reader.take("openssl rand"))
    login = reader.take("ssh ").replace("node2", "beta")
    reader.run(login)
    reader.hosts.stop_sshd(1)
    reader.hosts.start_sshd(1, keys=reader.hosts.shared / "no_keys")
    assert exit_code(reader.start(0, login)) == 255
    job = reader.start(0, "horovodrun -np 2 -H alpha:1,beta:1 python train.py")
    assert exit_code(job) == 1, job.text
    first = message_of("troubleshooting", "farandole: could not connect to some hosts", 3)
    assert first.replace("node2", "beta").split("Permission")[0] in " ".join(job.text.split()), job.text
    assert "Permission denied (publickey" in job.text, job.text


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
    received = "dev net0 ipproto 6"
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
    # The firewall is closed for ports outside of the range, at both ends.
    attempt = f"import socket; socket.create_connection(('{hosts.addresses[1]}', 9000), 1, ('', 9000))"
    dropped = hosts.start(0, [sys.executable, "-c", attempt])
    assert dropped.end(DEADLINE_S) == 1, dropped.text
    assert "TimeoutError" in dropped.text  # without the firewall, the connection is refused at once

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
