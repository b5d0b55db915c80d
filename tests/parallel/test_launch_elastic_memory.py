"""Memory and descriptors of an elastic job do not grow with the number of its resets."""

from __future__ import annotations

import re
from statistics import median
from typing import Callable

import pytest
from launched import Job, needs_launcher

pytestmark = needs_launcher

# Both members reset repeatedly, and print at times the memory and descriptors of themselves and of the launcher.
SCRIPT = """
import os, sys
import numpy, farandole.numpy as hvd
from horovod.common.exceptions import HostsUpdatedInterrupt

every, last = [int(number) for number in sys.argv[1:]]
hvd.init()
state = hvd.elastic.NumPyState(step=0)

def held(process):
    kib = int(open(f"/proc/{process}/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024
    return f"{kib} KiB {len(os.listdir(f'/proc/{process}/fd'))} descriptors"

@hvd.elastic.run
def train(state):
    count = hvd.allreduce(numpy.ones(1000), op=hvd.Sum, name="count")
    assert (count == hvd.size()).all()
    if state.step and state.step % every == 0:
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


# Memory that a thread takes once is a larger part of the growth over few resets.
@pytest.mark.timeout(1000)
@pytest.mark.parametrize(
    "every, last, kib_per_reset", [(10, 70, 16), pytest.param(50, 350, 2, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_memory_and_descriptors_do_not_grow_with_the_number_of_resets(
    every: int, last: int, kib_per_reset: int, elastic: Callable[..., Job]
) -> None:
    job = elastic(SCRIPT, ["-np", "2", "--min-np", "2", "-H", "localhost:2"], str(every), str(last))
    assert job.end(deadline_s=900) == 0, job.text
    for process in (r"\[0\]<stdout>:HELD member", r"\[1\]<stdout>:HELD member", r"HELD launcher"):
        held = re.findall(rf"(?m){process} (\d+) KiB (\d+) descriptors", job.text)
        assert len(held) == last // every, job.text
        kib, descriptors = ([int(number) for number in column] for column in zip(*held))
        # A leak grows all the time; memory that a thread takes once does not show in the median.
        growth = median(after - before for before, after in zip(kib, kib[1:]))
        assert growth < kib_per_reset * every, (process, kib)
        # Some links are still being opened or closed while a member counts.
        middle = len(held) // 2
        assert min(descriptors[middle:]) <= max(descriptors[:middle]), (process, descriptors)
