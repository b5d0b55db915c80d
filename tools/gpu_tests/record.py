"""A pytest plugin (`-p gpu_tests.record`) that records the outcome of each test in a file of this rank, line by line,
so that the tests before a crash are counted.

GPU_TESTS_RECORD names the folder of the files. The ranks of a job share it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_path = Path(os.environ["GPU_TESTS_RECORD"]) / f"{os.environ.get('HOROVOD_RANK', '0')}.jsonl"


def _write(**fields: str) -> None:
    with _path.open("a") as file:
        file.write(json.dumps(fields) + "\n")


def _reason(report: Any) -> str:
    """The reason of a skip, or the first line of an error."""
    if getattr(report, "wasxfail", None) is not None:
        return f"is expected to fail: {report.wasxfail}"
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    return text.strip().splitlines()[0] if text.strip() else ""


def pytest_sessionstart() -> None:
    _path.touch()


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(test=nodeid, outcome="begun", reason="")


def pytest_runtest_logreport(report: Any) -> None:
    if report.outcome != "passed" or report.when == "call":
        _write(test=report.nodeid, outcome=report.outcome, reason="" if report.passed else _reason(report))


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported, or that skips all its tests."""
    if report.outcome != "passed":
        _write(test=report.nodeid, outcome=report.outcome, reason=_reason(report))
