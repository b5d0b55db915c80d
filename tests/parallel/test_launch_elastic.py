"""The elastic example as a person would run it, in a job whose members stay."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from launched import Job, needs_launcher

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "pytorch_mnist_elastic.py"


@needs_launcher
def test_the_example_learns_digits() -> None:
    job = Job(["-np", "2", sys.executable, str(EXAMPLE), "--epochs", "2", "--batch-size", "40"])
    assert job.end() == 0, job.text
    found = re.search(r"accuracy on the held-out images: ([0-9.]+)", job.text)
    assert found is not None and float(found.group(1)) > 0.75, job.text
    assert "100 steps" in job.text
