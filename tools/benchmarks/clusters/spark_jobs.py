"""Jobs of horovod.spark beside bare stages of Spark: `python spark_jobs.py ROUNDS NAME…` prints JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any, Callable

import horovod.spark
from pyspark.sql import SparkSession

TASKS = 4


def nothing() -> None: ...


def start_a_process(_: Any) -> list[int]:
    return [subprocess.run([sys.executable, "-c", "pass"], check=True).returncode]


def timed(function: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def run(session: Any, rounds: int) -> dict[str, list[float]]:
    context = session.sparkContext
    samples: dict[str, list[float]] = {"ours": [], "other": []}
    for _ in range(rounds + 1):
        stage = context.parallelize(range(TASKS), TASKS).barrier().mapPartitions(start_a_process)
        samples["other"].append(timed(stage.collect))
        samples["ours"].append(timed(lambda: horovod.spark.run(nothing, num_proc=TASKS, stderr=sys.stderr)))
    return {name: values[1:] for name, values in samples.items()}  # the first round fills caches


def main() -> None:
    rounds, names = int(sys.argv[1]), sys.argv[2:]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(f"local[{TASKS}]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    results = {each.__name__: each(session, rounds) for each in (run,) if each.__name__ in names}
    session.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main()
