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
    """Of the first host: those that are open whether members meet or not."""
    processes = [job.rendezvous, *job.workers[:2]]
    before = [listeners(process) for process in processes]
    job.steps(2)
    return [port for process, ports in zip(processes, before) for port in listeners(process) if port in ports]


def refused_at_data_listener(job: Training) -> int:
    text = "".join(worker.text for worker in job.workers)
    return sum(map(int, re.findall(r"the tcp path refused (\d+) connections at its listener", text)))


@pytest.mark.parametrize("name", ATTACKS)
def test_a_listener_for_data_takes_nothing_from_a_stranger(
    name: str, wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results
) -> None:
    count, title = ATTACKS[name]
    job = train("sets")
    port = wire.hold(*lasting_ports(job))
    told = wait_for(attack(job.hosts, name, job.hosts.addresses[0], port, count))
    wire.release()
    job.steps(5)
    assert job.ends() == undisturbed_by_four
    tried = int(told.split()[0])
    assert refused_at_data_listener(job) >= tried / 2  # half a record of TLS is not worth a line
    results.add(f"the data listener: {title}", tried, SAME)


def test_silent_connections_do_not_keep_a_member_out(
    wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results, many: bool
) -> None:
    job = train("sets")
    port = wire.hold(*lasting_ports(job))
    count = 4096 if many else 512
    silent = attack(job.hosts, "silence", job.hosts.addresses[0], port, count)
    silent.read_until(r"^\d+ closed\n")
    wire.release()
    job.steps(5)
    silent.kill()
    assert job.ends() == undisturbed_by_four
    results.add("the data listener: silent connections at once, opened anew when closed", count, SAME)


@pytest.mark.parametrize("name", ["replay", "mirror"])
def test_what_a_member_said_before_opens_nothing(
    name: str, wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results, tmp_path: Path
) -> None:
    job = train("sets")
    known = lasting_ports(job)
    first = wire.hold(*known)
    wire.release()  # that one is recorded …
    job.steps(5)
    said = tmp_path / "said"
    assert wire.save(first, said) > 400  # hello, proof, hello within TLS, chunks
    port = wire.hold(*known)  # … and played to the next one
    assert port != first
    told = wait_for(attack(job.hosts, name, job.hosts.addresses[0], port, 5, str(said)))
    wire.release()
    job.steps(5)
    assert job.ends() == undisturbed_by_four
    title = {"replay": "a recorded connection, played again", "mirror": "a member's hello, then its answers led back"}
    results.add(f"the data listener: {title[name]}", int(told.split()[0]), SAME)
    assert refused_at_data_listener(job) >= 5


def test_what_a_member_says_to_one_listener_opens_no_other_of_the_same_meeting(
    wire: Wire, train: Callable[..., Training], undisturbed_by_four: str, results: Results, tmp_path: Path
) -> None:
    job = train("sets")
    first, second = wire.hold_two(*lasting_ports(job))
    wire.let(first)
    said = tmp_path / "said"
    end = time.monotonic() + DEADLINE_S
    while wire.save(first, said) < 400:  # hello, proof, hello within TLS
        assert time.monotonic() < end, "the member did not meet the first listener"
        select.select([], [], [], 0.02)
    told = wait_for(attack(job.hosts, "replay", job.hosts.addresses[0], second, 5, str(said)))
    wire.release()
    job.steps(5)
    assert job.ends() == undisturbed_by_four
    title = "the data listener: what a member says to another listener of the same meeting, played again"
    results.add(title, int(told.split()[0]), SAME)
    assert refused_at_data_listener(job) >= 5


def test_the_window_of_a_host_is_given_to_no_other_user(
    hosts: Hosts, train: Callable[..., Training], undisturbed_by_four: str, results: Results
) -> None:
    job = train("sets")
    count = 20
    told = wait_for(attack(hosts, "window", "-", 0, count, host=0))
    assert re.fullmatch(r"asked \d+ times, got nothing", told)
    assert job.ends() == undisturbed_by_four
    results.add("the offer of shared memory: asked by another user of the host", int(told.split()[1]), SAME)
