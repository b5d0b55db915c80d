"""A compute job in the executors of Spark."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, List

import pytest
from launched import Job, assert_gone, clean_environment

CLUSTERS = Path(__file__).resolve().parents[3] / ".setup" / "venvs" / "clusters"

# The driver: it asks for a wrong number of dispatchers first, and then runs the command.
DRIVER = """
import os, runpy, sys
from horovod.spark.tensorflow import compute_worker

print("pid", os.getpid(), flush=True)
print("LOADED", [name for name in ("tensorflow", "farandole._native") if name in sys.modules], flush=True)
path = sys.argv[1]
try:
    compute_worker.main(3, "compute", path, 60)
except ValueError as problem:
    print("REFUSED", problem, os.path.exists(path), flush=True)
sys.argv[1:] = [path, "--dispatchers", "2", "--dispatcher-side", "training"]
runpy.run_module("horovod.spark.tensorflow.compute_worker", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def spark_folder(tmp_path: Path) -> Path:
    """A folder with PySpark and the library that it needs, from the environment for clusters."""
    sites = list(CLUSTERS.glob("lib/python3.*/site-packages"))
    if not sites or not (sites[0] / "pyspark").is_dir() or shutil.which("java") is None:
        pytest.skip("PySpark or Java is missing: tools/setup --clusters installs both")
    folder = tmp_path / "spark"
    folder.mkdir()
    for package in ("pyspark", "py4j"):
        (folder / package).symlink_to(sites[0] / package)
    return folder


@pytest.mark.slow
def test_executors_of_spark_compute(
    tmp_path: Path, spark_folder: Path, jobs: List[Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    import tensorflow as tf
    from horovod.tensorflow.data.compute_service import TfDataServiceConfig, tf_data_service

    monkeypatch.setenv("HOROVOD_START_TIMEOUT", "200")
    path, script = tmp_path / "compute.json", tmp_path / "driver.py"
    script.write_text(DRIVER)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    options = [
        *("--master", "local[2]", "--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.local.dir={temporary}", "pyspark-shell"),
    ]
    environment = {
        **clean_environment(),
        "PYTHONPATH": os.pathsep.join([*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(spark_folder)]),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": " ".join(options),
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TMPDIR": str(temporary),
    }
    compute = Job([str(script), str(path)], environment, program=sys.executable)
    jobs.append(compute)
    pids = compute.pids(1)
    config = TfDataServiceConfig.read(str(path), wait_for_file_creation=True)
    assert [each for addresses in config.addresses.values() for each, _ in addresses] == ["127.0.0.1"]
    received: List[Any] = []
    for rank in (0, 1):  # this process is both ranks of the training job, and runs both dispatchers
        with tf_data_service(config, rank) as address:
            distribute = tf.data.experimental.service.distribute("distributed_epoch", address)
            sent = tf.data.Dataset.range(6).map(lambda number: number * 10).apply(distribute)
            received.append((address, sorted(int(number) for number in sent)))
    config.compute_client().shutdown()
    assert compute.end() == 0, compute.text
    assert [numbers for _, numbers in received] == [[0, 10, 20, 30, 40, 50]] * 2
    assert len({address for address, _ in received}) == 2
    assert "LOADED []\n" in compute.text
    assert re.search(r"REFUSED the compute job has 2 processes and 3 dispatchers; .* multiple .* False\n", compute.text)
    assert not path.exists()
    assert_gone(pids)
