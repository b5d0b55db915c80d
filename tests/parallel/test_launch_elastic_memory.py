"""Memory and descriptors of an elastic job stay what they are, however often its members meet anew."""

from __future__ import annotations

import re
from typing import Callable

from launched import Job, needs_launcher

pytestmark = needs_launcher

# Both members start over again and again, and say what they and the launcher hold after the first times and at the end.
SCRIPT = """
import os, sys
import numpy, farandole.numpy as hvd
from horovod.common.exceptions import HostsUpdatedInterrupt

first, last = [int(each) for each in sys.argv[1:]]
hvd.init()
state = hvd.elastic.NumPyState(step=0)

def held(process):
    kib = int(open(f"/proc/{process}/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024
    return f"{kib} KiB {len(os.listdir(f'/proc/{process}/fd'))} descriptors"

@hvd.elastic.run
def train(state):
    count = hvd.allreduce(numpy.ones(1000), op=hvd.Sum, name="count")
    assert (count == hvd.size()).all()
    if state.step in (first, last):
        print(f"HELD member {held('self')}", flush=True)
        if hvd.rank() == 0:
            print(f"HELD launcher {held(os.getppid())}", flush=True)
    if state.step == last:
        return
    state.step += 1
    state.save()
    raise HostsUpdatedInterrupt(False)

train(state)
"""

FIRST, LAST = 50, 200
KIB_PER_REGROUP = 2


def test_memory_stays_flat_while_members_meet_anew(elastic: Callable[..., Job]) -> None:
    job = elastic(SCRIPT, ["-np", "2", "--min-np", "2", "-H", "localhost:2"], str(FIRST), str(LAST))
    assert job.end() == 0, job.text
    for process in (r"\[0\]<stdout>:HELD member", r"\[1\]<stdout>:HELD member", r"HELD launcher"):
        held = re.findall(rf"(?m){process} (\d+) KiB (\d+) descriptors", job.text)
        (before, descriptors_before), (after, descriptors_after) = [tuple(map(int, each)) for each in held]
        assert after - before < KIB_PER_REGROUP * (LAST - FIRST), (process, before, after)
        assert descriptors_after <= descriptors_before, (process, descriptors_before, descriptors_after)
