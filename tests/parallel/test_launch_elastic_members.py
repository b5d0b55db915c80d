"""Members that die, come and go while a script trains on."""

from __future__ import annotations

import re
from typing import Callable

from elastic_jobs import TRAINING, Hosts, beginnings, of_size
from launched import Job, assert_gone, needs_launcher

pytestmark = needs_launcher


def test_survivors_go_on_where_they_were(elastic: Callable[..., Job]) -> None:
    job = elastic(TRAINING, ["-np", "3", "--min-np", "2", "-H", "localhost:3"], "2", "1")
    assert job.end() == 0, job.text
    assert of_size(job.text, 3) == [(0, 0), (1, 1), (2, 2)]
    assert of_size(job.text, 2) == [(0, 0), (2, 1)]
    assert {each.step for each in beginnings(job.text) if each.size == 2} == {30}
    assert len({each.pid for each in beginnings(job.text)}) == 3  # nobody was restarted
    assert_gone([each.pid for each in beginnings(job.text)])


def test_when_rank_0_dies_the_oldest_survivor_takes_its_place(elastic: Callable[..., Job]) -> None:
    job = elastic(TRAINING, ["-np", "3", "--min-np", "1", "-H", "localhost:3"], "2", "0")
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(1, 0), (2, 1)]


def test_a_new_member_gets_the_state_and_nobody_loses_a_step(elastic: Callable[..., Job], hosts: Hosts) -> None:
    hosts.are("localhost:2")
    job = elastic(TRAINING, ["-np", "2", "--max-np", "3", "--host-discovery-script", str(hosts.script)], "3")
    job.read_until(lambda text: len(beginnings(text)) == 2)
    hosts.are("localhost:3")
    assert job.end() == 0, job.text
    assert of_size(job.text, 3) == [(0, 0), (1, 1), (2, 2)]
    together = {each.step for each in beginnings(job.text) if each.size == 3}
    assert len(together) == 1
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1", "2"]


def test_a_host_that_is_taken_out_leaves_in_order(elastic: Callable[..., Job], hosts: Hosts) -> None:
    hosts.are("localhost:2", "127.0.0.1:1")
    job = elastic(TRAINING, ["-np", "3", "--min-np", "2", "--host-discovery-script", str(hosts.script)], "2")
    job.read_until(lambda text: len(beginnings(text)) == 3)
    hosts.are("localhost:2")
    assert job.end() == 0, job.text
    assert of_size(job.text, 2) == [(0, 0), (1, 1)]
    assert "last commit" not in job.text  # nobody went back
    assert sorted(re.findall(r"DONE slot (\d)", job.text)) == ["0", "1"]


def test_too_few_survivors_end_the_job(elastic: Callable[..., Job]) -> None:
    job = elastic(TRAINING, ["-np", "2", "--min-np", "2", "-H", "localhost:2"], "1", "1")
    assert job.end() == 137, job.text
    assert "localhost[1]" in job.text
