"""The examples for Ray run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest
from ray.cluster_utils import Cluster

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_is_left")
@pytest.mark.parametrize("options", [[], ["--elastic"]])
def test_digits_are_learned(cluster: Cluster, options: List[str]) -> None:
    words = [sys.executable, str(EXAMPLES / "ray_mnist.py"), "--epochs", "3", *options]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    ran = subprocess.run(words, env=environment, check=False, capture_output=True, text=True, timeout=500)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines if line.startswith("epoch")] == ["epoch 1", "epoch 2", "epoch 3"]
    accuracies = re.findall(r"'accuracy': ([0-9.]+)", lines[-1])
    assert accuracies
    assert min(map(float, accuracies)) > 0.9
