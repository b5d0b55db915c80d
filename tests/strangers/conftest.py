"""Attacks on running jobs: two hosts of the job and one of the attacker, each a network namespace.

An attacker does not have the secret of the job. FARANDOLE_STRANGERS_ROUNDS=N makes each attack N times, each time in
a new job, with large counts instead of small ones if N is more than one. FARANDOLE_STRANGERS_TABLE=FILE writes a table
of the attacks, their counts and their results.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Iterator

import pytest
from namespaces import Hosts, fixtures
from results import ROUNDS, Results
from training import Training, Wire

sigterm_raises_system_exit = fixtures.sigterm_raises_system_exit
permitted = fixtures.permitted


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.fixturenames.append("round_number")
    metafunc.parametrize("round_number", range(ROUNDS), ids=[f"round{number + 1}" for number in range(ROUNDS)])


@pytest.fixture(scope="session")
def results() -> Iterator[Results]:
    made = Results()
    yield made
    if path := os.environ.get("FARANDOLE_STRANGERS_TABLE"):
        Path(path).write_text(made.markdown())


@pytest.fixture(scope="session")
def many() -> bool:
    """Whether attacks with a count use the large count."""
    return ROUNDS > 1


@pytest.fixture
def hosts(permitted: None, tmp_path: Path) -> Iterator[Hosts]:
    made = Hosts(2, tmp_path, guests=1)
    try:
        made.make()
        yield made
    finally:
        made.remove()


@pytest.fixture
def train(hosts: Hosts, tmp_path: Path) -> Callable[..., Training]:
    def start(manner: str = "plain", **more: object) -> Training:
        made = Training(hosts, tmp_path, manner, **more)  # type: ignore[arg-type]
        made.wait_until_training()
        return made

    return start


@pytest.fixture
def wire(hosts: Hosts, tmp_path: Path) -> Wire:
    """The man in the middle between the first host and all other hosts."""
    return Wire(hosts, tmp_path)


def _undisturbed(folder: Path, per_host: int) -> str:
    made = Hosts(2, folder)
    try:
        made.make()
        job = Training(made, folder, per_host=per_host)
        job.wait_until_training()
        return job.finish()
    finally:
        made.remove()


@pytest.fixture(scope="session")
def undisturbed(permitted: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the final weights of a training without attacks."""
    return _undisturbed(tmp_path_factory.mktemp("undisturbed"), 1)


@pytest.fixture(scope="session")
def undisturbed_by_four(permitted: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same digest with two workers on each host."""
    return _undisturbed(tmp_path_factory.mktemp("undisturbed"), 2)
