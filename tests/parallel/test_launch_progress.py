"""Operations that take longer than the operation timeout, because they are large."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict

import pytest
from launched import needs_launcher, run_script

pytestmark = needs_launcher

# The timeout is half of what an allreduce takes here and now. So the operations take longer than the timeout on any
# machine, and a busy machine, on which a process may be descheduled for longer, has a longer timeout.
LARGE = """
import os, time

if "BETWEEN_HOSTS" in os.environ:
    os.environ["FARANDOLE_HOST_ID"] = "host" + os.environ["HOROVOD_RANK"]
import numpy
import farandole.numpy as hvd

tensor = numpy.ones(100_000_000, numpy.float32)


def duration_of_allreduce():
    begun = time.monotonic()
    hvd.allreduce(tensor, op=hvd.Sum, name="allreduce")
    return time.monotonic() - begun


hvd.init()
duration_of_allreduce()  # the first one also touches new memory
limit_s = float(hvd.allreduce(numpy.array([duration_of_allreduce()]), op=hvd.Max, name="duration")[0]) / 2
hvd.shutdown()
os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"] = f"{limit_s:.3f}"
hvd.init()
for name, operation in {
    "allreduce": lambda: hvd.allreduce(tensor, op=hvd.Sum),
    "broadcast": lambda: hvd.broadcast(tensor, 0),
    "alltoall": lambda: hvd.alltoall(tensor),
    "allgather": lambda: hvd.allgather(tensor),
}.items():
    begun = time.monotonic()
    try:
        operation()
    except hvd.HorovodInternalError as problem:
        print(f"FAILED {name}: {problem}", flush=True)
        raise
    print(f"DONE {name} in {time.monotonic() - begun:.2f} s with a timeout of {limit_s:.2f} s", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="one-host"),
        pytest.param({"BETWEEN_HOSTS": "1"}, id="between-hosts", marks=pytest.mark.slow),
    ],
)
def test_operations_take_longer_than_the_operation_timeout_while_their_data_moves(
    settings: Dict[str, str], tmp_path: Path
) -> None:
    job = run_script(2, tmp_path, LARGE, **settings)
    assert job.returncode == 0, job.stdout
    assert len(re.findall("DONE ", job.stdout)) == 8, job.stdout
