"""Hosts for tests: network namespaces, which are removed at the end of a test in every case.

Making them needs root; without root the tests are skipped with the reason.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import pytest
from namespaces import DEADLINE_S, FARANDOLE, Hosts, fixtures

sigterm_raises_system_exit = fixtures.sigterm_raises_system_exit
permitted = fixtures.permitted


@pytest.fixture(scope="session")
def rendezvous_command() -> None:
    if shutil.which(FARANDOLE) is None:
        pytest.skip(f"{FARANDOLE} is not there")
    help_output = subprocess.run(
        [FARANDOLE, "rendezvous", "--help"], check=False, capture_output=True, text=True, timeout=DEADLINE_S
    )
    if help_output.returncode != 0 or "--secret-file" not in help_output.stdout:
        pytest.skip(f"{FARANDOLE} has no command rendezvous with --size, --bind, --port and --secret-file")


@pytest.fixture(params=[2, 3], ids=["two-hosts", "three-hosts"])
def hosts(request: pytest.FixtureRequest, permitted: None, rendezvous_command: None, tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(request.param, tmp_path)
    try:
        made.make()
        yield made
    finally:
        made.remove()
