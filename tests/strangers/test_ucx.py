"""An attacker with the real UCX at the port of a worker that runs UCX over TCP with FARANDOLE_TRUSTED_NETWORK=1.

Nothing protects tensors there (docs/guides/security.md), but links and forged objects must be refused.
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
"""The length of the tag in front of an object."""
OPERATIONS_OF_A_STEP = 4
"""A step of "objects" has four: the end, the gradient, the length of the object and the object."""
MESSAGES = 16384

ENDS = {
    "object": "not unpickled; every worker ends with an error that names the rank it seemed to come from",
    "length": "every worker ends with an error that names the rank it seemed to come from",
}


@pytest.mark.parametrize("name", ENDS)
def test_forged_objects_sent_by_ucx_are_not_unpickled(
    name: str, train: Callable[..., Training], results: Results, tmp_path: Path
) -> None:
    proof = tmp_path / "run"
    forged = f"cposix\nsystem\n(S'touch {proof}'\ntR.".encode().ljust(len(cloudpickle.dumps(OBJECT)), b".")
    pickle.loads(forged)
    proof.unlink()  # unpickling runs the command, which made the file
    message = tmp_path / "message"
    message.write_bytes(bytes(HEADER_BYTES) + forged)
    job = train("objects", settings=TRUSTED)
    # The 21 gradients before the first of these steps have the numbers 0 to 20.
    first = 21 % OPERATIONS_OF_A_STEP + {"length": 2, "object": 3}[name]
    argument = f"{message}:{first}:{OPERATIONS_OF_A_STEP}"
    for port in listeners(job.workers[1]):  # one of the ports is that of links
        wait_for(attack(job.hosts, "ucx", job.hosts.addresses[1], port, MESSAGES, argument))
    assert all(worker.end() != 0 for worker in job.workers), job.workers[1].text
    assert not proof.exists()
    accepted = {"object": "the object from rank 0 was not accepted", "length": "rank 0 is lost to the ucx path"}
    assert accepted[name] in job.workers[1].text, job.workers[1].text
    title = f"a worker's port of UCX over TCP, on a trusted network: a forged {name}, sent by the real UCX"
    results.add(title, 1, ENDS[name])


def test_the_listener_for_links_refuses_an_attacker_with_ucx(
    train: Callable[..., Training], undisturbed: str, results: Results
) -> None:
    job = train(settings=TRUSTED)
    message = Path(__file__)
    outcomes: List[str] = []
    for port in listeners(job.workers[1]):
        outcomes.append(wait_for(attack(job.hosts, "ucx", job.hosts.addresses[1], port, 1, f"{message}:0:1")))
    # No receive of the worker matches the messages, and at the listener for links UCX cannot connect.
    assert sorted(outcomes) == ["4 messages sent", "UCX answers -80"], outcomes
    assert job.finish() == undisturbed
    assert "link from" in job.workers[1].text
    results.add("a worker's links: the real UCX", 1, f"refused; {SAME}")
