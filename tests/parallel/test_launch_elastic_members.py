"""Members that die, join and leave while a script trains."""

from __future__ import annotations

import re
from typing import Callable

from elastic_jobs import TRAINING, Hosts, beginnings, of_size
from launched import Job, assert_gone, needs_launcher

pytestmark = needs_launcher


def test_survivors_continue_from_the_last_commit(elastic: Callable[..., Job]) -> None:
    job = elastic(TRAINING, ["-np", "3", "--min-np", "2", "-H", "localhost:3"], "2", "1")
    assert job.end() == 0, job.text
    assert of_size(job.text, 3) == [(0, 0), (1, 1), (2, 2)]
    assert of_size(job.text, 2) == [(0, 0), (2, 1)]
    assert {beginning.step for beginning in beginnings(job.text) if beginning.size == 2} == {30}
    assert len({beginning.pid for beginning in beginnings(job.text)}) == 3  # no worker was restarted
    assert_gone([beginning.pid for beginning in beginnings(job.text)])


def test_the_oldest_survivor_becomes_rank_0_when_rank_0_dies(elastic: Callable[..., Job]) -> None:
    job = elastic(TRAINING, ["-np", "3", "--min-np", "1", "-H", "localhost:3"], "2", "0")
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(1, 0), (2, 1)]


def test_a_new_member_gets_the_state_and_no_step_is_lost(elastic: Callable[..., Job], hosts: Hosts) -> None:
    hosts.print_lines("localhost:2")
    job = elastic(TRAINING, ["-np", "2", "--max-np", "3", "--host-discovery-script", str(hosts.script)], "3")
    job.read_until(lambda text: len(beginnings(text)) >= 2)
    hosts.print_lines("localhost:3")
    assert job.end() == 0, job.text
    assert of_size(job.text, 3) == [(0, 0), (1, 1), (2, 2)]
    together = {beginning.step for beginning in beginnings(job.text) if beginning.size == 3}
    assert len(together) == 1
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1", "2"]


def test_a_removed_host_leaves_without_a_rollback(elastic: Callable[..., Job], hosts: Hosts) -> None:
    hosts.print_lines("localhost:2", "127.0.0.1:1")
    job = elastic(TRAINING, ["-np", "3", "--min-np", "2", "--host-discovery-script", str(hosts.script)], "2")
    job.read_until(lambda text: len(beginnings(text)) >= 3)
    hosts.print_lines("localhost:2")
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(0, 0), (1, 1)]
    assert "last commit" not in job.text  # no member rolled back
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1"]


def test_too_few_survivors_end_the_job(elastic: Callable[..., Job]) -> None:
    job = elastic(TRAINING, ["-np", "2", "--min-np", "2", "-H", "localhost:2"], "1", "1")
    assert job.end() == 137, job.text
    assert "localhost[1]" in job.text
