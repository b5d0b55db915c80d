"""The short MNIST example, on real digits."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from launched import Job, needs_launcher

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "pytorch_mnist_short.py"

pytestmark = needs_launcher


@pytest.mark.slow
def test_the_short_mnist_example_reaches_85_percent_accuracy(jobs) -> None:
    jobs.append(Job(["-np", "2", sys.executable, str(EXAMPLE), "--steps", "200"]))
    assert jobs[-1].end() == 0, jobs[-1].text
    accuracy = re.search(r"accuracy (0\.\d+)", jobs[-1].text)
    assert accuracy and float(accuracy[1]) > 0.85, jobs[-1].text
