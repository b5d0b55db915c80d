"""The examples for Spark and Keras."""

from __future__ import annotations

import re
from pathlib import Path

from spark_sessions import output_of_example

NOISE = 0.1
"""Of the generated sales: no forecast has a smaller error."""


def test_sales_are_forecast_for_days_after_those_of_the_training(tmp_path: Path) -> None:
    folders = ["--store", str(tmp_path / "store"), "--forecast", str(tmp_path / "forecast")]
    text = output_of_example("spark_sales.py", tmp_path, "--epochs", "3", *folders)
    assert "epoch 3 of 3" in text and "validation exp_rmspe" in text
    validation = re.search(r"exp_rmspe of the validation: ([\d.]+)", text)
    forecast = re.search(r"exp_rmspe of the forecast for (\d+) rows: ([\d.]+)", text)
    assert validation and forecast, text
    assert 0.9 * NOISE < float(validation[1]) < 1.5 * NOISE
    assert 0.9 * NOISE < float(forecast[2]) < 1.5 * NOISE
    assert int(forecast[1]) == 240  # 20 shops, on the 12 open days of two weeks
    assert len(list((tmp_path / "forecast").glob("*.parquet"))) == 1
