"""The examples for Spark and PyTorch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from spark_sessions import output_of_example


@pytest.mark.slow
def test_digits_are_learned_in_spark_tasks(tmp_path: Path) -> None:
    text = output_of_example("spark_mnist.py", tmp_path, "--epochs", "3", "--store", str(tmp_path / "store"))
    assert "epoch 3 of 3" in text
    found = re.search(r"accuracy ([\d.]+) on (\d+) images", text)
    assert found, text
    assert float(found[1]) > 0.9
    assert 900 < int(found[2]) < 1100
