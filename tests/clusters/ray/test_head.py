"""Jobs whose cluster loses its head node, on which Ray's control service (GCS) and a worker of each job run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("head_driver.py")


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left")
def test_without_its_head_a_fixed_job_ends_with_the_cause_and_an_elastic_one_goes_on(tmp_path: Path) -> None:
    environment = {**os.environ, "RAY_gcs_rpc_server_reconnect_timeout_s": "30"}  # then Ray ends all other processes
    words = [sys.executable, str(DRIVER), str(tmp_path)]
    ran = subprocess.run(words, env=environment, check=False, capture_output=True, text=True, timeout=560)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    fixed = (tmp_path / "fixed.outcome").read_text()
    # The survivor's report and Ray's come at the same time.
    assert re.match(r"WorkerError: rank \d on node .*(lost its connection to|died, so that the job has ended)", fixed)
    assert (tmp_path / "elastic.outcome").read_text() == "results: [1]"
