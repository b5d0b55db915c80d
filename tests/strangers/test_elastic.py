"""Attacks on an elastic job while its rendezvous is away, or while its members connect again."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Iterator

import pytest
from elastic_training import ElasticTraining
from namespaces import Hosts
from results import ROUNDS, Results
from training import SAME, attack


@pytest.fixture(scope="module")
def undisturbed(permitted: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("undisturbed")
    made = Hosts(2, folder)
    try:
        made.make()
        job = ElasticTraining(made, folder)
        job.members(3)
        yield job.finish()
    finally:
        made.remove()


@pytest.fixture
def job(hosts: Hosts, tmp_path: Path) -> ElasticTraining:
    started = ElasticTraining(hosts, tmp_path)
    started.members(3)
    return started


def test_an_impostor_on_the_port_of_the_rendezvous_does_not_change_the_weights(
    job: ElasticTraining, undisturbed: str, results: Results
) -> None:
    job.rendezvous.kill()
    job.read_until_all("training goes on", 3)
    impostor = attack(job.hosts, "impostor", job.hosts.addresses[0], job.port, 0, host=0)
    impostor.read_until(r"(answered with an alert\n){9}")
    impostor.kill()
    job.start_rendezvous()
    job.read_until_all("the rendezvous is back", 3)
    assert job.finish() == undisturbed
    results.add("an impostor on the port of a rendezvous that is away: alerts in answer to handshakes", 9, SAME)


# Counts of connections, from the attacker's host (-1), or from the first host of the job as another user (0).
SILENT = [(4096, -1), (700, 0)]


@pytest.mark.parametrize("count, host", [(200, -1), (700, -1), *SILENT] if ROUNDS > 1 else SILENT)
def test_members_connect_again_despite_silent_connections_to_the_rendezvous(
    count: int, host: int, job: ElasticTraining, undisturbed: str, results: Results
) -> None:
    silent = attack(job.hosts, "silence", job.hosts.addresses[0], job.port, count, host=host)
    silent.read_until(r"^\d+ closed\n")
    began = time.monotonic()
    job.kill(2)
    job.members(2)
    seconds = time.monotonic() - began
    silent.kill()
    assert job.finish() == undisturbed
    place = "" if host < 0 else " of another user on a member's host"
    outcome = f"{SAME}; members have met again"
    results.add(f"{count:,} silent connections at the rendezvous{place} while members meet anew", 1, outcome, seconds)


@pytest.mark.parametrize("host", [0, 1])
def test_members_connect_again_despite_silent_connections_to_their_listeners(
    host: int, job: ElasticTraining, undisturbed: str, results: Results
) -> None:
    count = 700
    silent = attack(job.hosts, "new_listeners", job.hosts.addresses[host], 0, count, host=host)
    began = time.monotonic()
    job.kill(1)  # the remaining members are on two hosts
    silent.read_until(r"^at \d+\n")
    job.members(2)
    seconds = time.monotonic() - began
    silent.kill()
    assert job.finish() == undisturbed
    outcome = f"{SAME}; members have met again"
    title = (
        f"{count} silent connections of another user at each listener of a member on its host while members meet anew"
    )
    results.add(title, 1, outcome, seconds)


def test_a_damaged_journal_is_refused_and_a_sound_copy_is_accepted(
    job: ElasticTraining, undisturbed: str, results: Results
) -> None:
    job.rendezvous.kill()
    job.read_until_all("training goes on", 3)
    sound = job.journal.read_bytes()
    damaged = bytearray(sound)
    damaged[20] ^= 1
    job.journal.write_bytes(damaged)
    with pytest.raises(EOFError, match="damaged at byte 16"):
        job.start_rendezvous()
    job.journal.write_bytes(sound)
    job.start_rendezvous()
    job.read_until_all("the rendezvous is back", 3)
    assert job.finish() == undisturbed
    outcome = f"refused with the byte; with a sound copy: {SAME}"
    results.add("one bit of the journal changed while the rendezvous is away", 1, outcome)


def test_symbolic_links_beside_the_journal_are_not_followed(
    job: ElasticTraining, undisturbed: str, results: Results, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("of somebody else")
    job.rendezvous.kill()
    job.read_until_all("training goes on", 3)
    lock = Path(f"{job.journal}.lock")
    lock.unlink()
    lock.symlink_to(victim)
    with pytest.raises(EOFError, match=r"\.lock is a symbolic link"):
        job.start_rendezvous()
    lock.unlink()
    Path(f"{job.journal}.new").symlink_to(victim)
    job.start_rendezvous()
    job.read_until_all("the rendezvous is back", 3)
    assert job.finish() == undisturbed
    assert victim.read_text() == "of somebody else"
    results.add(
        "symbolic links planted as .lock and .new of the journal",
        2,
        f"the first refused, the second not followed; {SAME}",
    )
