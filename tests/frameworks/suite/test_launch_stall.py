"""A gradient that one rank does not submit: the stall report names the rank and the tensor."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Callable

import drivers
import pytest
from launched import Job, launch, needs_launcher

__all__ = ["launch"]  # the fixture

# The rule is the same for all frameworks, so the standard suite tests it with one.
pytestmark = [needs_launcher, *([] if os.environ.get(drivers.VARIABLE) == "numpy" else [pytest.mark.slow])]

# Rank 1 submits its gradient after the test has seen the report and has opened the other end of the pipe.
LATE = """
import os, sys
hvd.init()
for step in range(3):
    read(hvd.allreduce(make([1.0, 2.0]), name="gradient.weight"))
if hvd.rank() == 1:
    open(sys.argv[1]).close()
print("came", read(hvd.allreduce(make([float(hvd.rank())] * 3), name="gradient.weight.late", op=hvd.Sum)), flush=True)
"""


def test_the_stall_report_names_the_missing_rank_and_the_tensor(tmp_path: Path, launch: Callable[..., Job]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = drivers.current().prelude + LATE
    job = launch(2, script, str(pipe), flags=["--stall-check-warning-time-seconds", "1"])
    report = r"Missing ranks:\n(?:\[\d\]<stderr>:)?1: \[\S*gradient\.weight\.late\]"
    job.read_until(lambda text: re.search(report, text) is not None)
    job.open_for_reader(pipe)
    assert job.end() == 0, job.text
    assert job.text.count("came [1.0, 1.0, 1.0]") == 2
