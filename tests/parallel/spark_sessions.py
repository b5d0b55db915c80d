"""Sessions of Spark for tests, in a JVM that ends with them, and the output of examples that create a session."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
DEADLINE_S = 240
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that compiles quickly: the tests take half as long."""


def configuration(folder: Path, tasks: int) -> Dict[str, str]:
    """The settings of a session that runs this many tasks at once, with all its files in the folder."""
    return {
        "spark.master": f"local[{tasks}]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder} {SHORT_LIVED}",
    }


@contextlib.contextmanager
def local_session(folder: Path, tasks: int) -> Iterator[Any]:
    """A session with the settings of ``configuration()``, in a JVM that this process starts."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("farandole tests")
        for name, value in configuration(folder, tasks).items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        end(session)


def output_of_example(name: str, folder: Path, *arguments: str) -> str:
    """The output of a program of docs/examples that creates a session. It must succeed, and have under 120 lines."""
    program = EXAMPLES / name
    assert len(program.read_text().splitlines()) < 120
    options = [f"--conf {shlex.quote(f'{key}={value}')}" for key, value in configuration(folder, 2).items()]
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": " ".join([*options, "pyspark-shell"]),
        "PYSPARK_PYTHON": sys.executable,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, str(program), "--num-proc", "2", *arguments]
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def end(session: Any) -> None:
    """Ends a session and its JVM."""
    session.stop()
    gateway = type(session.sparkContext)._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the JVM ends when its standard input does
        gateway.proc.wait(DEADLINE_S)
