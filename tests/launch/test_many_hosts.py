"""A job on more hosts than a test needs to show how launching works: 16, with four workers each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

import pytest
from benchmarks.launch.remote_rows import compile_barrier_program
from namespaces.ssh_hosts import SshHosts
from workers import exit_code, wait_until_empty

HOSTS = 16
WORKERS = 4


@pytest.mark.slow
def test_workers_of_16_hosts_join_one_job(
    permitted: None, launcher_command: None, made_hosts: List[SshHosts], tmp_path: Path
) -> None:
    hosts = SshHosts(tmp_path, [f"h{number}" for number in range(HOSTS)])
    made_hosts.append(hosts)
    hosts.make()
    program = hosts.shared / "worker"
    compile_barrier_program(program)
    size = HOSTS * WORKERS
    placed = ",".join(f"{name}:{WORKERS}" for name in hosts.names)
    # All workers share the cores of this machine, so that the last ones may call init() late.
    job = hosts.launch("-np", str(size), "-H", placed, str(program), settings={"HOROVOD_START_TIMEOUT": "200"})
    assert exit_code(job) == 0, job.text
    places = re.findall(r"rank (\d+) of (\d+)", job.text)
    assert sorted(int(rank) for rank, _ in places) == list(range(size)), job.text
    assert {int(number) for _, number in places} == {size}
    wait_until_empty(hosts, *range(HOSTS))
