"""A stranger with the real UCX at the port of a worker that runs UCX over TCP, where FARANDOLE_TRUSTED_NETWORK=1 says
that there are no strangers. Nothing protects the tensors there: docs/guides/security.md. What does not go by the data
path, and what is unpickled, must be refused even so.
"""

from __future__ import annotations

import ctypes.util
import pickle
from pathlib import Path
from typing import Callable, List

import cloudpickle
import pytest
from results import Results
from training import OBJECT, SAME, Training, attack, listeners, wait_for

pytestmark = pytest.mark.skipif(ctypes.util.find_library("ucp") is None, reason="UCX is not installed")

TRUSTED = {"FARANDOLE_CPU_PATH": "ucx", "FARANDOLE_TRUSTED_NETWORK": "1"}
HEADER_BYTES = 44
"""Of the tag in front of an object."""
WORKS_OF_A_STEP = 4
"""Of "objects": the end, the gradient, the object's length and the object."""
MESSAGES = 16384

ENDS = {
    "object": "not unpickled; every worker ends with an error that names the rank it seemed to come from",
    "length": "every worker ends with an error that names the rank it seemed to come from",
}


@pytest.mark.parametrize("name", ENDS)
def test_objects_that_a_stranger_sends_by_ucx_are_not_unpickled(
    name: str, train: Callable[..., Training], results: Results, tmp_path: Path
) -> None:
    proof = tmp_path / "run"
    forged = f"cposix\nsystem\n(S'touch {proof}'\ntR.".encode().ljust(len(cloudpickle.dumps(OBJECT)), b".")
    pickle.loads(forged)
    proof.unlink()  # so it runs where it is unpickled
    message = tmp_path / "message"
    message.write_bytes(bytes(HEADER_BYTES) + forged)
    job = train("objects", settings=TRUSTED)
    # The 21 gradients before the first of these steps have the numbers from 0 on.
    first = 21 % WORKS_OF_A_STEP + {"length": 2, "object": 3}[name]
    what = f"{message}:{first}:{WORKS_OF_A_STEP}"
    for port in listeners(job.workers[1]):  # one is that of links
        wait_for(attack(job.hosts, "ucx", job.hosts.addresses[1], port, MESSAGES, what))
    assert all(worker.end() != 0 for worker in job.workers), job.workers[1].text
    assert not proof.exists()
    accepted = {"object": "the object from rank 0 was not accepted", "length": "rank 0 is lost to the ucx path"}
    assert accepted[name] in job.workers[1].text, job.workers[1].text
    title = f"a worker's port of UCX over TCP, on a trusted network: a forged {name}, sent by the real UCX"
    results.add(title, 1, ENDS[name])


def test_links_are_refused_to_a_stranger_beside_ucx(
    train: Callable[..., Training], undisturbed: str, results: Results
) -> None:
    job = train(settings=TRUSTED)
    nothing = Path(__file__)
    told: List[str] = []
    for port in listeners(job.workers[1]):
        told.append(wait_for(attack(job.hosts, "ucx", job.hosts.addresses[1], port, 1, f"{nothing}:0:1")))
    # Nobody there asks for such a message; the listener for links does not even connect.
    assert sorted(told) == ["4 messages sent", "UCX answers -80"], told
    assert job.ends() == undisturbed
    assert "link from" in job.workers[1].text
    results.add("a worker's links: the real UCX", 1, f"refused; {SAME}")
