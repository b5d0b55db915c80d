"""A man in the middle that can read, hold and change every packet between the hosts of a job."""

from __future__ import annotations

import pickle
import re
import time
from pathlib import Path
from typing import Callable

import cloudpickle
import pytest
from results import Results
from training import OBJECT, SAME, Training, Wire, attack, listeners, wait_for

ENDS = "every worker ends with an error that names a rank at an end of the connection"

NOT_RUN = "not unpickled; every worker ends with an error that names the rank it seemed to come from"


def seconds_until_all_end(job: Training, wire: Wire) -> float:
    """The seconds from the change to the end of the last worker."""
    began = float(wire.process.read_until(r"^\w+ed .*\bat (\S+)\n").group(1))
    codes = [worker.end() for worker in job.workers]
    ended = time.monotonic()
    assert all(code != 0 for code in codes), codes
    return ended - began


def check_that_a_seal_was_broken(job: Training) -> None:
    """Each worker names an end of the connection, because it cannot know if the other end or the wire is at fault.
    The worker that found the broken seal closed the connection, and the other one may have seen only the closure.
    Bytes that take the place of a chunk's header may be no header at all, which is found before the seal is checked."""
    for worker in job.workers:
        assert re.search(r"\brank [01]\b", worker.text), worker.text
        assert "weights" not in worker.text and "AssertionError" not in worker.text
        # No worker has closed the connection in order, by its own report or by that of its peer.
        assert "closed its connection" not in worker.text
    broken = r"\bdata does not authenticate|\bit sent a malformed chunk"
    reports = [re.search(broken, worker.text) for worker in job.workers]
    assert any(reports), "\n".join(worker.text for worker in job.workers)


@pytest.mark.parametrize("connection", ["data", "link"])
def test_a_changed_bit_ends_the_job_and_the_errors_name_an_end_of_the_connection(
    connection: str, wire: Wire, train: Callable[..., Training], results: Results
) -> None:
    job = train()
    wire.order("spoil", connection_port(job, connection), 0)
    seconds = seconds_until_all_end(job, wire)
    check_that_a_seal_was_broken(job)
    results.add(f"man in the middle: one bit changed on the connection for {connection}", 1, ENDS, seconds)


@pytest.mark.parametrize("connection", ["data", "link"])
def test_bytes_that_are_replayed_on_their_own_connection_end_the_job(
    connection: str, wire: Wire, train: Callable[..., Training], results: Results
) -> None:
    job = train()
    wire.order("repeat", connection_port(job, connection))
    seconds = seconds_until_all_end(job, wire)
    check_that_a_seal_was_broken(job)
    title = f"man in the middle: recorded bytes in place of the next ones, on the same connection for {connection}"
    results.add(title, 1, ENDS, seconds)


def connection_port(job: Training, connection: str) -> int:
    """The port of the first host's end of the connection."""
    (rendezvous,), (links,) = listeners(job.rendezvous), listeners(job.workers[0])
    if connection != "data":
        return {"rendezvous": rendezvous, "link": links}[connection]
    (data,) = job.connected_ports(0, 1) - {rendezvous, links}
    return data


@pytest.mark.parametrize("connection", ["rendezvous", "link"])
def test_a_replayed_link_connection_does_not_change_the_weights(
    connection: str, wire: Wire, train: Callable[..., Training], undisturbed: str, results: Results, tmp_path: Path
) -> None:
    job = train()
    port = connection_port(job, connection)
    recorded = tmp_path / "recorded"
    assert wire.save(port, recorded) > 400
    outcome = wait_for(attack(job.hosts, "replay", job.hosts.addresses[0], port, 5, str(recorded)))
    assert job.finish() == undisturbed
    results.add(f"man in the middle: a recorded {connection} connection, played again", int(outcome.split()[0]), SAME)


def test_objects_of_members_are_not_visible_on_the_wire(
    wire: Wire, train: Callable[..., Training], undisturbed: str, results: Results
) -> None:
    job = train("objects")
    sent = cloudpickle.dumps(OBJECT).hex()
    wire.order("swap", sent, sent)
    job.wait_for_steps(20)
    assert job.finish() == undisturbed
    assert "swapped" not in wire.process.stop()  # the next test shows that a path without encryption is swapped
    results.add("man in the middle: looks for the bytes of a broadcast object", 20, f"not seen; {SAME}")


def test_a_forged_object_on_an_unprotected_path_is_not_unpickled(
    wire: Wire, train: Callable[..., Training], results: Results, tmp_path: Path
) -> None:
    proof = tmp_path / "run"
    genuine = cloudpickle.dumps(OBJECT)
    forged = f"cposix\nsystem\n(S'touch {proof}'\ntR.".encode().ljust(len(genuine), b".")
    assert len(forged) == len(genuine)
    pickle.loads(forged)
    assert proof.exists()  # unpickling runs the command, which made the file
    proof.unlink()
    trusted = {"FARANDOLE_CPU_PATH": "gloo", "FARANDOLE_TRUSTED_NETWORK": "1"}
    job = train("objects", settings=trusted)
    wire.order("swap", genuine.hex(), forged.hex())
    seconds = seconds_until_all_end(job, wire)
    assert "the object from rank 0 was not accepted" in job.workers[1].text, job.workers[1].text
    assert not proof.exists()
    results.add("man in the middle: a pickle replaced by a program, on gloo and a trusted network", 1, NOT_RUN, seconds)
