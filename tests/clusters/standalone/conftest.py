"""A standalone cluster of Spark: a master and two workers of their own, started by Spark's script."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

import pytest
from spark_sessions import SHORT_LIVED, end

DEADLINE_S = 240
UNTIL_THE_TEST_ENDS = '"$@" & read line; kill 0'
"""For a shell: ends the daemon with its standard input, and so also when this process is killed."""
MARK = "FARANDOLE_TEST_STANDALONE"
"""In the environment of all processes of the cluster, and so of the job."""


class Daemons:
    """The processes of a cluster."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.folder = folder
        self._script = str(Path(pyspark.__file__).parent / "sbin/spark-daemon.sh")
        self._processes: List[subprocess.Popen[str]] = []
        self._environment = {
            **os.environ,
            MARK: str(folder),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "128m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Djava.io.tmpdir={folder} {SHORT_LIVED}",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_LOG_DIR": str(folder),
            "SPARK_PID_DIR": str(folder),
        }

    def start(self, kind: str, number: int, *words: str) -> Path:
        """Starts a master or a worker, and returns the file with its output."""
        log = self.folder / f"{kind}-{number}.log"
        name = f"org.apache.spark.deploy.{kind}.{kind.capitalize()}"
        own = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        with log.open("w") as output:
            self._processes.append(
                subprocess.Popen(
                    ["sh", "-c", UNTIL_THE_TEST_ENDS, "sh", self._script, "start", name, str(number), *own, *words],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=self._environment,
                    start_new_session=True,
                    text=True,
                )
            )
        return log

    def running(self) -> Dict[int, str]:
        """The command lines of the processes of the cluster and of its jobs, by process id."""
        found = {}
        for entry in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if f"{MARK}={self.folder}".encode() in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    line = Path(f"/proc/{entry}/cmdline").read_bytes().decode(errors="replace")
                    if line:  # no zombie
                        found[int(entry)] = line.replace("\0", " ")
        return found

    def close(self) -> None:
        """Ends the master and the workers."""
        for each in self._processes:
            assert each.stdin is not None
            each.stdin.close()
        for each in self._processes:
            each.wait(DEADLINE_S)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, wait_until: Any) -> Iterator[Daemons]:
    """A master and two workers. When they have ended, no process of theirs, of an executor or of a job is left."""
    daemons = Daemons(tmp_path_factory.mktemp("cluster"))
    try:
        yield daemons
    finally:
        daemons.close()
    wait_until(lambda: not daemons.running())


@pytest.fixture(scope="session")
def spark(cluster: Daemons, wait_until: Any) -> Iterator[Any]:
    """A session with an executor of two cores in each worker. The second failure of a task ends the job."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    assert SparkContext._active_spark_context is None, "a process has one session: run this folder by itself"
    log = cluster.start("master", 1)
    address = re.compile(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
    wait_until(lambda: address.search(log.read_text()))
    master = address.search(log.read_text())
    assert master is not None
    workers = []
    for number in (1, 2):
        where = str(cluster.folder / f"work-{number}")
        words = ["--cores", "2", "--memory", "800M", "--work-dir", where, master[1]]
        workers.append(cluster.start("worker", number, *words))
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.executor.memory": "600m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
        "spark.local.dir": str(cluster.folder / "local"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={cluster.folder} {SHORT_LIVED}",
        "spark.task.maxFailures": "2",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master(master[1]).appName("farandole tests")
        session = builder.config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        end(session)


@pytest.fixture(scope="session")
def wait_until() -> Any:
    """A function that waits for a condition."""
    import time

    def wait(condition: Any) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, "the condition did not become true in time"
            time.sleep(0.02)

    return wait
