"""A host that vanishes without closing its connections: links to it end after the time of FARANDOLE_LINK_TIMEOUT."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from namespaces import Hosts

# Rank 0 has the request of rank 1 for "early" once "both" is done, because it was sent first on the same link.
SCRIPT = """
import os, time
import farandole.numpy as hvd, numpy
from horovod.common.exceptions import HorovodInternalError

hvd.init()
early = hvd.allreduce_async(numpy.ones(4, numpy.float32), name="early") if hvd.rank() == 1 else None
hvd.allreduce(numpy.ones(4, numpy.float32), name="both")
print("ready", flush=True)
end = time.monotonic() + 240
while not os.path.exists("CUT"):
    assert time.monotonic() < end
    time.sleep(0.01)
try:
    if early is not None:
        hvd.synchronize(early)
    else:
        hvd.allreduce(numpy.ones(4, numpy.float32), name="WANTED")
except HorovodInternalError as lost:
    print(f"ended {lost.kind}: {lost}", flush=True)
"""


@pytest.mark.parametrize("hosts", [2], indirect=True, ids=["two-hosts"])
@pytest.mark.parametrize("wanted", ["early", "other"], ids=["unanswered-data", "idle-link"])
def test_the_link_to_a_silent_host_ends_after_the_link_timeout(hosts: Hosts, tmp_path: Path, wanted: str) -> None:
    # Only the link between the members may time out: the deadlines of the rendezvous and of operations are later.
    cut = tmp_path / "cut"
    workers = hosts.job(
        SCRIPT.replace("CUT", str(cut)).replace("WANTED", wanted),
        settings={"FARANDOLE_LINK_TIMEOUT": "4", "HOROVOD_GLOO_TIMEOUT_SECONDS": "600"},
        rendezvous_settings={"FARANDOLE_LINK_TIMEOUT": "3600"},
        header="",
    )
    for worker in workers:
        worker.read_until(r"^ready\n")
    hosts.cut(1)
    cut.touch()
    problem = workers[0].read_until(r"^ended disconnected: (.*)\n").group(1)
    assert re.search(r"\brank 1\b", problem), problem
    workers[0].read_until(r"the peer is gone: .*, no answer within link timeout \(FARANDOLE_LINK_TIMEOUT\) = 4 s")
    assert workers[0].end() == 0, workers[0].text
    workers[1].read_until(r"^ended disconnected: .*\brank 0\b")
