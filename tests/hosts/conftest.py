"""Hosts for tests: network namespaces, which are removed when a test ends, however it ends.

Making them needs root; elsewhere the tests are skipped and say so.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Iterator

import pytest
from namespaces import FARANDOLE, Hosts, why_not


@pytest.fixture(scope="session", autouse=True)
def ended_by_a_signal_as_by_an_exception() -> Iterator[None]:
    """So that SIGTERM, too, removes what was made."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def permitted() -> None:
    if reason := why_not():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def rendezvous_command() -> None:
    if shutil.which(FARANDOLE) is None:
        pytest.skip(f"{FARANDOLE} is not there")
    told = subprocess.run([FARANDOLE, "rendezvous", "--help"], check=False, capture_output=True, text=True, timeout=60)
    if told.returncode != 0 or "--secret-file" not in told.stdout:
        pytest.skip(f"{FARANDOLE} has no command rendezvous with --size, --bind, --port and --secret-file")


@pytest.fixture(params=[2, 3], ids=["two-hosts", "three-hosts"])
def hosts(request: pytest.FixtureRequest, permitted: None, rendezvous_command: None, tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(request.param, tmp_path)
    try:
        made.make()
        yield made
    finally:
        made.remove()
