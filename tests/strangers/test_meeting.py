"""Unauthenticated peers at the listeners that are open only while members connect.

They are the listener for data, and the offer of memory that members on one host share. The job makes process sets all
the time, so its members connect again and again; a proxy between them holds one member's call back while the
unauthenticated peer has the listener for itself.
"""

from __future__ import annotations

import re
import select
import time
from pathlib import Path
from typing import Callable, List

import pytest
from namespaces import DEADLINE_S, Hosts
from results import Results
from training import SAME, Training, Wire, attack, listeners, wait_for

ATTACKS = {
    "bytes": (
        2,
        "garbage, bytes shaped like messages of UCX (forged gradients, a raw address), a pickle, half TLS",
    ),
    "key": (5, "a whole handshake with another key"),
}


def lasting_ports(job: Training) -> List[int]:
    """The ports of the first host that stay open while no members connect."""
    processes = [job.rendezvous, *job.workers[:2]]
    before = [listeners(process) for process in processes]
    job.wait_for_steps(2)
    return [port for process, ports in zip(processes, before) for port in listeners(process) if port in ports]


def refused_at_data_listener(job: Training) -> int:
    text = "".join(worker.text for worker in job.workers)
    return sum(map(int, re.findall(r"the tcp path refused (\d+) connections at its listener", text)))


@pytest.mark.parametrize("name", ATTACKS)
def test_the_data_listener_refuses_hostile_bytes_and_another_key(
    name: str, wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results
) -> None:
    count, title = ATTACKS[name]
    job = train("sets")
    port = wire.hold(*lasting_ports(job))
    outcome = wait_for(attack(job.hosts, name, job.hosts.addresses[0], port, count))
    wire.release()
    job.wait_for_steps(5)
    assert job.finish() == undisturbed_by_four
    tried = int(outcome.split()[0])
    assert refused_at_data_listener(job) >= tried / 2  # half a record of TLS is not logged
    results.add(f"the data listener: {title}", tried, SAME)


def test_members_connect_despite_silent_connections_to_the_data_listener(
    wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results, many: bool
) -> None:
    job = train("sets")
    port = wire.hold(*lasting_ports(job))
    count = 4096 if many else 512
    silent = attack(job.hosts, "silence", job.hosts.addresses[0], port, count)
    silent.read_until(r"^\d+ closed\n")
    wire.release()
    job.wait_for_steps(5)
    silent.kill()
    assert job.finish() == undisturbed_by_four
    results.add("the data listener: silent connections at once, opened anew when closed", count, SAME)


@pytest.mark.parametrize("name", ["replay", "mirror"])
def test_the_data_listener_refuses_replayed_bytes_of_a_member(
    name: str, wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results, tmp_path: Path
) -> None:
    job = train("sets")
    known = lasting_ports(job)
    first = wire.hold(*known)
    wire.release()  # the first connection is recorded
    job.wait_for_steps(5)
    recorded = tmp_path / "recorded"
    assert wire.save(first, recorded) > 400  # hello, proof, hello within TLS, chunks
    port = wire.hold(*known)  # and replayed to the next listener
    assert port != first
    outcome = wait_for(attack(job.hosts, name, job.hosts.addresses[0], port, 5, str(recorded)))
    wire.release()
    job.wait_for_steps(5)
    assert job.finish() == undisturbed_by_four
    title = {"replay": "a recorded connection, played again", "mirror": "a member's hello, then its answers led back"}
    results.add(f"the data listener: {title[name]}", int(outcome.split()[0]), SAME)
    assert refused_at_data_listener(job) >= 5


def test_the_data_listener_refuses_bytes_that_a_member_sent_to_another_listener(
    wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results, tmp_path: Path
) -> None:
    job = train("sets")
    first, second = wire.hold_two(*lasting_ports(job))
    wire.let(first)
    recorded = tmp_path / "recorded"
    end = time.monotonic() + DEADLINE_S
    while wire.save(first, recorded) < 400:  # hello, proof, hello within TLS
        assert time.monotonic() < end, "the member did not meet the first listener"
        select.select([], [], [], 0.02)
    outcome = wait_for(attack(job.hosts, "replay", job.hosts.addresses[0], second, 5, str(recorded)))
    wire.release()
    job.wait_for_steps(5)
    assert job.finish() == undisturbed_by_four
    title = "the data listener: what a member says to another listener of the same meeting, played again"
    results.add(title, int(outcome.split()[0]), SAME)
    assert refused_at_data_listener(job) >= 5


def test_the_shared_segment_is_not_given_to_another_user(
    hosts: Hosts, train: Callable[..., Training], undisturbed_by_four: str, results: Results
) -> None:
    job = train("sets")
    count = 20
    outcome = wait_for(attack(hosts, "segment", "-", 0, count, host=0))
    assert re.fullmatch(r"asked \d+ times, got nothing", outcome)
    assert job.finish() == undisturbed_by_four
    results.add("the offer of shared memory: asked by another user of the host", int(outcome.split()[1]), SAME)
