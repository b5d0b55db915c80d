"""A job in which a rank never calls init(): the other ranks name it."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from launched import needs_launcher, run_script

pytestmark = needs_launcher


@pytest.mark.slow
def test_rank_0_reports_a_rank_that_never_calls_init_and_the_final_error_lists_it(tmp_path: Path) -> None:
    script = """
    import os, signal
    import horovod.numpy as hvd
    if os.environ["HOROVOD_RANK"] == "2":
        signal.pause()  # until the launcher ends the job
    hvd.init()
    """
    job = run_script(3, tmp_path, script, HOROVOD_START_TIMEOUT="20")
    assert job.returncode != 0
    missing = f"2 of 3 ranks have called init(); missing: rank 2 on {socket.gethostname()}"
    reports = [line for line in job.stdout.splitlines() if "init() has waited" in line]
    # One after 5 s and one after 15 s; on a busy machine the first may come before rank 1 has called init().
    assert 1 <= len(reports) <= 2 and all("[0]<stderr>" in line for line in reports), job.stdout
    assert re.search(r"has waited \d+ s, of at most .* = 20 s", reports[-1]) and missing in reports[-1], job.stdout
    errors = [line for line in job.stdout.splitlines() if "did not come together" in line]
    assert errors and all(missing in line for line in errors), job.stdout
