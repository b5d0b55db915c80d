"""The elastic examples, run by the launcher."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Dict, List

import pytest
from launched import Job, clean_environment, needs_launcher, wait_until

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

pytestmark = needs_launcher


@pytest.mark.slow
def test_the_elastic_example_reaches_its_accuracy_in_a_job_with_fixed_members() -> None:
    example = str(EXAMPLES / "pytorch_mnist_elastic.py")
    job = Job(["-np", "2", sys.executable, example, "--epochs", "2", "--batch-size", "40"])
    assert job.end() == 0, job.text
    found = re.search(r"accuracy on the held-out images: ([0-9.]+)", job.text)
    assert found is not None and float(found.group(1)) > 0.75, job.text
    assert "100 steps" in job.text


@pytest.mark.slow
def test_the_same_batch_example_gives_the_same_weights_after_a_lost_worker(tmp_path: Path, jobs: List[Job]) -> None:
    events = tmp_path / "events"
    events.touch()

    def start(environment: Dict[str, str]) -> Job:
        command = [sys.executable, str(EXAMPLES / "pytorch_mnist_same_batch.py"), "--epochs", "1", "--part-size", "16"]
        jobs.append(Job(["-np", "2", "--min-np", "1", "-H", "localhost:2", *command], environment))
        return jobs[-1]

    def weights(job: Job) -> float:
        assert job.end() == 0, job.text
        return float(re.findall(r"WEIGHTS ([0-9.]+)", job.text)[0])

    def commits_of_slot_1() -> List[int]:
        lines = [json.loads(line) for line in events.read_text().rpartition("\n")[0].splitlines()]
        return [event["pid"] for event in lines if event["event"] == "commit" and event["slot"] == 1]

    undisturbed = weights(start(clean_environment()))
    job = start({**clean_environment(), "FARANDOLE_ELASTIC_EVENTS": str(events)})
    wait_until(lambda: len(commits_of_slot_1()) >= 10, "slot 1 commits ten times")
    os.kill(commits_of_slot_1()[0], signal.SIGKILL)
    assert abs(weights(job) - undisturbed) < 0.01, job.text
    assert "epoch 1: 1 workers" in job.text
