"""A Spark session with real executors, which tests may kill."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Iterator, List

import pytest
from spark_sessions import end


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two executors with two cores and two pretended GPUs each; Spark replaces an executor that dies."""
    from horovod.spark import conf
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    gpus = folder / "gpus"
    gpus.write_text('#!/bin/sh\necho \'{"name": "gpu", "addresses": ["0", "1"]}\'\n')
    gpus.chmod(0o755)
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "700m",
        "spark.local.dir": str(folder / "local"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder}",
        "spark.worker.resource.gpu.amount": "2",
        "spark.worker.resource.gpu.discoveryScript": str(gpus),
        "spark.executor.resource.gpu.amount": "2",
        "spark.task.resource.gpu.amount": "1",
    }
    # Both executors are on the same node, so only executors are excluded.
    exclusion = [
        conf.SPARK_CONF_ALWAYS_RESTART_FAILED_TASK,
        conf.SPARK_CONF_BLACKLIST_ENABLED,
        conf.SPARK_CONF_DONT_REUSE_FAILED_EXECUTOR,
        conf.SPARK_CONF_REUSE_FAILING_EXECUTOR_IN_APP,
        conf.SPARK_CONF_DONT_REUSE_EXECUTOR_FOR_SAME_TASK,
        conf.SPARK_CONF_REUSE_FAILED_NODE,
        conf.SPARK_CONF_REUSE_FAILING_NODE_IN_APP,
        conf.SPARK_CONF_REUSE_NODE_ALWAYS_FOR_SAME_TASK,
    ]
    settings.update(map(conf.renamed, exclusion))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # The workers of Spark write their folders below the present one.
        patch.setenv("SPARK_WORKER_DIR", str(folder / "work"))
        patch.setenv("SPARK_HOME", _spark_home(folder))
        builder = SparkSession.builder.master("local-cluster[2,2,700]").appName("farandole tests")
        session = builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        end(session)


def _spark_home(folder: Path) -> str:
    """A copy of Spark's folder by links, so that its workers write here."""
    import pyspark

    home = folder / "home"
    home.mkdir()
    for entry in Path(pyspark.__file__).parent.iterdir():
        (home / entry.name).symlink_to(entry)
    return str(home)


@pytest.fixture
def executors(spark: Any) -> Any:
    """A function that returns the process ids of the executors."""

    def ids() -> List[int]:
        found = []
        for entry in filter(str.isdecimal, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/cmdline") as file:
                    words = file.read()
            except OSError:
                continue
            if "CoarseGrainedExecutorBackend" in words and spark.sparkContext.applicationId in words:
                found.append(int(entry))
        return sorted(found)

    return ids
